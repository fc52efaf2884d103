"""An ensemble: the mean of its systems' scores, by the function that the rule `ensemble` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from condenser.live.searchers import OneQuery
from condenser.live.texts import Lines

STEP = "mean"


def needs(settings: Any, *, dataset: str, variant: str, shards: Sequence[str]) -> dict[str, list[str]]:
    """Nothing of its own."""
    return {}


def parts(settings: Any) -> list[str]:
    """The systems whose scores are averaged."""
    return list(settings.of)


class Ranker:
    """Averages the scores of its systems."""

    def __init__(
        self,
        files: Mapping[str, Sequence[Path]],
        settings: Mapping[str, Any],
        *,
        collection: Lines,
        doc_ids: Lines,
    ) -> None:
        """It opens nothing."""

    def rank(self, query: OneQuery, output: Path) -> None:
        """Write the run of the averaged scores."""
        from condenser.data.records import write_run
        from condenser.retrieve.ensemble import averaged_run

        write_run(output, averaged_run(query.runs), system="ensemble")
