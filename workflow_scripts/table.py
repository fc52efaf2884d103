"""Make a table from the metrics of its rows, and show it.

    python workflow_scripts/table.py --spec '{"config": {"table": {"rows": [...], ...}, ...}, ...}' \\
        --metrics results/msmarco/systems/bm25/untrained/metrics.dev.json ... \\
        --counts results/msmarco/data/counts.json --output results/msmarco/table2.tsv \\
        --notes results/msmarco/table2.tsv.notes.txt \\
        --manifest results/msmarco/table2.tsv.manifest.json

Reads the metrics of every row and variant, query by query, in the order of the spec's rows, for one
evaluation set of its columns after another, and the counts of their collections, its own first; with --models
instead of --metrics, where no query is judged, the cells of the measures are empty; with --published the
figures of papers, which stand in the table only beside a run on the official collection; for the notes, the
lengths of the texts and the losses of the trainings that the spec names. Writes the table as TSV, its notes
and the manifest.
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
    parser.add_argument("--lengths", type=Path, nargs="*", default=[], help="of the texts, for notes")
    parser.add_argument("--losses", type=Path, nargs="*", default=[], help="of the trainings, for notes")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--notes", type=Path, required=True, help="the notes to write")
    args = parser.parse_args(argv)
    config, dataset = args.spec["config"], args.spec["wildcards"]["dataset"]
    inputs = [*args.metrics, *(args.models or []), *args.counts, *args.published]
    inputs += [*args.lengths, *args.losses]
    manifest = Manifest(args.manifest, args.spec, inputs=inputs)

    from condenser.data.lengths import read_text_lengths
    from condenser.evaluate import notes, tables
    from condenser.evaluate import published as figures
    from condenser.evaluate.columns import Column
    from condenser.evaluate.comparisons import measured, read_metrics
    from condenser.files import read_json

    settings = config["table"]
    rows, columns = settings["rows"], [Column(**column) for column in settings["columns"]]
    metrics = read_metrics(rows, columns, args.metrics)
    datasets = dict.fromkeys([dataset, *(column.dataset for column in columns)])
    counts = {name: read_json(file) for name, file in zip(datasets, args.counts, strict=True)}
    found = measured(rows, columns, settings["comparisons"], metrics, significance=config["significance"])
    table = tables.make_table(
        rows,
        columns,
        metrics,
        sets=tables.evaluation_sets(columns, counts),
        found=found,
        starts=settings["starts"],
        published=figures.rows_of(args.published),
        left_out=settings["left_out"],
    )
    tables.write_table(args.output, table)
    noted = settings["notes"]
    of_texts = dict.fromkeys((one["dataset"], one["model"]) for one in noted["texts"])
    lines = notes.notes_of_table(
        dataset=dataset,
        columns=columns,
        counts=counts,
        noted=noted,
        lengths=dict(zip(of_texts, map(read_text_lengths, args.lengths), strict=True)),
        losses=args.losses,
        found=found,
        unknown_words=config["notes"]["unknown_words"],
    )
    notes.write_notes(args.notes, lines)
    print(tables.rendered(table, confidence=config["significance"]["confidence"], notes=lines))
    if args.models:
        print(tables.made_unmeasured(args.models, rows, dataset=dataset, overlays=args.overlays))
    manifest.write(outputs=[args.output, args.notes], counts={"rows": len(table)})


if __name__ == "__main__":
    program.run(main)
