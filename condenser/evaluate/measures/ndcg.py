"""Normalised discounted cumulative gain, as trec_eval's ndcg_cut (Järvelin and Kekäläinen 2002)."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from condenser.evaluate.measures import Ranking

NAME = "nDCG"


def value(ranking: Ranking, *, depth: int) -> float:
    """Gain is the grade, discount log2(rank + 1); negative grades gain nothing."""
    grades = ranking.grades
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
    best = _discounted(ideal[:depth])
    gains = [max(grades.get(doc_id, 0), 0) for doc_id in ranking.in_trec_order[:depth]]
    return _discounted(gains) / best if best else 0.0


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, start=1) if gain)
