"""Precision, as trec_eval computes it."""

from __future__ import annotations

from condenser.evaluate.measures import Ranking

NAME = "P"


def value(ranking: Ranking, *, depth: int) -> float:
    """Share of relevant passages among the first `depth`; missing ranks count as not relevant."""
    first = [doc_id for doc_id, rank in ranking.trec_ranks.items() if rank <= depth]
    return len(ranking.relevant.intersection(first)) / depth
