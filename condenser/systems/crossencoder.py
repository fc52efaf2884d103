"""A cross-encoder: query and passage go through one network together, which reranks another system's hits.

Source: coCondenser, §4.3 and Table 3; the training is luyug/Reranker's (Gao et al. 2021, "Rethink Training of
BERT Rerankers in Multi-Rule Retrieval Pipeline").
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from condenser.settings import Count, Name, System

if TYPE_CHECKING:
    from condenser.train.examples import TrainingFiles
    from condenser.train.loop import Run

OF_RUNS = ("candidates", "depth")


class Settings(System):
    """Where it starts, whose negatives it learns from, and whose hits it reranks.

    The first `depth` hits of the system `candidates` are reranked for each query. `recipe` replaces keys of
    the data set's recipe; it has no use for `tied` and `scale` of these.
    """

    initial: Name
    negatives: Annotated[list[Name], Field(min_length=1)]
    candidates: Name
    depth: Count
    recipe: dict[str, Any] = Field(default_factory=dict)


def is_trained(settings: Settings) -> bool:
    """Always: no pre-trained model has the layer for its scores."""
    return True


def systems_of(settings: Settings) -> list[str]:
    """Those whose negatives it learns from, and the one whose hits it reranks."""
    return list(dict.fromkeys([*settings.negatives, settings.candidates]))


def reorders(settings: Settings) -> list[str]:
    """The system whose hits it reranks."""
    return [settings.candidates]


def longest_row(recipe: Any) -> int:
    """A query and a passage, which share one [CLS]."""
    return int(recipe.lengths.query + recipe.lengths.passage - 1)


def train(settings: Any, files: TrainingFiles, initial: Path, output: Path, run: Run[Any]) -> dict[str, int]:
    """Fine-tune a cross-encoder from `initial` on examples; gives counts. See `train_crossencoder`."""
    from condenser.train.crossencoder import train_crossencoder

    return train_crossencoder(files, initial, output, run)


def cost(job: Any, data: Any) -> dict[str, Any]:
    """What fine-tuning and reranking take (`condenser.pipeline.costs.rules`).

    An item of the fine-tuning is a query with its passages; they share a [CLS].
    """
    recipe, model = job.config.recipe, data.shape(job)
    query, passage = (
        texts.cut(getattr(recipe.lengths, key), num_positions=model.max_positions)
        for key, texts in (("query", data.queries(job)), ("passage", data.passages(job)))
    )
    length = min(query + passage - 1, model.max_positions)
    if job.rule == "train":
        rows = [(recipe.passages_per_query, length)]
        return data.training(recipe, model, rows, num_items=data.num_examples(job))
    run = data.run(job)
    work = data.inference(job, model, num_rows=run["hits"], length=length)
    return {**work, **run, "memory_bytes": work["memory_bytes"] + 48 * run["hits"]}  # rows, windows and score
