"""Tokenise one shard of a collection.

Reads the collection, its ids and a model's tokenizer. Writes three arrays (tokens, and how they fall into
sentences), the counts of rows by their length, of words and of unknown words, and the manifest, which counts
rows, rows with a title, rows without tokens, sentences and tokens. Settings: `encode.block_rows`; shards are
cut at multiples of it. `encode.separator`: `always` puts a [SEP] also before a passage without a title.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job

BATCH_ROWS = 512  # few enough that a batch's Python objects stay cheap; changes no byte


def main(job: Job) -> dict[str, Any]:
    from condenser.data.tokens import Tokenizer, tokenise_collection
    from condenser.model.text_vector import read_text_vector
    from condenser.shards import prefix_of

    settings, model = job.settings.encode, job.input.tokenizer.parent
    tokenizer = Tokenizer(model)
    return tokenise_collection(
        job.input.collection,
        job.input.doc_ids,
        prefix_of(job.output.tokens),
        tokenizer,
        shard=job.wildcards["shard"],
        multiple_of=settings.block_rows,
        leading_separator=settings.separator == "always",
        leading_space=tokenizer.leading_space(read_text_vector(model).passage_prompt),
        batch_size=BATCH_ROWS,
    )


if __name__ == "__main__":
    run_job(main)
