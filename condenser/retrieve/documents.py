"""Rankings of documents by their best passages, where a collection is split (`condenser.data.passages`).

Source: MaxP of Dai and Callan 2019, "Deeper Text Understanding for IR with Contextual Neural Language
Modeling". A search finds passages. It goes deeper until they are of as many documents as are wanted, so the
ranking is that over all passages.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import pairwise, repeat

import numpy as np
from jaxtyping import Float32, Int64

from condenser.data.records import ScoredDoc, document_of

Rows = Int64[np.ndarray, "query rank"]
Scores = Float32[np.ndarray, "query rank"]

OVERSAMPLING = 4
"""Passages that are searched for each document that is wanted; how much deeper a search goes at a time."""


def documents_of_rows(doc_ids: Sequence[str]) -> Int64[np.ndarray, " row"]:
    """For each row of a collection that is split, the number of its document; these count from 0, as rows do.

    >>> documents_of_rows(["a#1", "a#2", "b#1"])
    array([0, 0, 1])
    """
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(document_of(one), len(numbers)) for one in doc_ids], np.int64)


def best_of_documents(
    search: Callable[[int], tuple[Rows, Scores]], documents: Int64[np.ndarray, " row"], *, depth: int
) -> tuple[Rows, Scores]:
    """The best passage of each of a query's `depth` best documents, by the order of the passages.

    `search` gives so many passages of each query, best first, as rows of `documents`; it is asked for more
    until they are of enough documents. Fewer documents give fewer ranks.
    """
    width = min(depth, len(np.unique(documents)))
    asked = min(OVERSAMPLING * depth, len(documents))
    while True:
        rows, scores = search(asked)
        places = [best_places(of_query)[:width] for of_query in documents[rows].tolist()]
        if asked == len(documents) or all(len(of_query) == width for of_query in places):
            break
        asked = min(OVERSAMPLING * asked, len(documents))
    chosen = np.array(places, np.int64).reshape(len(places), width)
    return np.take_along_axis(rows, chosen, axis=1), np.take_along_axis(scores, chosen, axis=1)


def ranked_pairs(
    query_ids: Sequence[str],
    doc_ids: Sequence[str],
    query_rows: Int64[np.ndarray, " pair"],
    passage_rows: Int64[np.ndarray, " pair"],
    scores: Float32[np.ndarray, " pair"],
    *,
    depth: int,
    is_split: bool,
) -> Iterator[ScoredDoc]:
    """The `depth` best passages of each query, whose pairs stand together; a tie goes to the lower row.

    Of a collection that is split, the best documents by their best passages.
    """
    bounds = [*np.flatnonzero(np.diff(query_rows, prepend=-1)).tolist(), len(query_rows)]
    for begin, end in pairwise(bounds):
        order = begin + np.lexsort((passage_rows[begin:end], -scores[begin:end]))
        query_id = query_ids[query_rows[begin]]
        ids = [doc_ids[row] for row in passage_rows[order].tolist()]
        if is_split:
            yield from best_passages(query_id, ids, scores[order].tolist(), depth=depth)
        else:
            yield from map(ScoredDoc, repeat(query_id, depth), ids, scores[order].tolist())


def best_passages(
    query_id: str, passage_ids: Sequence[str], scores: Sequence[float], *, depth: int
) -> list[ScoredDoc]:
    """The documents of a query's ranked passages, each once, by its best passage; at most `depth`."""
    documents = list(map(document_of, passage_ids))
    return [
        ScoredDoc(query_id, documents[place], scores[place], passage_ids[place])
        for place in best_places(documents)[:depth]
    ]


def best_places(documents: Iterable[Hashable]) -> list[int]:
    """The places of the first passage of each document, in a ranking of passages given by their documents.

    >>> best_places(["d2", "d1", "d2", "d3"])
    [0, 1, 3]
    """
    first: dict[Hashable, int] = {}
    for place, document in enumerate(documents):
        first.setdefault(document, place)
    return list(first.values())
