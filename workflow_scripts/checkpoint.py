"""Make the folder of a model that exists already, or of a new BERT: what trainings start from.

    python workflow_scripts/checkpoint.py \\
        --spec '{"config": {"model": {"source": "embedded", ...}, "seed": 42}, ...}' --mirror '' \\
        --output results/msmarco/models/backbone \\
        --manifest results/msmarco/models/backbone.manifest.json

The settings are the model's entry of the configuration. Reads the checkpoint; reads the collection only to
learn a vocabulary (source scratch). Writes a Hugging Face folder with `mlm_head.safetensors` beside its
weights, and the manifest, which says whether pooler and MLM head came from the checkpoint or are new.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--collection", type=Path, help="texts of a vocabulary; source scratch only")
    parser.add_argument(
        "--mirror", default="", help="folder with checkpoints under their hub id; else CONDENSER_MIRROR"
    )
    parser.add_argument("--output", type=Path, required=True, help="the model's folder")
    args = parser.parse_args(argv)
    settings = args.spec["config"]["model"]

    from condenser.objectives import checkpoint

    files = [args.collection] if args.collection else []
    manifest = Manifest(args.manifest, args.spec, inputs=[*files, *checkpoint.local_files(settings)])
    counts = checkpoint.prepare(
        settings,
        args.output,
        seed=args.spec["config"]["seed"],
        mirror=args.mirror or os.environ.get("CONDENSER_MIRROR"),
        collection=args.collection,
    )
    manifest.write(outputs=[args.output], counts=counts)


if __name__ == "__main__":
    program.run(main)
