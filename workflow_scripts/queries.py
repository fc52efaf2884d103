"""Check queries without judgements, and write them as those of a split.

    python workflow_scripts/queries.py .snakemake/jobs/queries-0123456789abcdef.json

Reads a file of queries: JSON Lines or TSV, plain or gzip. Writes queries.<name>.jsonl, rejected.jsonl (the
rows left out under bad_rows: skip), counts.json, and the manifest.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.unjudged import collect_unjudged

    return collect_unjudged(
        job.input.file,
        job.output.queries.parent,
        name=job.wildcards["split"],
        bad_rows=job.settings.dataset.bad_rows,
    )


if __name__ == "__main__":
    run_job(main)
