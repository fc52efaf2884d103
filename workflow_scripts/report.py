"""Write the report of a data set from the results that exist.

Reads what the workflow found of the data set (its manifests, and what the configuration of today says of
them) and the results themselves. Makes none of them. Writes one HTML file, which needs no network, and the
manifest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.files import atomic_write
    from condenser.report.collect import Report
    from condenser.report.page import page
    from condenser.report.queries import Limits
    from condenser.report.state import read_state

    search = {"searchable": job.options.searchable, "overlays": job.options.overlays}
    report = Report(job.wildcards["dataset"], *read_state(Path(job.options.counted)), search)
    job.reads(report.files())
    text, counts = page(report, Limits(**vars(job.settings.report)))
    with atomic_write(job.output.report) as file:
        file.write(text.encode())
    print(
        f"{job.output.report}: {counts['bytes'] / 1e6:.1f} MB, {counts['results']} results "
        f"({counts['out_of_date']} out of date), {counts['queries']} queries"
    )
    return counts


if __name__ == "__main__":
    run_job(main)
