"""A cross-encoder: the first hits of its candidates, by the function that the rule `rerank` calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from condenser.data.records import ScoredDoc
from condenser.live.searchers import Ranker
from condenser.live.searchers._models import PairModel
from condenser.live.texts import Texts

STEP = "rerank"


def ranker(files: Mapping[str, Sequence[Path]], settings: Mapping[str, Any], texts: Texts) -> Ranker:
    """Gives the reranked hits."""
    import numpy as np

    from condenser.model.operations import weights_unchanged
    from condenser.retrieve.rerank import PairScorer

    block_rows = settings["encode"]["block_rows"]
    model = PairModel(files, settings, texts, PairScorer, in_one_row=True)

    def rank(query: str, hits_of_parts: list[list[ScoredDoc]]) -> Iterable[ScoredDoc]:
        (candidates,) = hits_of_parts
        hits = candidates[: settings["depth"]]
        rows = model.rows(hits)
        read = model.texts(query, rows)
        row_of = {text_id: row for row, text_id in enumerate(read.doc_ids)}
        order = np.array([row_of[hit.text_id] for hit in hits])  # that of the run, as its batches
        blocks = np.split(order, range(block_rows, len(order), block_rows))
        with weights_unchanged():
            scores = [model.scorer.scores(read, 0 * block, block) for block in blocks]
        return model.ranked(rows, order, np.concatenate(scores))

    return Ranker(rank, settings["depth"])
