"""Measure similarities of pairs or triplets of sentences.

    python workflow_scripts/sentence_metrics.py \\
        --spec '{"config": {"metrics": {"measures": ["spearman"]}}, ...}' \\
        --similarities results/stsb/systems/condenser-sentences/n500-seed1/similarities.test.tsv \\
        --items results/stsb/data/items.test.jsonl \\
        --output results/stsb/systems/condenser-sentences/n500-seed1/metrics.test.json \\
        --manifest results/stsb/systems/condenser-sentences/n500-seed1/metrics.test.json.manifest.json

Reads the similarities and the items. Writes the measures (their means, and the values of each item, which
docs/using.md explains) as JSON, and the manifest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--similarities", type=Path, required=True)
    parser.add_argument("--items", type=Path, required=True, help="items.SPLIT.jsonl")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args(argv)

    from condenser.evaluate.metrics import evaluate_sentences

    manifest = Manifest(args.manifest, args.spec, inputs=[args.similarities, args.items])
    counts = evaluate_sentences(
        args.similarities,
        args.items,
        args.output,
        system=args.spec["wildcards"]["system"],
        measures=args.spec["config"]["metrics"]["measures"],
    )
    manifest.write(outputs=[args.output], counts=counts)


if __name__ == "__main__":
    program.run(main)
