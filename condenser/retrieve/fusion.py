"""Fusion: the hits of several runs as one run, query by query."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import fsum, sqrt
from pathlib import Path
from typing import Any

from condenser.data.records import ScoredDoc, read_runs
from condenser.files import read_json


def fused_run(
    runs: Sequence[Path],
    queries: Path,
    *,
    subset: Collection[str] | None,
    depth: int,
    **options: Any,
) -> Iterator[ScoredDoc]:
    """The hits of each query, fused as `fuse` does with these options. Holds one query at a time.

    Args:
        queries: the queries of the runs; those that no run has are left out.
        subset: ids of the queries that are fused; None for all.
    """
    for _, hits_of_runs in read_together(runs, queries, subset=subset, depth=depth):
        yield from fuse(hits_of_runs, depth=depth, **options)


def fuse(
    hits_of_runs: Sequence[Sequence[ScoredDoc]],
    *,
    method: str,
    weights: Sequence[float] | None,
    depth: int,
    k: int,
) -> list[ScoredDoc]:
    """The best `depth` of the first `depth` hits of a query in each run, by `mean_scores` or `rank_scores`.

    Deeper hits of a run count for nothing, so the depth of the runs does not change the fusion. The order is
    by score, ties by doc_id. The passage of a document, where the collection is split, is that of the first
    run that has the document.

    Args:
        weights: of the runs; None for equal ones.
    """
    weights, hits_of_runs = weights or [1.0] * len(hits_of_runs), [hits[:depth] for hits in hits_of_runs]
    parts = [{hit.doc_id: hit.score for hit in hits} for hits in hits_of_runs]
    pool = dict.fromkeys(doc_id for part in parts for doc_id in part)
    if method == "rrf":
        fused = rank_scores(parts, pool, weights=weights, k=k)
    else:
        fused = mean_scores(parts, pool, weights=weights, normalised=method == "convex")
    scores = {doc_id: as_in_run(score) for doc_id, score in fused.items()}  # what is a tie there is one here
    hit_of = {hit.doc_id: hit for hits in reversed(hits_of_runs) for hit in hits}
    best = sorted(scores, key=lambda doc_id: (-scores[doc_id], doc_id))[:depth]
    return [hit_of[doc_id]._replace(score=scores[doc_id]) for doc_id in best]


def as_in_run(score: float) -> float:
    """A score with the nine digits that a run has (`write_run`)."""
    return float(f"{score:.9g}")


def weights_of(given: str | Sequence[float], learnt: Path | None) -> list[float] | None:
    """The weights of a fusion, None for equal ones; `learnt` is the file of those that are learnt."""
    if learnt is not None:
        weights: list[float] = read_json(learnt)["weights"]
        return weights
    return None if isinstance(given, str) else list(given)


def mean_scores(
    parts: Sequence[Mapping[str, float]],
    pool: Collection[str],
    *,
    weights: Sequence[float],
    normalised: bool,
) -> dict[str, float]:
    """The weighted mean of each hit's scores, as `pooled_scores` has them or as z-scores.

    >>> mean_scores([{"a": 3.0, "b": 1.0}, {"b": 5.0}], ["a", "b"], weights=[1, 1], normalised=True)
    {'a': 0.5, 'b': -0.5}
    """
    total = fsum(weights)
    of_pool = pooled_z_scores(parts, pool) if normalised else pooled_scores(parts, pool)
    return {
        doc_id: fsum(weight * score for weight, score in zip(weights, of_hit, strict=True)) / total
        for doc_id, of_hit in zip(pool, zip(*of_pool, strict=True), strict=True)
    }


def pooled_z_scores(parts: Sequence[Mapping[str, float]], pool: Collection[str]) -> list[list[float]]:
    """The z-scores of the hits of the pool in each part, normalised over the pool."""
    return [z_scores(scores) for scores in pooled_scores(parts, pool)]


def pooled_scores(parts: Sequence[Mapping[str, float]], pool: Collection[str]) -> list[list[float]]:
    """The scores of the hits of the pool in each part: its lowest for a hit that it lacks, 0 if it has none.

    >>> pooled_scores([{"a": 3.0, "b": 1.0}, {"b": 5.0}, {}], ["a", "b"])
    [[3.0, 1.0], [5.0, 5.0], [0.0, 0.0]]
    """
    lowest = [min(part.values(), default=0.0) for part in parts]
    return [[part.get(doc_id, low) for doc_id in pool] for part, low in zip(parts, lowest, strict=True)]


def z_scores(scores: Sequence[float]) -> list[float]:
    """Scores less their mean, divided by their standard deviation (that of a population); 0 if all are equal.

    >>> z_scores([1.0, 3.0]), z_scores([2.0, 2.0])
    ([-1.0, 1.0], [0.0, 0.0])
    """
    if len(set(scores)) < 2:
        return [0.0] * len(scores)
    mean = fsum(scores) / len(scores)
    deviation = sqrt(fsum((score - mean) ** 2 for score in scores) / len(scores))
    return [(score - mean) / deviation for score in scores]


def rank_scores(
    parts: Sequence[Mapping[str, float]], pool: Collection[str], *, weights: Sequence[float], k: int
) -> dict[str, float]:
    """The weighted sum of 1 / (k + rank) over the parts that have a hit; each part is ordered by rank.

    >>> rank_scores([{"a": 3.0, "c": 2.0, "b": 1.0}, {"b": 5.0}], ["a", "b"], weights=[1, 1], k=1)
    {'a': 0.5, 'b': 0.75}
    """
    ranks = [{doc_id: rank for rank, doc_id in enumerate(part, start=1)} for part in parts]
    return {
        doc_id: fsum(
            weight / (k + of_part[doc_id])
            for weight, of_part in zip(weights, ranks, strict=True)
            if doc_id in of_part
        )
        for doc_id in pool
    }


def read_together(
    runs: Sequence[Path], queries: Path, *, subset: Collection[str] | None, depth: int
) -> Iterator[tuple[str, list[list[ScoredDoc]]]]:
    """Each query that some run has, with its first `depth` hits in every run (`read_runs`)."""
    for query_id, hits_of_runs in read_runs(runs, queries):
        if any(hits_of_runs) and (subset is None or query_id in subset):
            yield query_id, [hits[:depth] for hits in hits_of_runs]
