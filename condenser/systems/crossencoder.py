"""A cross-encoder: query and passage go through one network together, which reranks another system's hits.

Source: coCondenser, §4.3 and Table 3; the training is luyug/Reranker's (Gao et al. 2021, "Rethink Training of
BERT Rerankers in Multi-Rule Retrieval Pipeline").
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import model_validator

from condenser.nouns import FineTunedSystem, PseudoLabels, System
from condenser.settings import Count, Name

if TYPE_CHECKING:
    from condenser.train.examples import TrainingFiles
    from condenser.train.loop import Run, Trainable


class Settings(FineTunedSystem):
    """Where it starts, whose negatives it learns from, and whose hits it reranks.

    With `pseudo_labels` it also learns from queries without judgements, or, without `negatives`, from these
    alone. The first `depth` hits of the system `candidates` are reranked for each query. `recipe` replaces
    keys of the data set's recipe; it has no use for `tied` and `scale` of these. With the loss `pointwise` a
    score is the logit of a probability, which `denoise` of the recipe's `negatives` needs.

    With `train: false` it is the cross-encoder `initial` over other candidates.
    """

    OF_RUNS = ("candidates", "depth")
    READS_PAIRS = True

    pseudo_labels: PseudoLabels | None = None  # learn also from queries that a cross-encoder judges
    candidates: Name  # the system whose hits are reranked
    depth: Count  # hits of a query that are reranked
    # among the passages of a query, or of each pair alone
    loss: Literal["localised", "pointwise"] = "localised"

    @model_validator(mode="after")
    def _learns_from_negatives_or_nothing(self) -> Settings:
        if self.train and not self.negatives and not self.pseudo_labels:
            raise ValueError(
                "negatives: expected the systems whose negatives it is trained on, or pseudo_labels, got none"
            )
        for key in ("negatives", "pseudo_labels"):
            if not self.train and vars(self)[key]:
                raise ValueError(f"{key}: expected none with train: false")
        if not self.train and self.loss != "localised":
            raise ValueError(
                "loss: expected none with train: false, where the model has been trained by another"
            )
        return self

    @property
    def learns_from_judgements(self) -> bool:
        """Whether it is fine-tuned on judged queries: pseudo-labels need none."""
        return self.train and bool(self.negatives)

    @property
    def taught_by(self) -> dict[str, PseudoLabels]:
        return {"pseudo_labels": self.pseudo_labels} if self.pseudo_labels else {}

    @property
    def pseudo_labelled(self) -> PseudoLabels | None:
        return self.pseudo_labels

    @property
    def reads(self) -> list[str]:
        return [*super().reads, self.candidates]

    @property
    def ranks_hits_of(self) -> list[str]:
        return [self.candidates]

    @property
    def reordered(self) -> list[str]:
        return [self.candidates]

    @property
    def own_depth(self) -> int:
        return self.depth

    @property
    def kind_of_start(self) -> str:
        """A cross-encoder where it is not trained: no other model has the layer for its scores."""
        return "biencoder" if self.train else "crossencoder"

    def check(self, systems: Mapping[str, System]) -> None:
        """See that without training it has the model of a cross-encoder.

        Raises:
            ValueError: its `initial` is a model, which has no layer for scores.
        """
        if not self.train and self.initial not in systems:
            trained = [name for name, one in systems.items() if one.kind == self.kind and one.is_trained]
            raise ValueError(
                f"initial: expected a trained cross-encoder ({', '.join(trained) or 'there is none'}) with "
                f"train: false, got {self.initial}, which has no layer for scores. Name one, or train it."
            )

    def gives_probabilities(self, systems: Mapping[str, System]) -> bool:
        """By the loss of its model."""
        model = self if self.train else systems.get(self.initial)
        return isinstance(model, Settings) and model.loss == "pointwise"

    def longest_row(self, recipe: Any) -> int:
        """A query and a passage, which share one [CLS]."""
        return int(recipe.lengths.query + recipe.lengths.passage - 1)

    def training(self, files: TrainingFiles, initial: Path, run: Run[Any]) -> Trainable[Any]:
        """Fine-tuning of a cross-encoder from `initial` on examples: see `crossencoder_training`."""
        from condenser.train.crossencoder import crossencoder_training

        return crossencoder_training(files, initial, run, loss=self.loss)
