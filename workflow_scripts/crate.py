"""Pack the manifests behind a table as a Provenance Run Crate.

    python workflow_scripts/crate.py .snakemake/jobs/crate-0123456789abcdef.json

Reads the table, the manifests of all jobs behind it, what is needed first, and the Snakefile. Writes a ZIP
file, which says what was run when, from what, with what digests, and has one digest of the whole run.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.pipeline.provenance import read_runs, write_crate

    job.reads(job.input.manifests)
    runs, names = read_runs(job.input.manifests), job.wildcards
    digest = write_crate(
        job.output.crate,
        runs,
        table=job.input.table,
        workflow=job.input.workflow,
        title=f"{names['table']} of {names['dataset']}",
    )
    print(f"{job.output.crate}: {len(runs)} jobs, digest of the run {digest}")
    return {"jobs": len(runs), "digest": digest}


if __name__ == "__main__":
    run_job(main)
