"""Search a BM25 index with every query of a split.

Reads the index, the queries, and where there is one the file of their expansions; writes a TREC run and the
manifest. Finished blocks of queries are kept in the work folder until the run is complete. Settings:
`system.k1`, `system.b`, `system.language`, `expansion`, `depth`, `dataset.split`.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.retrieve.bm25 import search_bm25

    system = job.settings.system
    return search_bm25(
        job.input.index,
        job.input.queries,
        job.output.run,
        k1=system.k1,
        b=system.b,
        depth=job.settings.depth,
        language=system.language,
        expansions=job.input.expansions[0] if job.input.expansions else None,
        expansion=job.settings.expansion,
        threads=job.options.threads,
        heap_mb=job.options.heap_mb,
        work_folder=job.work_folder,
        system=job.wildcards["system"],
        is_split=job.settings.dataset.split is not None,
    )


if __name__ == "__main__":
    run_job(main)
