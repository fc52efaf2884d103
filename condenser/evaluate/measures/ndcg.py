"""Normalised discounted cumulative gain, as trec_eval's ndcg_cut (Järvelin and Kekäläinen 2002)."""

from __future__ import annotations

from collections.abc import Iterable
from math import log2

from condenser.evaluate.measures import Ranking

NAME = "nDCG"


def value(ranking: Ranking, *, depth: int) -> float:
    """Gain is the grade, discount log2(rank + 1); negative grades gain nothing."""
    grades = ranking.grades
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
    best = _discounted(enumerate(ideal[:depth], start=1))
    gains = [(rank, grades[doc_id]) for doc_id, rank in ranking.trec_ranks.items() if rank <= depth]
    return _discounted(sorted(gains)) / best if best else 0.0


def _discounted(gains: Iterable[tuple[int, int]]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in gains if gain > 0)
