"""A cross-encoder: the first hits of its candidates, by the function that the rule `rerank` calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from condenser.data.records import ScoredDoc
from condenser.live.searchers import Rank
from condenser.live.searchers._models import PairModel
from condenser.live.texts import Texts

STEP = "rerank"


def ranker(files: Mapping[str, Sequence[Path]], settings: Mapping[str, Any], texts: Texts) -> Rank:
    """Gives the reranked hits."""
    import numpy as np

    from condenser.model.operations import weights_unchanged
    from condenser.retrieve.rerank import PairScorer

    block_rows = settings["encode"]["block_rows"]
    model = PairModel(files, settings, texts, PairScorer, in_one_row=True)

    def rank(query: str, hits_of_parts: list[list[ScoredDoc]]) -> Iterable[ScoredDoc]:
        (candidates,) = hits_of_parts
        hits = candidates[: settings["depth"]]
        read = model.texts(query, hits)
        row_of = {text_id: row for row, text_id in enumerate(read.doc_ids)}
        rows = np.array([row_of[hit.text_id] for hit in hits])  # in the order of the run, as its batches
        blocks = np.split(rows, range(block_rows, len(rows), block_rows))
        with weights_unchanged():
            scores = [model.scorer.scores(read, 0 * block, block) for block in blocks]
        return model.ranked(read, rows, np.concatenate(scores))

    return rank
