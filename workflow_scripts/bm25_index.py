"""Index a collection for BM25.

Reads the collection, and where there is one the file of its expansions; writes a Lucene index (a folder) and
the manifest. The wildcard `index` names the language and the expansion (`condenser.retrieve.bm25`): index for
English, index-de for German, index.doct5query with the entry `doct5query` of `expansions`. Settings:
`expansion`.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.retrieve.bm25 import index_collection, language_of

    return index_collection(
        job.input.collection,
        job.output.index,
        language=language_of(job.wildcards["index"]),
        expansions=job.input.expansions[0] if job.input.expansions else None,
        expansion=job.settings.expansion,
        threads=job.options.threads,
        heap_mb=job.options.heap_mb,
    )


if __name__ == "__main__":
    run_job(main)
