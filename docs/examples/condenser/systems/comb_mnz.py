"""CombMNZ: the sum of a hit's scores, times the number of systems that found it.

Source: Fox and Shaw 1994, "Combination of Multiple Searches"; scores from 0 to 1 for each query and system
are those of Lee 1997, "Analyses of Multiple Evidence Combination".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from condenser.nouns import System
from condenser.settings import Name


class Settings(System):
    """The systems whose runs are combined."""

    of: list[Name]

    @property
    def reads(self) -> list[str]:
        """The systems whose runs are read: it has variants where one of them has."""
        return self.of


def combined_run(runs: Sequence[Path], queries: Path, *, depth: int) -> Iterator[Any]:
    """The `depth` best passages of each query, ties by doc_id. Holds one query at a time."""
    from condenser.data.records import ScoredDoc
    from condenser.retrieve.fusion import read_together

    for query_id, rankings in read_together(runs, queries, subset=None, depth=depth):
        scores: dict[str, list[float]] = defaultdict(list)
        for hits in filter(None, rankings):
            lowest, highest = hits[-1].score, hits[0].score
            for hit in hits:
                scores[hit.doc_id].append((hit.score - lowest) / (highest - lowest or 1.0))
        combined = {doc_id: len(values) * sum(values) for doc_id, values in scores.items()}
        for doc_id in sorted(combined, key=lambda doc_id: (-combined[doc_id], doc_id))[:depth]:
            yield ScoredDoc(query_id, doc_id, combined[doc_id])
