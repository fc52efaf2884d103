"""Recall, as trec_eval computes it."""

from __future__ import annotations

from condenser.evaluate.measures import Ranking

NAME = "R"
WHOLE_IS_TRIVIAL = True


def value(ranking: Ranking, *, depth: int) -> float:
    """Share of the relevant passages among the first `depth`; 0 where nothing is relevant."""
    if not ranking.relevant:
        return 0.0
    first = [doc_id for doc_id, rank in ranking.trec_ranks.items() if rank <= depth]
    return len(ranking.relevant.intersection(first)) / len(ranking.relevant)
