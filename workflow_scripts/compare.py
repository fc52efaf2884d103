"""Compare the rows of a table: differences with their intervals, and tests.

Reads the metrics of every row and variant, query by query, in the order of the spec's rows, for one
evaluation set of its columns after another. Writes the TSV that docs/reading.md describes, and the manifest.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.evaluate import comparisons, tables
    from condenser.evaluate.columns import Column

    table = job.settings.table
    columns = [Column(**column) for column in table.columns]
    metrics = comparisons.read_metrics(table.rows, columns, job.input.metrics)
    significance = vars(job.settings.significance)
    by_column = comparisons.measure_columns(
        table.rows, columns, table.comparisons, metrics, significance=significance
    )
    frame = comparisons.make_comparisons(table.rows, by_column)
    tables.write_table(job.output.tests, frame)
    print(comparisons.render_comparisons(frame))
    return {"lines": len(frame)}


if __name__ == "__main__":
    run_job(main)
