"""An ensemble: the mean of the scores that systems give the same hits (`condenser.retrieve.ensemble`).

Source: coCondenser, §4.3 and Table 3; that every system counts alike is ours. A cross-encoder trained by a
softmax over a query's passages gives logarithms of their odds: the mean of its scores with another's ranks by
the geometric mean of their probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from condenser.settings import Name, System


class Settings(System):
    """The systems whose scores are averaged."""

    of: Annotated[list[Name], Field(min_length=2)]


def is_trained(settings: Mapping[str, Any]) -> bool:
    """Nothing is learnt."""
    return False


def systems_of(settings: Mapping[str, Any]) -> list[str]:
    """The systems whose runs are read."""
    return list(settings["of"])


def reorders(settings: Mapping[str, Any]) -> list[str]:
    """The same: its hits are theirs."""
    return list(settings["of"])


def check(settings: Mapping[str, Any], systems: Mapping[str, Mapping[str, Any]]) -> None:
    """See that rerankers have the same hits to rerank.

    Raises:
        ValueError: two of them rerank the hits of other systems, or to another depth.
    """
    first, *others = settings["of"]
    for key in ("candidates", "depth"):
        for other in others:
            ours, theirs = systems[first].get(key), systems[other].get(key)
            if ours != theirs:
                raise ValueError(
                    f"of: expected systems that rerank the same hits, got {first} with {key} {ours} and "
                    f"{other} with {theirs}. Give them the same candidates and depth."
                )


def cost(job: Any, data: Any) -> dict[str, Any]:
    """What averaging takes (`condenser.pipeline.costs.stages`): reading the runs and writing one."""
    run = data.run(job)
    return {**run, "read_hits": len(job.config["system"]["of"]) * run["hits"]}
