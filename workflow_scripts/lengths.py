"""Add up how long the texts of a data set are, by the tokenizer of a model.

Reads the counts of all token shards, of the passages and of the queries of all splits, and the number of
positions, the prompts and the assumptions of the model. Writes them together as JSON, and the manifest.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.lengths import TextLengths, counts_of, total
    from condenser.data.tokens import Tokenizer
    from condenser.encoders import read_encoder_config
    from condenser.files import read_json
    from condenser.model.text_vector import Role, assumptions, read_text_vector

    model = job.input.model.parent
    num_positions = read_encoder_config(model).num_positions
    tokenizer, vector = Tokenizer(model), read_text_vector(model)
    roles: tuple[Role, ...] = ("query", "passage")
    lengths = TextLengths(
        num_positions,
        total(counts_of(read_json(file)) for file in job.input.passages),
        {file.name.split(".")[1]: counts_of(read_json(file)) for file in job.input.queries},
        {role: len(tokenizer.encode_prompt(vector.prompt(role), max_tokens=num_positions)) for role in roles},
        job.settings.auto_lengths,
        assumptions(model),
    )
    lengths.write(job.output.lengths)
    return {"passages": lengths.passages.num_rows, "tokens": lengths.passages.num_tokens}


if __name__ == "__main__":
    run_job(main)
