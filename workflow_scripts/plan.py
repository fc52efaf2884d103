"""Work out what each job of a table takes, without running any.

    python workflow_scripts/plan.py --spec '{"config": {"compute": {"threads": 2, ...}}, ...}' \\
        --jobs results/.work/plan/msmarco/table2/jobs-0123.json --device H200 \\
        --tables condenser/pipeline/costs/tables \\
        --output results/msmarco/table2.plan.H200.tsv --manifest ....plan.H200.tsv.manifest.json

Reads the table's jobs with their settings, what is finished of them and its token shards, the tables of rates
and sizes, and the first lines of a user's own collection. With --device measure the rates are those of this
machine, measured first (some seconds). Writes the plan as TSV, and the manifest; prints the total with its
range, and what nobody has measured.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument(
        "--jobs", type=Path, required=True, help="the table's jobs and results, from the rule"
    )
    parser.add_argument("--device", required=True, help="a name in devices.tsv, or measure")
    parser.add_argument("--tables", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args(argv)
    compute, dataset = arguments.spec["config"]["compute"], arguments.spec["wildcards"]["dataset"]

    from condenser.pipeline.costs.jobs import read_jobs
    from condenser.pipeline.costs.plan import make_plan, rendered, write_plan
    from condenser.pipeline.costs.tables import Tables

    jobs, tables = read_jobs(arguments.jobs), Tables(arguments.tables)
    counted = [job.manifest for job in jobs if job.manifest]
    manifest = Manifest(
        arguments.manifest, arguments.spec, inputs=[*sorted(arguments.tables.glob("*.tsv")), *counted]
    )
    if arguments.device == "measure":
        from condenser.model.devices import set_up
        from condenser.pipeline.costs.measure import measure_device

        own = set_up(**compute)
        device = measure_device(
            own.device, precision=own.precision, threads=compute["threads"], clock=time.perf_counter
        )
    else:
        device = tables.device(arguments.device)
    rows = make_plan(jobs, dataset, tables=tables, device=device, threads=compute["threads"])
    write_plan(rows, arguments.output)
    print(rendered(rows))
    counts = {"stages": len(rows) - 1, "jobs": len(jobs), "device": asdict(device)}
    manifest.write(outputs=[arguments.output], counts=counts, device=device.name)


if __name__ == "__main__":
    program.run(main)
