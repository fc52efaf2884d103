"""Average the scores that several systems give the same hits.

    python workflow_scripts/ensemble.py .snakemake/jobs/ensemble-0123456789abcdef.json

Reads the runs, in the order of the system's `of`. Writes a TREC run and the manifest.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.records import write_run
    from condenser.retrieve.fusion import averaged_run

    run = averaged_run(job.input.runs)
    return {"hits": write_run(job.output.run, run, system=job.wildcards["system"])}


if __name__ == "__main__":
    run_job(main)
