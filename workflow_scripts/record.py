"""Record how a table was made.

Reads the manifests of all jobs behind the table, what is needed first. Writes a JSON file with the settings,
versions, times and digests of these jobs, and one digest of all their results.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.files import write_json
    from condenser.pipeline.record import make_record, read_runs

    job.reads(job.input.manifests)
    record = make_record(job.input.table, read_runs(job.input.manifests))
    write_json(job.output.record, record)
    num_jobs, digest = len(record["jobs"]), record["digest"]
    print(f"{job.output.record}: {num_jobs} jobs, digest of all results {digest}")
    return {"jobs": num_jobs, "digest": digest}


if __name__ == "__main__":
    run_job(main)
