"""Make the backbone folder that pre-training and fine-tuning start from.

    python workflow_scripts/backbone.py --spec '{"config": {"source": "embedded"}, "seed": 42, ...}' \\
        --collection results/msmarco/data/collection.jsonl \\
        --output results/msmarco/models/backbone --manifest results/msmarco/models/backbone.manifest.json

Settings: `source` (embedded | hub | folder | scratch) and what that source needs: `id` and
`revision`; `path`; `hidden_size`, `num_layers`, `num_heads`, `intermediate_size`, `vocab_size`,
`max_positions`. Reads the checkpoint; reads the collection only to learn a vocabulary (scratch).
Writes a Hugging Face folder with `mlm_head.safetensors` beside its weights, and the manifest, which
says whether pooler and masked language head came from the checkpoint or are new.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

from condenser import program

SHAPE = ("hidden_size", "num_layers", "num_heads", "intermediate_size", "vocab_size", "max_positions")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=json.loads, required=True)
    parser.add_argument("--collection", type=Path, help="texts of a vocabulary; source scratch only")
    parser.add_argument(
        "--mirror", default="", help="folder with checkpoints under their hub id; else CONDENSER_MIRROR"
    )
    parser.add_argument("--output", type=Path, required=True, help="the backbone's folder")
    parser.add_argument("--manifest", type=Path, required=True)
    arguments = parser.parse_args(argv)
    config = arguments.spec["config"]
    from_scratch = config["source"] == "scratch"
    if from_scratch and arguments.collection is None:
        raise ValueError(
            "--collection: expected a collection, got none. Source scratch learns its words there."
        )
    inputs = [arguments.collection] if from_scratch else []
    manifest = program.Manifest(arguments.manifest, arguments.spec, inputs=inputs)

    from condenser.data.records import read_passages
    from condenser.model.backbone import prepare_backbone

    counts = prepare_backbone(
        config["source"],
        arguments.output,
        seed=arguments.spec["seed"],
        hub_id=config.get("id"),
        revision=config.get("revision"),
        mirror=arguments.mirror or os.environ.get("CONDENSER_MIRROR"),
        path=config.get("path"),
        shape={name: config[name] for name in SHAPE} if from_scratch else None,
        texts=(
            text
            for passage in (read_passages(arguments.collection) if from_scratch else ())
            for text in (passage.title, passage.text)
        ),
    )
    manifest.write(outputs=[arguments.output], counts=counts)


if __name__ == "__main__":
    program.run(main)
