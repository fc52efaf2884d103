"""Embed the passages of one token shard with a retriever.

Reads the retriever and the token shard, and the ids to name a passage in an error. Writes float32
[passage, dim] and the manifest. Finished blocks are kept in the work folder until the file is complete.
Settings: `recipe.lengths.passage`, `encode`, `compute`.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.lengths import resolve_lengths
    from condenser.data.records import read_doc_ids
    from condenser.data.tokens import shard_rows
    from condenser.files import count_lines
    from condenser.model.devices import set_up
    from condenser.retrieve.encode import encode_texts
    from condenser.shards import prefix_of

    settings, doc_ids = job.settings, job.input.doc_ids
    compute = set_up(**vars(settings.compute))
    job.device = str(compute)
    first_row, _ = shard_rows(
        count_lines(doc_ids), job.wildcards["shard"], multiple_of=settings.encode.block_rows
    )
    return encode_texts(
        job.input.model.parent,
        prefix_of(job.input.tokens),
        job.output.embeddings,
        rows=None,
        role="passage",
        max_tokens=int(resolve_lengths(settings.recipe.lengths, job.input.lengths or None).passage),
        **vars(settings.encode),
        compute=compute,
        work_folder=job.work_folder,
        name_of_row=lambda row: f"passage {read_doc_ids(doc_ids)[first_row + row]}",
    )


if __name__ == "__main__":
    run_job(main)
