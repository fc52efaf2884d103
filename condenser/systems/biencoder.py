"""A bi-encoder: a text is one vector, relevance the inner product of two texts' vectors.

Source: coCondenser, §3.4 and A.1; two untied encoders: Condenser, §4.3.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from condenser.settings import Name, System

if TYPE_CHECKING:
    from condenser.train.examples import TrainingFiles
    from condenser.train.loop import Run


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


def is_trained(settings: Settings) -> bool:
    """Whether it is fine-tuned."""
    return settings.train


def train(files: TrainingFiles, initial: Path, output: Path, run: Run[Any]) -> dict[str, int]:
    """Fine-tune the encoder of `initial` on examples; gives counts. See `train_retriever`."""
    from condenser.train.finetune import train_retriever

    return train_retriever(files, initial, output, run)


def cost(job: Any, data: Any) -> dict[str, Any]:
    """What fine-tuning takes (`condenser.pipeline.costs.rules`): an item is a query with its passages."""
    recipe, model = job.config.recipe, data.shape(job)
    lengths, room = recipe.lengths, model.max_positions
    rows = [
        (1, data.queries(job).cut(lengths.query, num_positions=room)),
        (recipe.passages_per_query, data.passages(job).cut(lengths.passage, num_positions=room)),
    ]
    return model.training(
        recipe,
        rows,
        model.encoder_flops,
        num_items=data.num_examples(job),
        graph_memory=math.inf,  # the graphs of a batch are kept
        num_encoders=1 if recipe.tied else 2,
    )
