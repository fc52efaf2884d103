"""Embed the queries of a split with a retriever.

Reads the retriever (if it has two encoders, that of queries), the tokens of the queries, and the queries
themselves: to name one in an error, and to find those of a subset, the only ones that are embedded then.
Writes float32 [query, dim] and the manifest. Finished blocks are kept in the work folder until the file is
complete. Settings: `recipe.lengths.query`, `encode`, `compute`.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.lengths import resolve_lengths
    from condenser.data.records import read_queries
    from condenser.data.subsets import read_subset
    from condenser.model.devices import set_up
    from condenser.model.retriever import query_encoder_folder
    from condenser.retrieve.encode import encode_texts
    from condenser.shards import prefix_of

    settings, queries, rows = job.settings, job.input.queries, None
    encoder = query_encoder_folder(job.input.model.parent)
    if encoder != job.input.model.parent:
        job.reads([encoder])
    if job.input.subset:
        wanted = read_subset(job.input.subset)
        ids = (query.query_id for query in read_queries(queries))
        rows = [row for row, query_id in enumerate(ids) if query_id in wanted]
    compute = set_up(**vars(settings.compute))
    job.device = str(compute)
    return encode_texts(
        encoder,
        prefix_of(job.input.tokens),
        job.output.embeddings,
        rows=rows,
        role="query",
        max_tokens=int(resolve_lengths(settings.recipe.lengths, job.input.lengths or None).query),
        **vars(settings.encode),
        compute=compute,
        work_folder=job.work_folder,
        name_of_row=lambda row: f"query {list(read_queries(queries))[row].query_id}",
    )


if __name__ == "__main__":
    run_job(main)
