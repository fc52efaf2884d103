"""Reciprocal rank of the first relevant passage, as MS MARCO's official script computes it."""

from __future__ import annotations

from condenser.evaluate.measures import Ranking

NAME = "MRR"


def value(ranking: Ranking, *, depth: int) -> float:
    """1 / rank of the first relevant passage among the first `depth` ranks of the run, else 0."""
    for rank, doc_id in enumerate(ranking.in_run_order[:depth], start=1):
        if doc_id in ranking.relevant:
            return 1 / rank
    return 0.0
