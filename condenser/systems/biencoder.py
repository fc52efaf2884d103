"""A bi-encoder: a text is one vector, relevance the inner product of two texts' vectors.

Source: coCondenser, §3.4 and §4.2; two untied encoders: Condenser, §4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, model_validator

from condenser.nouns import FineTunedSystem, PseudoLabels
from condenser.settings import Block, Name, Positive

if TYPE_CHECKING:
    from condenser.train.examples import TrainingFiles
    from condenser.train.loop import Run, Trainable


class Distillation(Block):
    """Whose scores it learns, of which queries (`condenser.train.teacher`).

    `queries` is a set of `extracted`, a name of `queries` of the data set, or its train split; no judgement
    is read. The first `passages_per_query` (of the recipe) hits of the teacher are the candidates of a query;
    with `own_passage` the one that it was made from may be among them. The encoder that is written has
    `initial_share` of the first weights.
    """

    teacher: Name  # any system, whose scores are learnt
    queries: Name  # of `extracted`, of `queries` of a data set, or its train split
    own_passage: bool  # keep the passage that a query was made from among its candidates
    temperature: Positive  # of the teacher's standard scores
    # the encoder that is written has this share of the first weights
    initial_share: Annotated[float, Field(ge=0.0, lt=1.0)]


class Settings(FineTunedSystem):
    """Where it starts, and whose negatives it is fine-tuned on, or which teacher it is distilled from.

    `initial` is a model, or a bi-encoder that is trained: then each variant starts from the weights of its
    same variant. With that system among the `negatives` it is a round of ANCE (Xiong et al. 2021, §4), which
    mines negatives with the last weights and trains on from these; rounds replace its refresh while it
    trains.
    """

    distillation: Distillation | None = None  # learn the ranking of a teacher, without judgements
    pseudo_labels: PseudoLabels | None = None  # learn also from queries that a cross-encoder judges

    @model_validator(mode="after")
    def _learns_from_one_thing(self) -> Settings:
        if self.train and not self.negatives and not self.distillation:
            raise ValueError("negatives: expected the systems whose negatives it is trained on, got none")
        if self.negatives and not self.train:
            raise ValueError("negatives: expected none with train: false")
        if self.distillation and (self.negatives or not self.train):
            raise ValueError("distillation: expected none with negatives or with train: false")
        if self.pseudo_labels and not self.negatives:
            raise ValueError("pseudo_labels: expected none without negatives, whose examples they add to")
        return self

    @property
    def learns_from_judgements(self) -> bool:
        """Whether it is fine-tuned on judged queries: a teacher's rankings need none."""
        return self.train and self.distillation is None

    @property
    def taught_by(self) -> dict[str, Distillation | PseudoLabels]:
        blocks = {"distillation": self.distillation, "pseudo_labels": self.pseudo_labels}
        return {key: block for key, block in blocks.items() if block}

    @property
    def pseudo_labelled(self) -> PseudoLabels | None:
        return self.pseudo_labels

    def files_to_answer(self, dataset: str, variant: str, shards: Sequence[str]) -> dict[str, list[str]]:
        """The embeddings of the collection."""
        return {"embeddings": [f"{variant}/embeddings/collection.{shard}.npy" for shard in shards]}

    def training(self, files: TrainingFiles, initial: Path, run: Run[Any]) -> Trainable[Any]:
        """Fine-tuning of the encoder of `initial`: see `retriever_training` and `distillation_training`."""
        from condenser.train.finetune import distillation_training, retriever_training

        if self.distillation is None:
            return retriever_training(files, initial, run)
        return distillation_training(
            files,
            initial,
            run,
            with_own_passage=self.distillation.own_passage,
            temperature=self.distillation.temperature,
            initial_share=self.distillation.initial_share,
        )
