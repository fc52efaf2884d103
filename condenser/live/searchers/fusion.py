"""A fusion: its systems' hits, by the function that the rule `fusion` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from condenser.live.searchers import OneQuery
from condenser.live.texts import Lines

STEP = "fuse"


def needs(settings: Any, *, dataset: str, variant: str, shards: Sequence[str]) -> dict[str, list[str]]:
    """Nothing of its own."""
    return {}


def parts(settings: Any) -> list[str]:
    """The systems that are fused."""
    return list(settings.of)


class Ranker:
    """Fuses the hits of its systems."""

    def __init__(
        self,
        files: Mapping[str, Sequence[Path]],
        settings: Mapping[str, Any],
        *,
        collection: Lines,
        doc_ids: Lines,
    ) -> None:
        self._system, self._depth = settings["system"], settings["depth"]

    def rank(self, query: OneQuery, output: Path) -> None:
        """Write the run of the fused hits."""
        from condenser.data.records import write_run
        from condenser.retrieve.fusion import fused_run

        weights = self._system["weights"]
        run = fused_run(
            *(query.runs, query.queries),
            subset=None,
            method=self._system["method"],
            weights=None if weights == "equal" else weights,
            depth=self._depth,
            k=self._system["k"],
        )
        write_run(output, run, system="fusion")
