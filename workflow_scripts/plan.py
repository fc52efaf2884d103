"""Work out what each job of a table takes, without running any.

    python workflow_scripts/plan.py .snakemake/jobs/plan-0123456789abcdef.json

Reads the table's jobs with their settings, what is finished of them and its token shards, the tables of rates
and sizes, and the first lines of a user's own collection. With the device `measure` the rates are those of
this machine, measured first (some seconds). Writes the plan as TSV, and the manifest; prints the total with
its range, and what nobody has measured.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.pipeline.costs.jobs import read_jobs
    from condenser.pipeline.costs.plan import make_plan, rendered, write_plan
    from condenser.pipeline.costs.tables import Tables

    compute = job.settings.compute
    jobs, tables = read_jobs(Path(job.options.counted)), Tables(job.input.tables[0].parent)
    job.reads([Path(planned.manifest) for planned in jobs if planned.manifest])
    if job.options.device == "measure":
        from condenser.model.devices import set_up
        from condenser.pipeline.costs.measure import measure_device

        own = set_up(**vars(compute))
        device = measure_device(
            own.device, precision=own.precision, threads=compute.threads, clock=time.perf_counter
        )
    else:
        device = tables.device(job.options.device)
    job.device = device.name
    rows = make_plan(jobs, job.wildcards["dataset"], tables=tables, device=device, threads=compute.threads)
    write_plan(rows, job.output.plan)
    print(rendered(rows))
    return {"rules": len(rows) - 1, "jobs": len(jobs), "device": asdict(device)}


if __name__ == "__main__":
    run_job(main)
