"""A cross-encoder: the first hits of its candidates, by the function that the rule `rerank` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from condenser.live.searchers import OneQuery, Rank
from condenser.live.searchers._models import PairModel
from condenser.live.texts import Texts

STEP = "rerank"


def parts(settings: Any) -> list[str]:
    """The system whose hits it reranks."""
    return [settings.candidates]


def ranker(files: Mapping[str, Sequence[Path]], settings: Mapping[str, Any], texts: Texts) -> Rank:
    """Writes the run of the reranked hits."""
    model = PairModel(files, settings, texts, in_one_row=True)

    def rank(query: OneQuery, output: Path) -> None:
        from condenser.retrieve.rerank import rerank

        (candidates,) = query.runs
        rerank(
            candidates=candidates,
            output=output,
            files=model.write_texts(query, hits=model.options["depth"]),
            **model.options,
            work_folder=query.folder / "work",
            system="crossencoder",
            is_split=query.is_split,
        )

    return rank
