"""Combine the runs of several systems.

Reads the runs and the queries; writes a TREC run and the manifest.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.records import write_run
    from condenser.systems.comb_mnz import combined_run

    run = combined_run(job.input.runs, job.input.queries, depth=job.settings.depth)
    return {"hits": write_run(job.output.run, run, system=job.wildcards["system"])}


if __name__ == "__main__":
    run_job(main)
