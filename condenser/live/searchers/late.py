"""Late interaction: the hits of its candidates, by the function that the rule `late` calls.

All passages of an answer go through the model again, so a query takes longer than in the rule, which encodes
a passage once for all queries. They are in other batches than in the rule: token states, of 16 bits, may
differ in their last bit, and scores in their third decimal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from condenser.live.searchers import OneQuery
from condenser.live.searchers._models import PairModel
from condenser.live.texts import Lines

STEP = "maxsim"


def needs(settings: Any, *, dataset: str, variant: str, shards: Sequence[str]) -> dict[str, list[str]]:
    """Nothing but its model."""
    return {}


def parts(settings: Any) -> list[str]:
    """The systems whose hits it scores."""
    return list(settings.candidates)


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
        self._system = settings["system"]
        self._model = PairModel(files, settings, in_one_row=False, collection=collection, doc_ids=doc_ids)

    def rank(self, query: OneQuery, output: Path) -> None:
        """Write the run of the scored hits."""
        from condenser.retrieve.late import rank_by_maxsim

        hits = self._system["depth"]
        rank_by_maxsim(
            candidates=query.runs,
            output=output,
            files=self._model.write_texts(query, hits=hits),
            hits=hits,
            special_tokens=self._system["special_tokens"],
            punctuation=self._system["punctuation"],
            **self._model.options,
            work_folder=query.folder / "work",
            system="late",
            is_split=query.is_split,
        )
