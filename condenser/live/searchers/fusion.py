"""A fusion: its systems' hits, by the function that the rule `fusion` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from condenser.data.records import ScoredDoc
from condenser.live.searchers import Ranker
from condenser.live.texts import Texts

STEP = "fuse"


def ranker(files: Mapping[str, Sequence[Path]], settings: Mapping[str, Any], texts: Texts) -> Ranker:
    """Gives the fused hits."""
    from condenser.retrieve.fusion import fuse, weights_of

    system, depth = settings["system"], settings["depth"]
    (learnt,) = files.get("weights", [None])
    weights = weights_of(system["weights"], learnt)

    def rank(query: str, hits_of_parts: list[list[ScoredDoc]]) -> list[ScoredDoc]:
        return fuse(hits_of_parts, method=system["method"], weights=weights, depth=depth, k=system["k"])

    return Ranker(rank, depth)
