"""Draw a figure, and write the numbers that it shows.

Reads what the figure's kind (`condenser/evaluate/figures/`) says, in the order of its rows. Writes the
numbers as TSV, the picture as SVG, and the manifest.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.evaluate import figures
    from condenser.evaluate.figures._drawing import svg
    from condenser.evaluate.tables import write_table
    from condenser.files import atomic_write

    settings, output = job.settings.figure, job.output
    kind = figures.load(settings)
    files = [*job.input.files, *job.input.published]
    table = kind.table(settings, files, significance=vars(job.settings.significance))
    write_table(output.table, table)
    with atomic_write(output.picture) as file:
        file.write(svg(lambda: kind.picture(table, settings)))
    print(f"{output.picture}: drawn from {len(table)} rows, which are in {output.table}")
    return {"rows": len(table)}


if __name__ == "__main__":
    run_job(main)
