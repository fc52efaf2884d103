"""Late interaction: MaxSim between the token states of a bi-encoder's model, over other systems' hits.

Source: Khattab and Zaharia 2020 (ColBERT), §3.2 and §3.3; here with an encoder that was not trained for it,
without a projection, [Q] and [D] markers or [MASK] tokens behind a query. The computation is
`condenser.retrieve.late`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from condenser.settings import Count, Name, System


def _as_list(value: Any) -> Any:
    """One name alone is a list of one."""
    return [value] if isinstance(value, str) else value


class Settings(System):
    """The model, and whose hits it scores: the first `depth` of every system in `candidates`.

    Its run has the best `depth` of these. A token counts if it is of the text; so do [CLS], [SEP] and the
    model's prompt with `special_tokens`, and signs of punctuation in passages with `punctuation`. `match`
    says which tokens meet: `all` (ColBERT), `exact`, equal ones (COIL), or `first`, the query's [CLS] and the
    first `first_states` of the passage (ME-BERT). `recipe` replaces keys of the data set's recipe, of which
    it reads `lengths`.
    """

    initial: Name
    candidates: Annotated[list[Name], Field(min_length=1), BeforeValidator(_as_list)]
    depth: Count
    special_tokens: bool = True
    punctuation: bool = True
    match: Literal["all", "exact", "first"] = "all"
    first_states: Count | None = None
    recipe: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _first_states_are_counted(self) -> Settings:
        if (self.match == "first") != (self.first_states is not None):
            raise ValueError(
                f"first_states: expected a number with match: first alone, got {self.first_states}"
            )
        if self.match == "first" and not self.special_tokens:
            raise ValueError("special_tokens: expected true with match: first, whose first state is [CLS]")
        return self


def is_trained(settings: Settings) -> bool:
    """The model is taken as it is."""
    return False


def systems_of(settings: Settings) -> list[str]:
    """The systems whose hits it scores."""
    return list(settings.candidates)


def reorders(settings: Settings) -> list[str]:
    """The system whose hits it scores; of several none, as their union may be deeper than each."""
    return list(settings.candidates) if len(settings.candidates) == 1 else []


def cost(job: Any, data: Any) -> dict[str, Any]:
    """What scoring takes (`condenser.pipeline.costs.rules`).

    Passages are encoded once, at most as many as there are hits; the products of queries and passages are in
    float32.
    """
    recipe, shape, run = job.config.recipe, data.shape(job), data.run(job)
    passages, room = data.passages(job), shape.max_positions
    query_tokens = data.queries(job).cut(recipe.lengths.query, num_positions=room)
    passage_tokens = passages.cut(recipe.lengths.passage, num_positions=room)
    read = run["hits"] * len(job.config.system.candidates)
    work = data.inference(job, shape, num_rows=min(passages.count, read), length=passage_tokens)
    states = job.config.encode.block_rows * passage_tokens + data.queries(job).count * query_tokens
    return {
        **work,
        **run,
        "fp32_flops": 2 * read * query_tokens * passage_tokens * shape.dim,
        "read_hits": read,
        "memory_bytes": work["memory_bytes"] + 2 * states * shape.dim + 32 * read,  # and rows, order, score
    }
