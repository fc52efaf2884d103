"""The hits of several runs by the mean of their scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from math import fsum
from operator import attrgetter
from pathlib import Path

from condenser.data.records import ScoredDoc, read_run


def averaged_run(runs: Sequence[Path]) -> Iterator[ScoredDoc]:
    """The hits of the runs by the mean of their scores; ties by doc_id. Holds one query at a time.

    The passage of a document, where the collection is split, is that of the first run.

    Raises:
        ValueError: the runs do not have the same queries in the same order, or the same passages for a query.
    """
    by_query = [groupby(read_run(run), key=attrgetter("query_id")) for run in runs]
    for groups in zip_longest(*by_query, fillvalue=(None, ())):
        query_id = groups[0][0]
        found_by = [{hit.doc_id: hit for hit in hits} for _, hits in groups]
        for run, (other_id, _), found in zip(runs, groups, found_by, strict=True):
            if other_id != query_id:
                raise ValueError(
                    f"{run}: expected the queries of {runs[0]} in their order, got {other_id or 'the end'} "
                    f"instead of {query_id or 'the end'}. Average systems that rerank the same hits."
                )
            if differ := sorted(found.keys() ^ found_by[0].keys()):
                raise ValueError(
                    f"{run}: expected the passages of {runs[0]} for query {query_id}, but {differ[0]} is in "
                    "one of the two alone. Average systems that rerank the same hits."
                )
        first = found_by[0]
        means = {doc_id: fsum(found[doc_id].score for found in found_by) / len(runs) for doc_id in first}
        for doc_id in sorted(means, key=lambda doc_id: (-means[doc_id], doc_id)):
            yield first[doc_id]._replace(score=means[doc_id])
