"""An ensemble: the mean of the scores that systems give the same hits (`condenser.retrieve.fusion`).

Source: coCondenser, §4.3 and Table 3; that every system counts alike is ours. A cross-encoder trained by a
softmax over a query's passages gives logarithms of their odds: the mean of its scores with another's ranks by
the geometric mean of their probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from condenser.settings import Names, System


class Settings(System):
    """The systems whose scores are averaged."""

    of: Annotated[Names, Field(min_length=2)]


def is_trained(settings: Settings) -> bool:
    """Nothing is learnt."""
    return False


def systems_of(settings: Settings) -> list[str]:
    """The systems whose runs are read."""
    return list(settings.of)


def reorders(settings: Settings) -> list[str]:
    """The same: its hits are theirs."""
    return list(settings.of)


def check(settings: Settings, systems: Mapping[str, Any]) -> None:
    """See that its members have the same hits, so that each hit has a score of every member.

    Raises:
        ValueError: two rerank the hits of other systems, or to another depth, or one finds hits itself.
    """
    first, *others = settings.of
    for other in others:
        ours, theirs = _hits(first, systems), _hits(other, systems)
        if ours != theirs:
            raise ValueError(
                f"of: expected systems that rerank the same hits, got {first} with {ours} and {other} with "
                f"{theirs}. Name rerankers (kind: crossencoder) with the same candidates and depth."
            )


def _hits(system: str, systems: Mapping[str, Any]) -> str:
    """Whose hits a system has, in words."""
    entry = systems[system]
    if getattr(entry, "kind", None) == "ensemble":
        return _hits(entry.of[0], systems)
    if hasattr(entry, "candidates"):
        return f"the first {entry.depth} of {entry.candidates}"
    return f"those that {system} finds"


def cost(job: Any, data: Any) -> dict[str, Any]:
    """What averaging takes (`condenser.pipeline.costs.rules`): reading the runs and writing one."""
    run = data.run(job)
    return {**run, "read_hits": len(job.config.system.of) * run["hits"]}
