"""A fusion: its systems' hits, by the function that the rule `fusion` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from condenser.live.searchers import OneQuery, Rank
from condenser.live.texts import Texts

STEP = "fuse"


def needs(settings: Any, *, dataset: str, variant: str, shards: Sequence[str]) -> dict[str, list[str]]:
    """The weights, where they are learnt."""
    return {"weights": [f"{variant}/weights.json"]} if settings.weights == "learnt" else {}


def parts(settings: Any) -> list[str]:
    """The systems that are fused."""
    return list(settings.of)


def ranker(files: Mapping[str, Sequence[Path]], settings: Mapping[str, Any], texts: Texts) -> Rank:
    """Writes the run of the fused hits."""
    system, depth = settings["system"], settings["depth"]
    (learnt,) = files.get("weights", [None])

    def rank(query: OneQuery, output: Path) -> None:
        from condenser.data.records import write_run
        from condenser.retrieve.fusion import fused_run, weights_of

        run = fused_run(
            *(query.runs, query.queries),
            subset=None,
            method=system["method"],
            weights=weights_of(system["weights"], learnt),
            depth=depth,
            k=system["k"],
        )
        write_run(output, run, system="fusion")

    return rank
