"""Make a table from the metrics of its rows, and show it.

    python workflow_scripts/table.py --spec '{"config": {"table": {"rows": [...], ...}, ...}, ...}' \\
        --metrics results/msmarco/systems/bm25/untrained/metrics.dev.json ... \\
        --counts results/msmarco/data/counts.json --output results/msmarco/table2.tsv \\
        --manifest results/msmarco/table2.tsv.manifest.json

Reads the metrics of every row and variant, query by query, in the order of the spec's rows, for one
evaluation set of its columns after another, and the counts of their collections, its own first; with --models
instead of --metrics, where no query is judged, the cells of the measures are empty; with --published the
figures of papers, which stand in the table only beside a run on the official collection. Writes the table as
TSV and the manifest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    of_rows = parser.add_mutually_exclusive_group(required=True)
    of_rows.add_argument("--metrics", type=Path, nargs="+", default=[])
    of_rows.add_argument("--models", type=Path, nargs="*", help="what the rows are made of")
    parser.add_argument("--counts", type=Path, nargs="+", required=True)
    parser.add_argument(
        "--published", type=Path, nargs="+", default=[], help="files of condenser/evaluate/published/"
    )
    parser.add_argument("--overlays", nargs="+", default=[], help="to be named in a command that searches")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args(argv)
    config, dataset = args.spec["config"], args.spec["wildcards"]["dataset"]
    inputs = [*args.metrics, *(args.models or []), *args.counts, *args.published]
    manifest = Manifest(args.manifest, args.spec, inputs=inputs)

    from condenser.evaluate import published as figures
    from condenser.evaluate import tables
    from condenser.evaluate.columns import Column
    from condenser.evaluate.comparisons import measured, read_metrics
    from condenser.files import read_json

    settings = config["table"]
    rows, columns = settings["rows"], [Column(**column) for column in settings["columns"]]
    metrics = read_metrics(rows, columns, args.metrics)
    datasets = dict.fromkeys([dataset, *(column.dataset for column in columns)])
    counts = {name: read_json(file) for name, file in zip(datasets, args.counts, strict=True)}
    table = tables.make_table(
        rows,
        columns,
        metrics,
        sets=tables.evaluation_sets(columns, counts),
        found=measured(rows, columns, settings["comparisons"], metrics, significance=config["significance"]),
        starts=settings["starts"],
        published=figures.rows_of(args.published),
        left_out=settings["left_out"],
    )
    tables.write_table(args.output, table)
    print(tables.rendered(table, confidence=config["significance"]["confidence"]))
    if args.models:
        print(tables.made_unmeasured(args.models, rows, dataset=dataset, overlays=args.overlays))
    manifest.write(outputs=[args.output], counts={"rows": len(table)})


if __name__ == "__main__":
    program.run(main)
