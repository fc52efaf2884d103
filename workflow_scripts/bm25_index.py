"""Index a collection for BM25.

    python workflow_scripts/bm25_index.py .snakemake/jobs/bm25_index-0123456789abcdef.json

Reads the collection; writes a Lucene index (a folder) and the manifest. The wildcard `index` names the
language (`condenser.systems.bm25`): index for English, index-de for German.
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
        threads=job.options.threads,
        heap_mb=job.options.heap_mb,
    )


if __name__ == "__main__":
    run_job(main)
