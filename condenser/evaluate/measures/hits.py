"""Share of queries with an answering passage near the top: accuracy at k of open-domain question answering.

Source: Karpukhin et al. 2020 (DPR); Condenser, §4.3 (top-20 and top-100 hits).
"""

from __future__ import annotations

from condenser.evaluate.measures import Ranking

NAME = "hits"
NEEDS_ANSWERS = True
WHOLE_IS_TRIVIAL = True


def value(ranking: Ranking, *, depth: int) -> float:
    """1 where one of the first `depth` passages of the run holds an answer, else 0."""
    assert ranking.has_answer is not None, "the measure needs answers"
    return float(any(ranking.has_answer(doc_id) for doc_id in ranking.hits[:depth].to_pylist()))
