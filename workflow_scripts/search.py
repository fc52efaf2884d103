"""Search one shard of embeddings exhaustively with every query of a split.

Reads the embeddings of the shard and of the queries, and the queries: if some are texts of the collection,
one hit more is found. Writes the best rows (int64, counted over the whole
collection) and their scores (float32), [query, rank], and the manifest. Finished blocks of queries are kept
in the work folder until the files are complete. Settings: `depth`, `encode.block_rows`, `compute.threads`,
`compute.device`, `dataset.split`.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.records import read_doc_ids, read_queries
    from condenser.data.tokens import shard_rows
    from condenser.files import count_lines, load_npy
    from condenser.retrieve.documents import documents_of_rows
    from condenser.retrieve.search import search_device, search_shard

    settings, files, compute = job.settings, job.input, job.settings.compute
    block_rows = settings.encode.block_rows
    queries, embeddings = load_npy(files.queries), load_npy(files.embeddings)
    multiplications = float(queries.size) * len(embeddings)
    device = search_device(compute.device, threads=compute.threads, multiplications=multiplications)
    job.device = f"{device.type} fp32" if device else "cpu"
    first_row, end_row = shard_rows(
        count_lines(files.doc_ids), job.wildcards["shard"], multiple_of=block_rows
    )
    documents = None
    if settings.dataset.split:
        documents = documents_of_rows(read_doc_ids(files.doc_ids)[first_row:end_row])
    depth = settings.depth + any(query.in_collection for query in read_queries(files.texts))
    return search_shard(
        files.embeddings,
        files.queries,
        job.output.rows,
        job.output.scores,
        first_row=first_row,
        depth=depth,
        block_rows=block_rows,
        threads=compute.threads,
        device=device,
        documents=documents,
        work_folder=job.work_folder,
    )


if __name__ == "__main__":
    run_job(main)
