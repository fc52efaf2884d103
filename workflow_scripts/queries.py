"""Check queries without judgements, and write them as those of a split.

Reads a file of queries (JSON Lines or TSV, plain or gzip) and the collection, or official files that hold
some. Writes queries.<name>.jsonl, rejected.jsonl (the rows left out under bad_rows: skip), counts.json, and
the manifest.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data import sources
    from condenser.data.unjudged import collect_unjudged

    dataset, folder = job.settings.dataset, job.output.queries.parent
    options = {"name": job.wildcards["split"], "bad_rows": dataset.bad_rows}
    if job.input.downloads:
        official = {file.name: file for file in job.input.downloads}
        counts: dict[str, Any] = sources.load(dataset).collect_unjudged(folder, official, **options)
        return counts
    (file,) = job.input.files
    is_split = dataset.split is not None
    collection, doc_ids = job.input.texts
    texts = {"collection": collection, "doc_ids": doc_ids, "is_split": is_split}
    return collect_unjudged(file, folder, **texts, **options)


if __name__ == "__main__":
    run_job(main)
