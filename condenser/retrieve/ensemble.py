"""The hits of several runs by the mean of their scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import fsum
from operator import attrgetter
from pathlib import Path

from condenser.data.records import ScoredDoc, read_run


def averaged_run(runs: Sequence[Path]) -> Iterator[ScoredDoc]:
    """The hits of the runs by the mean of their scores; ties by doc_id. Holds one query at a time.

    The runs are of systems that rerank the same hits, so they have the same queries and passages. The passage
    of a document, where the collection is split, is that of the first run.
    """
    by_query = [groupby(read_run(run), key=attrgetter("query_id")) for run in runs]
    for groups in zip(*by_query, strict=True):
        found_by = [{hit.doc_id: hit for hit in hits} for _, hits in groups]
        first = found_by[0]
        means = {doc_id: fsum(found[doc_id].score for found in found_by) / len(runs) for doc_id in first}
        for doc_id in sorted(means, key=lambda doc_id: (-means[doc_id], doc_id)):
            yield first[doc_id]._replace(score=means[doc_id])
