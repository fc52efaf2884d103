"""Tokenise the queries of one split.

Reads the queries and a model's tokenizer. Writes three arrays (a query is one sentence after an empty title),
the counts of rows by their length, of words and of unknown words, and the manifest.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job

BATCH_ROWS = 4096  # changes no byte


def main(job: Job) -> dict[str, Any]:
    from condenser.data.tokens import Tokenizer, tokenise_queries
    from condenser.model.text_vector import read_text_vector
    from condenser.shards import prefix_of

    model = job.input.tokenizer.parent
    tokenizer = Tokenizer(model)
    return tokenise_queries(
        job.input.queries,
        prefix_of(job.output.tokens),
        tokenizer,
        leading_space=tokenizer.leading_space(read_text_vector(model).query_prompt),
        batch_size=BATCH_ROWS,
    )


if __name__ == "__main__":
    run_job(main)
