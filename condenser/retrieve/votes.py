"""What queries without judgements have to find, by what other systems rank first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from condenser.retrieve.fusion import fused_run

_DEPTH = 100  # hits of each voter that are fused, as in the default's hybrid


def voted_items(votes: Sequence[Path], queries: Path) -> dict[str, dict[str, int]]:
    """The first hit of the voters together, by the mean of their z-scores, as the judgement of each query.

    This hit is often wrong. That makes the gain between two systems smaller, but turns no sign, as long as
    neither of the two ranks wrong first hits earlier than the other. Systems that err as the voters do rank
    them earlier. So no voter may be the start, a candidate, or made of their checkpoint: the start's MaxSim
    among the voters turned signs in favour of the start (docs/studies/choice). A voter that was distilled
    from another system counts as that system. Each family has one vote, or a large family would decide.
    `condenser.config.references` refuses what breaks these rules. One bias is left: a candidate that was
    trained with a voter's hits as negatives ranks them later, so its gain is too small.

    Source: Soboroff, Nicholas and Cahan, Ranking retrieval systems without relevance judgments, SIGIR 2001;
    Wu and Crestani, Methods for ranking information retrieval systems without relevance judgments, SAC 2003
    (who does not vote on itself); Aslam and Savell, On the effectiveness of evaluating retrieval systems in
    the absence of relevance judgments, SIGIR 2003 (votes measure likeness: hence families).

    Args:
        votes: the runs of the voters, for the same queries in the order of the file `queries`.

    Raises:
        ValueError: a run has another query, or its queries in another order.
    """
    hits = fused_run(votes, queries, subset=None, method="convex", weights=None, depth=_DEPTH, k=0)
    first = ((query_id, next(found)) for query_id, found in groupby(hits, key=attrgetter("query_id")))
    return {query_id: {hit.doc_id: 1} for query_id, hit in first}
