"""A cross-encoder: the first hits of its candidates, by the function that the rule `rerank` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from condenser.live.searchers import OneQuery
from condenser.live.searchers._models import PairModel
from condenser.live.texts import Lines

STEP = "rerank"


def needs(settings: Any, *, dataset: str, variant: str, shards: Sequence[str]) -> dict[str, list[str]]:
    """Nothing but its model."""
    return {}


def parts(settings: Any) -> list[str]:
    """The system whose hits it reranks."""
    return [settings.candidates]


class Ranker:
    """The model and the texts."""

    def __init__(
        self,
        files: Mapping[str, Sequence[Path]],
        settings: Mapping[str, Any],
        *,
        collection: Lines,
        doc_ids: Lines,
    ) -> None:
        self._model = PairModel(files, settings, in_one_row=True, collection=collection, doc_ids=doc_ids)

    def rank(self, query: OneQuery, output: Path) -> None:
        """Write the run of the reranked hits."""
        from condenser.retrieve.rerank import rerank

        (candidates,) = query.runs
        rerank(
            candidates=candidates,
            output=output,
            files=self._model.write_texts(query, hits=self._model.options["depth"]),
            **self._model.options,
            work_folder=query.folder / "work",
            system="crossencoder",
            is_split=query.is_split,
        )
