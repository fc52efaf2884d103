"""Make a table from the metrics of its rows, and show it.

Reads the metrics of every row and variant, query by query, in the order of the spec's rows, for one
evaluation set of its columns after another, and the counts of their collections, its own first; the models
that the rows are made of instead of metrics, where no query is judged: the cells of the measures are empty
then; the figures of papers, which stand in the table only beside a run on the official collection; for the
notes, the lengths of the texts, the losses and the comparisons with their starts of the trainings that the
spec names, and the counts in the manifests of the jobs behind the rows. Writes the table as TSV, its notes
and the manifest. If the table has `compare_with`, the last lines on the terminal say which row is best.
"""

from __future__ import annotations

import textwrap
from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.lengths import read_text_lengths
    from condenser.evaluate import notes, tables
    from condenser.evaluate import published as figures
    from condenser.evaluate.columns import Column
    from condenser.evaluate.comparisons import (
        make_comparisons,
        measure_columns,
        read_metrics,
        values_of_rows,
    )
    from condenser.evaluate.conclusion import conclusion
    from condenser.evaluate.labels import label_lines
    from condenser.files import read_json
    from condenser.manifest import read_manifest

    files, settings, dataset = job.input, job.settings.table, job.wildcards["dataset"]
    significance = vars(job.settings.significance)
    rows, columns = settings.rows, [Column(**column) for column in settings.columns]
    metrics = read_metrics(rows, columns, files.metrics)
    datasets = dict.fromkeys([dataset, *(column.dataset for column in columns)])
    counts = {name: read_json(file) for name, file in zip(datasets, files.counts, strict=True)}
    by_column = measure_columns(rows, columns, settings.comparisons, metrics, significance=significance)
    table = tables.make_table(
        rows,
        columns,
        metrics,
        sets=tables.evaluation_sets(columns, counts),
        by_column=by_column,
        starts=settings.starts,
        published=figures.rows_of(files.published),
        left_out=settings.left_out,
    )
    tables.write_table(job.output.table, table)
    noted = settings.notes
    of_texts = dict.fromkeys((one["dataset"], one["model"]) for one in noted["texts"])
    lines = notes.notes_of_table(
        dataset=dataset,
        columns=columns,
        counts=counts,
        noted=noted,
        lengths=dict(zip(of_texts, map(read_text_lengths, files.lengths), strict=True)),
        losses=files.losses,
        validations=files.validations,
        records=list(map(read_manifest, files.counted)),
        by_column=by_column,
        unknown_words=job.settings.notes.unknown_words,
    )
    first = columns[0]
    if first.place in metrics:
        values = values_of_rows(rows, first, metrics)
        lines += label_lines(rows, values, measure=first.name, significance=significance)
    notes.write_notes(job.output.notes, lines)
    print(tables.render_table(table, confidence=significance["confidence"], notes=lines))
    overlays, searchable = job.options.overlays, job.options.searchable
    if files.models:
        asked = [row["system"] for row in rows if row["system"] in searchable]
        print(tables.describe_unmeasured(files.models, asked, dataset=dataset, overlays=overlays))
    if job.options.is_tested:
        tests = make_comparisons(rows, by_column).astype({"smallest_detectable_difference": float})
        answer, command = conclusion(
            tests.to_dict("records"), rows, dataset=dataset, searchable=searchable, overlays=overlays
        )
        next_step = ["To search with it:", f"  {command}"] if command else []
        print("", *textwrap.wrap(answer, 120), *next_step, sep="\n")
    return {"rows": len(table)}


if __name__ == "__main__":
    run_job(main)
