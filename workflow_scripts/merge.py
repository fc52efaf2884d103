"""Merge the hits of all shards of a collection into one run.

Reads rows and scores of the shards, in order, and the ids; with a subset the run is of its queries alone.
Writes a TREC run and the manifest. Settings: `depth`, `dataset.split`.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.records import read_doc_ids, read_queries, write_run
    from condenser.data.subsets import read_subset
    from condenser.retrieve.search import merged_run

    files, settings = job.input, job.settings
    queries = list(read_queries(files.queries))
    query_ids = [query.query_id for query in queries]
    if files.subset:
        wanted = read_subset(files.subset)
        query_ids = [query_id for query_id in query_ids if query_id in wanted]
    run = merged_run(
        list(zip(files.rows, files.scores, strict=True)),
        query_ids,
        read_doc_ids(files.doc_ids),
        depth=settings.depth,
        in_collection={query.query_id for query in queries if query.in_collection},
        is_split=settings.dataset.split is not None,
    )
    num_hits = write_run(job.output.run, run, system=job.wildcards["system"])
    return {"queries": len(query_ids), "hits": num_hits}


if __name__ == "__main__":
    run_job(main)
