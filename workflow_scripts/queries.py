"""Check queries without judgements, and write them as those of a split.

    python workflow_scripts/queries.py \\
        --spec '{"wildcards": {"dataset": "mine", "split": "log"}, \
"config": {"dataset": {"bad_rows": "strict"}}, ...}' \\
        --file ../mine/log.tsv --output results/mine/queries/log \\
        --manifest results/mine/queries/log.manifest.json

Reads a file of queries: JSON Lines or TSV, plain or gzip. Writes queries.<name>.jsonl, rejected.jsonl (the
rows left out under bad_rows: skip), counts.json, and the manifest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--file", type=Path, required=True, help="the user's queries")
    parser.add_argument("--output", type=Path, required=True, help="folder of what is written")
    arguments = parser.parse_args(argv)
    manifest = Manifest(arguments.manifest, arguments.spec, inputs=[arguments.file])

    from condenser.data.unjudged import collect_unjudged

    name = arguments.spec["wildcards"]["split"]
    counts = collect_unjudged(
        arguments.file,
        arguments.output,
        name=name,
        bad_rows=arguments.spec["config"]["dataset"]["bad_rows"],
    )
    outputs = [f"queries.{name}.jsonl", "rejected.jsonl", "counts.json"]
    manifest.write(outputs=[arguments.output / file for file in outputs], counts=counts)


if __name__ == "__main__":
    program.run(main)
