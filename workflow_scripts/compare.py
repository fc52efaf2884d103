"""Compare the rows of a table: differences with their intervals, and tests.

    python workflow_scripts/compare.py --spec '{"config": {"table": {"rows": [...], ...}, ...}, ...}' \\
        --metrics results/msmarco/systems/bm25/untrained/metrics.dev.json ... \\
        --output results/msmarco/table2.tests.tsv --manifest results/msmarco/table2.tests.tsv.manifest.json

Reads the metrics of every row and variant, query by query, in the order of the spec's rows, for one
evaluation set of its columns after another. Writes the TSV that docs/using.md describes, and the
manifest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--metrics", type=Path, nargs="+", required=True)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args(argv)
    table = args.spec["config"]["table"]
    manifest = Manifest(args.manifest, args.spec, inputs=args.metrics)

    from condenser.evaluate import comparisons, tables
    from condenser.evaluate.columns import Column

    columns = [Column(**column) for column in table["columns"]]
    metrics = comparisons.read_metrics(table["rows"], columns, args.metrics)
    significance = args.spec["config"]["significance"]
    found = comparisons.measured(
        table["rows"], columns, table["comparisons"], metrics, significance=significance
    )
    frame = comparisons.make_comparisons(table["rows"], found)
    tables.write_table(args.output, frame)
    print(comparisons.rendered_comparisons(frame))
    manifest.write(outputs=[args.output], counts={"lines": len(frame)})


if __name__ == "__main__":
    program.run(main)
