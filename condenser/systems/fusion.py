"""A fusion: the hits of several systems together, by their scores or by their ranks.

`convex` is a weighted mean of z-scores, one of the normalisations of Bruch et al. 2023, "An Analysis of
Fusion Functions for Hybrid Retrieval"; `rrf` is reciprocal rank fusion, Cormack et al. 2009. `mean` is a
weighted mean of the scores as they are: coCondenser's ensemble (§4.3 and Table 3). A cross-encoder trained by
a softmax gives logarithms of odds, so the mean of two ranks by the geometric mean of their probabilities. The
computation is `condenser.retrieve.fusion`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from math import isfinite
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, model_validator

from condenser.nouns import System
from condenser.settings import Count, Names

LEARNT = "learnt"
"""Weights that are fitted on the train queries (`condenser.retrieve.learnt_weights`)."""


def _equal_or_numbers(value: Any) -> Any:
    """One message, where a union of types would give one for each."""
    is_number = [type(weight) in (int, float) for weight in value] if isinstance(value, list) else [False]
    if value in ("equal", LEARNT) or (
        all(is_number) and all(isfinite(weight) and weight >= 0 for weight in value)
    ):
        return value
    raise ValueError(
        f"expected equal, learnt, or a number of at least 0 for each system, got {reprlib.repr(value)}"
    )


class Settings(System):
    """The systems whose runs are fused, how, and the weight of each.

    The first `depth` hits of every system are fused, and the fused run has the best `depth` of them. With
    `rrf` a hit at rank r of a run has the score 1 / (k + r) there; the others have no use for k. Weights are
    learnt from the first `most_queries` that teach something, and stay equal with fewer than `least_queries`.
    """

    of: Annotated[Names, Field(min_length=2)]  # the systems whose hits are fused
    method: Literal["convex", "mean", "rrf"]  # weighted or plain mean of z-scores, or reciprocal ranks
    # `equal`, `learnt` on held-out train queries, or a number for each system
    weights: Annotated[str | list[int | float], PlainValidator(_equal_or_numbers)] = "equal"
    depth: Count  # hits of each system that are fused
    k: Count = 60  # Cormack et al.
    least_queries: Annotated[int, Field(ge=10)] = 50  # ours (docs/studies/rankings); two for each fold
    most_queries: Count = 10_000  # ours; in memory; a handful of weights needs no more

    @model_validator(mode="after")
    def _a_weight_for_each_system(self) -> Settings:
        if isinstance(self.weights, list) and (len(self.weights) != len(self.of) or not any(self.weights)):
            raise ValueError(
                f"weights: expected {len(self.of)} numbers, one for each system in `of` and not all 0, got "
                f"{self.weights}"
            )
        if self.weights == LEARNT and self.method != "convex":
            raise ValueError(f"method: expected convex with weights: {LEARNT}, got {self.method}")
        return self

    @property
    def learns_from_judgements(self) -> bool:
        """Whether its weights are learnt."""
        return self.weights == LEARNT

    @property
    def reads(self) -> list[str]:
        return list(self.of)

    @property
    def ranks_hits_of(self) -> list[str]:
        return list(self.of)

    def files_to_answer(self, dataset: str, variant: str, shards: Sequence[str]) -> dict[str, list[str]]:
        """The weights, where they are learnt."""
        return {"weights": [f"{variant}/weights.json"]} if self.weights == LEARNT else {}

    @property
    def reordered(self) -> list[str]:
        """None: a hit need be in one of their runs alone, so its own `depth` is the only bound."""
        return []

    @property
    def own_depth(self) -> int:
        return self.depth
