"""What a bi-encoder is to learn from a teacher: the scores of its first hits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from condenser.data.records import read_run


@dataclass(frozen=True)
class TaughtRows:
    """The queries that a teacher ranks, as row numbers, each with as many passages and their scores."""

    queries: Int[np.ndarray, " query"]
    passages: Int[np.ndarray, "query passage"]
    scores: Float[np.ndarray, "query passage"]
    counts: Mapping[str, int]


def read_taught_rows(
    run: Path,
    *,
    query_rows: Mapping[str, int],
    doc_rows: Mapping[str, int],
    passages_per_query: int,
    with_own_passage: bool,
) -> TaughtRows:
    """The first `passages_per_query` hits of each query of a TREC run, in file order.

    A query that is made from a passage has the id of that passage, in which it stands word by word. So every
    teacher puts that passage first, and it has most of the softmax; without `with_own_passage` it is no
    candidate. Of a collection that is split, the passage of a hit is the best of its document.

    Counts: `queries`, and of these `queries_with_fewer_hits`, which are left out.

    Raises:
        ValueError: no query has as many hits.
    """
    queries: list[int] = []
    passages: list[list[int]] = []
    scores: list[list[float]] = []
    counts = Counter[str](queries=0, queries_with_fewer_hits=0)
    for query_id, hits in groupby(read_run(run), key=attrgetter("query_id")):
        candidates = (hit for hit in hits if with_own_passage or hit.text_id != query_id)
        first = list(islice(candidates, passages_per_query))
        counts["queries"] += 1
        if len(first) < passages_per_query:
            counts["queries_with_fewer_hits"] += 1
            continue
        queries.append(query_rows[query_id])
        passages.append([doc_rows[hit.text_id] for hit in first])
        scores.append([hit.score for hit in first])
    if not queries:
        raise ValueError(
            f"{run}: expected a query with {passages_per_query} hits, got none of {counts['queries']}. Lower "
            "passages_per_query."
        )
    return TaughtRows(
        np.array(queries, dtype=np.int64),
        np.array(passages, dtype=np.int64),
        np.array(scores, dtype=np.float32),
        counts,
    )
