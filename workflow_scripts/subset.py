"""Draw a subset of the train queries.

    python workflow_scripts/subset.py --spec '{"config": {"train_queries": 1000, "seed": 1}, ...}' \\
        --queries results/msmarco/data/queries.train.jsonl \\
        --output results/msmarco/subsets/n1000-seed1.txt \\
        --manifest results/msmarco/subsets/n1000-seed1.txt.manifest.json

Reads the train queries. Writes the ids of the subset, one a line, in the order of the queries, and the
manifest. Of one seed, a smaller subset lies inside a larger one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument(
        "--queries", type=Path, required=True, help="queries.SPLIT.jsonl or items.SPLIT.jsonl"
    )
    parser.add_argument("--output", type=Path, required=True, help="the ids")
    args = parser.parse_args(argv)

    from condenser.data.subsets import write_subset

    config = args.spec["config"]
    manifest = Manifest(args.manifest, args.spec, inputs=[args.queries])
    counts = write_subset(args.queries, args.output, count=config["train_queries"], seed=config["seed"])
    manifest.write(outputs=[args.output], counts=counts)


if __name__ == "__main__":
    program.run(main)
