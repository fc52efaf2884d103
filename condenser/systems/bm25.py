"""BM25 by Anserini (`condenser.retrieve.bm25`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from condenser.settings import NotNegative, Share, System


class Settings(System):
    """Saturation of term frequencies, and normalisation by length."""

    k1: NotNegative
    b: Share


def is_trained(settings: Mapping[str, Any]) -> bool:
    """BM25 learns nothing."""
    return False


def made_from_texts(settings: Mapping[str, Any]) -> list[str]:
    """The index."""
    return ["bm25/index"]


def cost(job: Any, data: Any) -> dict[str, Any]:
    """What a run takes (`condenser.pipeline.costs.stages`): each query is held against every passage."""
    pairs = data.queries(job).count * data.passages(job).count
    return {**data.run(job), "pairs": pairs, "memory_bytes": data.tables.assumption("java_bytes")}
