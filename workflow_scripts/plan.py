"""Write what each job of a table takes.

Reads the rows that the workflow worked out. Writes them as TSV, and the manifest; prints the total.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.files import read_json
    from condenser.pipeline.costs import rendered, write_plan

    rows = read_json(Path(job.options.counted))
    write_plan(rows, job.output.plan)
    print(rendered(rows))
    return {"rules": len(rows) - 1, "jobs": rows[-1]["jobs"]}


if __name__ == "__main__":
    run_job(main)
