"""A bi-encoder: a text is one vector, relevance the inner product of two texts' vectors.

Source: coCondenser, §3.4 and A.1; two untied encoders: Condenser, §4.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from pydantic import Field, model_validator

from condenser.settings import Name, System

if TYPE_CHECKING:
    from condenser.train.distributed import Processes
    from condenser.train.loop import LoopSettings


class Settings(System):
    """Where it starts, and whose negatives it is fine-tuned on.

    With `train: false` it is the model `initial` as it is. `recipe` replaces keys of the data set's recipe.
    """

    initial: Name
    train: bool = True
    negatives: list[Name] = Field(default_factory=list)
    recipe: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _negatives_are_for_training(self) -> Settings:
        if self.train and not self.negatives:
            raise ValueError("negatives: expected the systems whose negatives it is trained on, got none")
        if self.negatives and not self.train:
            raise ValueError("negatives: expected none with train: false")
        return self


def is_trained(settings: Mapping[str, Any]) -> bool:
    """Whether it is fine-tuned."""
    return settings["train"]


def train(
    examples: Sequence[Path],
    initial: Path,
    output: Path,
    *,
    recipe: Mapping[str, Any],
    collection_tokens: Sequence[Path],
    query_tokens: Path,
    doc_ids: Path,
    queries: Path,
    seed: int,
    precision: str,
    work_folder: Path,
    processes: Processes,
    **loop_settings: Unpack[LoopSettings],
) -> dict[str, int]:
    """Fine-tune the encoder of `initial` on examples; gives counts. See `train_retriever`."""
    from condenser.train.finetune import train_retriever

    return train_retriever(
        examples,
        initial,
        output,
        collection_tokens=collection_tokens,
        query_tokens=query_tokens,
        doc_ids=doc_ids,
        queries=queries,
        query_length=recipe["lengths"]["query"],
        passage_length=recipe["lengths"]["passage"],
        batch_size=recipe["batch_size"],
        passages_per_query=recipe["passages_per_query"],
        rows_per_chunk=recipe["rows_per_chunk"],
        keep_graphs=True,
        tied=recipe["tied"],
        scale=recipe["scale"],
        epochs=recipe["epochs"],
        seed=seed,
        precision=precision,
        work_folder=work_folder,
        processes=processes,
        **loop_settings,
    )


def cost(job: Any, data: Any) -> dict[str, Any]:
    """What fine-tuning takes (`condenser.pipeline.costs.stages`): an item is a query with its passages."""
    recipe, model = job.config["recipe"], data.shape(job)
    rows = [
        (1, data.queries(job).cut(recipe["lengths"]["query"])),
        (recipe["passages_per_query"], data.passages(job).cut(recipe["lengths"]["passage"])),
    ]
    return model.training(
        recipe,
        rows,
        model.encoder_flops,
        num_items=data.num_examples(job),
        graph_memory=math.inf,  # the graphs of a batch are kept
        num_encoders=1 if recipe["tied"] else 2,
    )
