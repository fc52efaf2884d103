"""A cross-encoder: query and passage go through one network together, which reranks another system's hits.

Source: coCondenser, §4.3 and Table 3; the training is luyug/Reranker's (Gao et al. 2021, "Rethink Training of
BERT Rerankers in Multi-Rule Retrieval Pipeline").
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from condenser.settings import Count, Name, Names, PseudoLabels, System

if TYPE_CHECKING:
    from condenser.train.examples import TrainingFiles
    from condenser.train.loop import Run, Trainable

OF_RUNS = ("candidates", "depth")


class Settings(System):
    """Where it starts, whose negatives it learns from, and whose hits it reranks.

    With `pseudo_labels` it also learns from queries without judgements, or, without `negatives`, from these
    alone. The first `depth` hits of the system `candidates` are reranked for each query. `recipe` replaces
    keys of the data set's recipe; it has no use for `tied` and `scale` of these. With the loss `pointwise` a
    score is the logit of a probability, which `denoise` of the recipe's `negatives` needs.

    With `train: false` it is the cross-encoder `initial` over other candidates.
    """

    initial: Name
    train: bool = True
    negatives: Names = Field(default_factory=list)
    pseudo_labels: PseudoLabels | None = None
    candidates: Name
    depth: Count
    loss: Literal["localised", "pointwise"] = "localised"
    recipe: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _learns_from_negatives_or_nothing(self) -> Settings:
        if self.train and not self.negatives and not self.pseudo_labels:
            raise ValueError(
                "negatives: expected the systems whose negatives it is trained on, or pseudo_labels, got none"
            )
        for key in ("negatives", "pseudo_labels"):
            if not self.train and getattr(self, key):
                raise ValueError(f"{key}: expected none with train: false")
        if not self.train and self.loss != "localised":
            raise ValueError(
                "loss: expected none with train: false, where the model has been trained by another"
            )
        return self


def is_trained(settings: Settings) -> bool:
    """Whether it is fine-tuned; else another cross-encoder is its model."""
    return settings.train


def learns_from_judgements(settings: Settings) -> bool:
    """Whether it is fine-tuned on judged queries: pseudo-labels need none."""
    return settings.train and bool(settings.negatives)


def systems_of(settings: Settings) -> list[str]:
    """Those whose negatives it learns from, the teacher of its pseudo-labels, and whose hits it reranks."""
    labels = getattr(settings, "pseudo_labels", None)
    teachers = [labels.teacher] if labels else []
    return list(dict.fromkeys([*settings.negatives, *teachers, settings.candidates]))


def reorders(settings: Settings) -> list[str]:
    """The system whose hits it reranks."""
    return [settings.candidates]


def kind_of_start(settings: Settings) -> str:
    """A cross-encoder where it is not trained: no other model has the layer for its scores."""
    return "biencoder" if settings.train else "crossencoder"


def check(settings: Settings, systems: Mapping[str, Any]) -> None:
    """See that without training it has the model of a cross-encoder.

    Raises:
        ValueError: its `initial` is a model, which has no layer for scores.
    """
    if not settings.train and settings.initial not in systems:
        trained = [name for name, one in systems.items() if one.kind == settings.kind and one.train]
        raise ValueError(
            f"initial: expected a trained cross-encoder ({', '.join(trained) or 'there is none'}) with "
            f"train: false, got {settings.initial}, which has no layer for scores. Name one, or train it."
        )


def gives_probabilities(settings: Settings, systems: Mapping[str, Any]) -> bool:
    """Whether the sigmoid of its scores is a probability, by the loss of its model."""
    model = settings if settings.train else systems.get(settings.initial)
    return getattr(model, "loss", None) == "pointwise"


def longest_row(recipe: Any) -> int:
    """A query and a passage, which share one [CLS]."""
    return int(recipe.lengths.query + recipe.lengths.passage - 1)


def training(settings: Any, files: TrainingFiles, initial: Path, run: Run[Any]) -> Trainable[Any]:
    """Fine-tuning of a cross-encoder from `initial` on examples: see `crossencoder_training`."""
    from condenser.train.crossencoder import crossencoder_training

    return crossencoder_training(files, initial, run, loss=settings.loss)
