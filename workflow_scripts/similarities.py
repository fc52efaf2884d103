"""Tell how similar the sentences of pairs or triplets are, by an encoder.

    python workflow_scripts/similarities.py \\
        --spec '{"config": {"dataset": {"source": "stsb", ...}, "recipe": {"max_tokens": 128}, ...}, ...}' \\
        --encoder results/stsb/systems/condenser-sentences/n500-seed1/model \\
        --items results/stsb/data/items.test.jsonl \\
        --output results/stsb/systems/condenser-sentences/n500-seed1/similarities.test.tsv \\
        --manifest results/stsb/systems/condenser-sentences/n500-seed1/similarities.test.tsv.manifest.json

Reads the encoder and the items of a split. Writes for each item its id and its similarities (of a pair the
cosine, of a triplet minus the two distances from the anchor), and the manifest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--encoder", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--items", type=Path, required=True, help="items.SPLIT.jsonl")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args(argv)
    config = args.spec["config"]

    from condenser.data import sources
    from condenser.model.devices import set_up
    from condenser.retrieve.similarities import write_model_similarities

    manifest = Manifest(args.manifest, args.spec, inputs=[args.encoder, args.items])
    compute = set_up(**config["compute"])
    task = sources.task(config["dataset"])
    assert task is not None
    counts = write_model_similarities(
        args.encoder,
        args.items,
        args.output,
        task=task,
        max_tokens=config["recipe"]["max_tokens"],
        batch_tokens=config["encode"]["batch_tokens"],
        compute=compute,
    )
    manifest.write(outputs=[args.output], counts=counts, device=str(compute))


if __name__ == "__main__":
    program.run(main)
