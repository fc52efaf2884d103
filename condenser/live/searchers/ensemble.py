"""An ensemble: the mean of its systems' scores, by the function that the rule `ensemble` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from condenser.live.searchers import OneQuery, Rank
from condenser.live.texts import Texts

STEP = "mean"


def parts(settings: Any) -> list[str]:
    """The systems whose scores are averaged."""
    return list(settings.of)


def ranker(files: Mapping[str, Sequence[Path]], settings: Mapping[str, Any], texts: Texts) -> Rank:
    """Writes the run of the averaged scores."""

    def rank(query: OneQuery, output: Path) -> None:
        from condenser.data.records import write_run
        from condenser.retrieve.fusion import averaged_run

        write_run(output, averaged_run(query.runs), system="ensemble")

    return rank
