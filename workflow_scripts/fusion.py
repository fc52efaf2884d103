"""Fuse the runs of several systems.

Reads the runs, in the order of the system's `of`, the queries, and the weights where they are learnt. Writes
a TREC run and the manifest.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.records import write_run
    from condenser.data.subsets import read_subset
    from condenser.retrieve.fusion import fused_run, weights_of

    files, system = job.input, job.settings.system
    run = fused_run(
        files.runs,
        files.queries,
        subset=read_subset(files.subset) if files.subset else None,
        method=system.method,
        weights=weights_of(system.weights, files.weights or None),
        depth=job.settings.depth,
        k=system.k,
    )
    return {"hits": write_run(job.output.run, run, system=job.wildcards["system"])}


if __name__ == "__main__":
    run_job(main)
