"""The weights of a fusion, learnt from judged queries.

A hit has the score w · z, where z are its z-scores in the runs (`condenser.retrieve.fusion`). The weights
minimise the mean over queries and their relevant hits of -log softmax(w · z) over the hits, the listwise loss
of ListNet (Cao et al. 2007) with judgements as the target, plus `penalty` times their squared distance from
their own mean. So a large penalty gives equal weights, and few judgements cannot move them far: the penalty
is chosen by cross-validation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64
from scipy.optimize import minimize

from condenser.data.records import read_positives
from condenser.retrieve.fusion import pooled_z_scores, read_together

PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # ours
NUM_FOLDS = 5


@dataclass(frozen=True)
class JudgedHits:
    """The hits of a query: z-scores in each run, and which hits are relevant (at least one)."""

    scores: Float64[np.ndarray, "hit run"]
    is_relevant: Bool[np.ndarray, " hit"]


@dataclass(frozen=True)
class LearntWeights:
    """Weights of the runs, which sum to 1.

    Attributes:
        spread: the standard deviation of each over the fits without one fold.
        penalty: the one that was chosen; None where there were too few queries to learn from.
        losses: mean loss of the queries that a fit did not see, of the learnt weights and of equal ones.
    """

    weights: list[float]
    spread: list[float]
    penalty: float | None
    losses: dict[str, float]


def read_judged_hits(
    runs: Sequence[Path],
    queries: Path,
    qrels: Path,
    *,
    relevant_grade: int,
    subset: Collection[str] | None,
    depth: int,
    most_queries: int,
) -> tuple[list[JudgedHits], dict[str, int]]:
    """The first `depth` hits of all runs for each judged query, and counts of the queries.

    Of the queries that have a relevant hit the first `most_queries` in file order are read, and the others
    are counted (`left_out`). So are judged queries without a relevant hit, which teach nothing.
    """
    relevant = read_positives(qrels, relevant_grade=relevant_grade)
    asked = relevant.keys() if subset is None else relevant.keys() & set(subset)
    judged: list[JudgedHits] = []
    num_found = 0
    for query_id, hits_of_runs in read_together(runs, queries, subset=asked, depth=depth):
        parts = [{hit.doc_id: hit.score for hit in hits} for hits in hits_of_runs]
        pool = list(dict.fromkeys(doc_id for part in parts for doc_id in part))
        is_relevant = np.array([doc_id in relevant[query_id] for doc_id in pool])
        num_found += int(is_relevant.any())
        if is_relevant.any() and len(judged) < most_queries:
            judged.append(JudgedHits(np.array(pooled_z_scores(parts, pool)).T, is_relevant))
    return judged, {
        "queries": len(judged),
        "without_relevant_hit": len(asked) - num_found,
        "left_out": num_found - len(judged),
    }


def learn_weights(judged: Sequence[JudgedHits], *, num_runs: int, least_queries: int) -> LearntWeights:
    """Fit the weights; query i is in fold i modulo `NUM_FOLDS`.

    The penalty with the least held-out loss is taken, of equal ones the largest. Fewer than `least_queries`
    give equal weights.
    """
    if len(judged) < least_queries:
        return LearntWeights([1 / num_runs] * num_runs, [0.0] * num_runs, None, {})
    folds = [judged[number::NUM_FOLDS] for number in range(NUM_FOLDS)]
    rest = [
        [query for other, fold in enumerate(folds) if other != number for query in fold]
        for number in range(NUM_FOLDS)
    ]
    fits = {penalty: [fit_weights(queries, penalty) for queries in rest] for penalty in PENALTIES}
    losses = {
        penalty: np.concatenate([_Hits(fold).losses(fit) for fold, fit in zip(folds, of_folds, strict=True)])
        for penalty, of_folds in fits.items()
    }
    penalty = min(sorted(losses, reverse=True), key=lambda penalty: losses[penalty].mean())
    equal = np.concatenate(
        [_Hits(fold).losses(_scaled_equal(queries)) for fold, queries in zip(folds, rest, strict=True)]
    )
    shares = [fit / fit.sum() for fit in fits[penalty]]
    weights = fit_weights(judged, penalty)
    return LearntWeights(
        weights=(weights / weights.sum()).tolist(),
        spread=np.std(shares, axis=0, ddof=1).tolist(),
        penalty=penalty,
        losses={"learnt": float(losses[penalty].mean()), "equal": float(equal.mean())},
    )


def fit_weights(judged: Sequence[JudgedHits], penalty: float) -> Float64[np.ndarray, " run"]:
    """The weights of at least 0 with the least mean loss plus `penalty` times their spread."""
    hits = _Hits(judged)

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = hits.loss_and_gradient(weights)
        spread = weights - weights.mean()
        return loss + penalty * float(spread @ spread), gradient + 2 * penalty * spread

    return _minimised(objective, hits.num_runs)


def _scaled_equal(judged: Sequence[JudgedHits]) -> Float64[np.ndarray, " run"]:
    """Equal weights at their best scale: the limit of a large penalty."""
    hits = _Hits(judged)

    def objective(scale: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = hits.loss_and_gradient(np.repeat(scale, hits.num_runs))
        return loss, gradient.sum(keepdims=True)

    return np.repeat(_minimised(objective, 1), hits.num_runs)


def _minimised(objective: Callable[[np.ndarray], tuple[float, np.ndarray]], num_weights: int) -> np.ndarray:
    """From 1 each, at least 1e-6 so that the weights have a sum, at most 1e3."""
    bounds = [(1e-6, 1e3)] * num_weights
    found = minimize(objective, np.ones(num_weights), jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(found.x)


class _Hits:
    """The hits of many queries in one array, so that a fit needs no loop over queries."""

    def __init__(self, judged: Sequence[JudgedHits]) -> None:
        self._scores = np.concatenate([query.scores for query in judged])
        self._sizes = np.array([len(query.scores) for query in judged])
        self._starts = np.cumsum(self._sizes) - self._sizes
        # the target: the relevant hits of a query share a probability of 1
        self._target = np.concatenate([query.is_relevant / query.is_relevant.sum() for query in judged])
        self.num_runs = self._scores.shape[1]

    def losses(self, weights: np.ndarray) -> np.ndarray:
        """The loss of each query."""
        losses, _ = self._losses_and_softmax(weights)
        return losses

    def loss_and_gradient(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """The mean loss, and its gradient by the weights."""
        losses, softmax = self._losses_and_softmax(weights)
        return float(losses.mean()), (softmax - self._target) @ self._scores / len(losses)

    def _losses_and_softmax(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scores = self._scores @ weights
        scores -= np.repeat(np.maximum.reduceat(scores, self._starts), self._sizes)
        shares = np.exp(scores)
        totals = np.add.reduceat(shares, self._starts)
        losses = np.log(totals) - np.add.reduceat(self._target * scores, self._starts)
        return losses, shares / np.repeat(totals, self._sizes)


def describe_weights(learnt: LearntWeights, systems: Sequence[str]) -> Mapping[str, str]:
    """The weight of each system with its spread, for people: `0.41 ± 0.03`."""
    pairs = zip(systems, learnt.weights, learnt.spread, strict=True)
    return {system: f"{weight:.2f} ± {spread:.2f}" for system, weight, spread in pairs}
