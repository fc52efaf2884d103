"""Make queries from a collection: titles, sentences, or keywords of high BM25 weight.

Reads the collection. Writes queries.<name>.jsonl, counts.json, and the manifest. Settings: `query_set`,
`extraction`, `dataset.split`.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.extracted import write_extracted

    settings = job.settings
    return write_extracted(
        job.input.collection,
        job.output.queries,
        name=job.wildcards["split"],
        **vars(settings.query_set),
        **vars(settings.extraction),
        is_split=settings.dataset.split is not None,
    )


if __name__ == "__main__":
    run_job(main)
