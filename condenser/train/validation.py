"""Is a fine-tuned retriever better than its start? And what is kept where it is not.

No training sees the held-out train queries (`condenser.data.subsets.write_held_out`). Each ranks its
own positives and some negatives together with those of all other held-out queries. The reciprocal rank of
the best positive tells the start from what was trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Float64, Int
from torch import Tensor

from condenser.train.examples import ExampleRows

VALIDATION_FILE = "validation.json"  # in the folder of what was trained
DEPTH = 10  # of MRR@10


@dataclass(frozen=True)
class HeldOutQueries:
    """Rows of the held-out queries and of the passages that they rank; places of the positives in these."""

    queries: Int[np.ndarray, " query"]
    passages: Int[np.ndarray, " passage"]
    positives: Sequence[Int[np.ndarray, " _"]]


@dataclass(frozen=True)
class StartComparison:
    """What was trained beside its start, on the held-out queries.

    Attributes:
        kept: whose weights are kept. Of no queries always those that were trained.
        queries: how many were compared.
        passages: how many each of them ranked.
        start, trained, mean: MRR@10 of the three; the mean of weights is tried only where the trained model
            is not better than the start. Then it is kept, unless it is worse by more than
            `standard_errors`: a hundred queries often miss a gain, and the mean keeps most of it.
        won, lost: queries with a higher, and with a lower, reciprocal rank after the training.
    """

    kept: Literal["trained", "mean", "start"]
    queries: int
    passages: int = 0
    start: float | None = None
    trained: float | None = None
    mean: float | None = None
    won: int = 0
    lost: int = 0

    def __str__(self) -> str:
        if self.start is None or self.trained is None:
            return "not compared with the start: no held-out train query"
        verdict = "better" if self.trained > self.start else "NOT better"
        mean = "" if self.mean is None else f", their mean {self.mean:.3f}"
        return (
            f"{verdict} than the start on {self.queries:,} held-out train queries (MRR@{DEPTH} among "
            f"{self.passages:,} passages): start {self.start:.3f}, trained {self.trained:.3f}{mean}; "
            f"{self.won:,} queries won, {self.lost:,} lost; kept: {self.kept}"
        )


NOT_COMPARED = StartComparison("trained", queries=0)


def held_out_queries(examples: ExampleRows, *, num_negatives: int) -> HeldOutQueries:
    """The queries of some examples, each once: with all positives and the first negatives of each example."""
    of_query: dict[int, list[np.ndarray]] = {}
    ranked: list[np.ndarray] = []
    for item, query in enumerate(examples.queries.tolist()):
        positives = examples.positives[slice(*examples.positive_starts[item : item + 2])]
        negatives = examples.negatives[slice(*examples.negative_starts[item : item + 2])]
        of_query.setdefault(query, []).append(positives)
        ranked += [positives, negatives[:num_negatives]]
    passages = np.unique(np.concatenate(ranked))
    places = [np.searchsorted(passages, np.unique(np.concatenate(parts))) for parts in of_query.values()]
    return HeldOutQueries(np.array(list(of_query)), passages, places)


def reciprocal_ranks(
    scores_of_queries: Iterable[Float[Tensor, " passage"]], positives: Sequence[Int[np.ndarray, " _"]]
) -> Float64[np.ndarray, " query"]:
    """1 / rank of each query's best positive, 0 below rank 10. A passage with the same score stands above it.

    >>> import torch
    >>> reciprocal_ranks(torch.eye(3)[:2], [np.array([0]), np.array([2])]).tolist()
    [1.0, 0.3333333333333333]
    """
    values = []
    for scores, places in zip(scores_of_queries, positives, strict=True):
        of_positives = scores[places]
        rank = 1 + int((scores >= of_positives.max()).sum() - (of_positives >= of_positives.max()).sum())
        values.append(1 / rank if rank <= DEPTH else 0.0)
    return np.array(values)


def keep_better(
    start: Float64[np.ndarray, " query"],
    measure: Callable[[], Float64[np.ndarray, " query"]],
    mix_in_start: Callable[[float], None],
    *,
    num_passages: int,
    keep: Literal["better", "trained"],
    initial_share: float,
    standard_errors: float,
) -> StartComparison:
    """Compare a trained model with its start, and leave in place what `StartComparison` says.

    Args:
        start: reciprocal ranks of the start.
        measure: gives those of the model as it is.
        mix_in_start: replaces the model's weights by a mean with this share of the start's; 1 restores it.
        keep: with "trained" the comparison changes nothing.
        initial_share: of the mean that is tried.
        standard_errors: by how many of them a mean must be worse than the start to give way to it.
    """
    trained = measure()
    kept: Literal["trained", "mean", "start"] = "trained"
    mean = None
    if trained.mean() <= start.mean() and keep == "better":
        mix_in_start(initial_share)
        of_mean = measure()
        mean, lost = float(of_mean.mean()), start - of_mean
        kept = "start" if lost.mean() > standard_errors * lost.std() / len(lost) ** 0.5 else "mean"
        if kept == "start":
            mix_in_start(1.0)
    return StartComparison(
        kept,
        *(len(start), num_passages, float(start.mean()), float(trained.mean()), mean),
        won=int((trained > start).sum()),
        lost=int((trained < start).sum()),
    )
