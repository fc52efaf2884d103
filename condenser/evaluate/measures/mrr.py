"""Reciprocal rank of the first relevant passage, as MS MARCO's official script computes it."""

from __future__ import annotations

from condenser.evaluate.measures import Ranking

NAME = "MRR"


def value(ranking: Ranking, *, depth: int) -> float:
    """1 / rank of the first relevant passage among the first `depth` ranks of the run, else 0."""
    ranks = (rank for doc_id, rank in ranking.run_ranks.items() if doc_id in ranking.relevant)
    first = min(ranks, default=depth + 1)
    return 1 / first if first <= depth else 0.0
