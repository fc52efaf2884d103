"""Write the official queries of a data set that nobody judged as those of a split.

    python workflow_scripts/unjudged.py .snakemake/jobs/unjudged-0123456789abcdef.json

Reads official files. Writes queries.<name>.jsonl, rejected.jsonl (the rows left out under bad_rows: skip),
counts.json, and the manifest.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data import sources

    counts: dict[str, Any] = sources.load(job.settings.dataset).collect_unjudged(
        job.output.queries.parent,
        {file.name: file for file in job.input.downloads},
        name=job.wildcards["split"],
        bad_rows=job.settings.dataset.bad_rows,
    )
    return counts


if __name__ == "__main__":
    run_job(main)
