"""What a step computes together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from jaxtyping import Int
from torch import Tensor

Inputs = TypeVar("Inputs")


@dataclass(frozen=True)
class Chunk(Generic[Inputs]):
    """Rows that are computed together.

    `group` names their kind of representation ("spans", "queries", "passages"), `rows` are their indices
    in that group's whole batch, and `seed` is the seed of their dropout, which no other chunk has.
    """

    group: str
    rows: Int[Tensor, " row"]
    inputs: Inputs
    seed: int


@dataclass(frozen=True)
class ChunkedTexts(Generic[Inputs]):
    """One process's chunks of a step's texts, on the CPU, and the counts of the whole batch by group."""

    chunks: list[Chunk[Inputs]]
    num_rows: dict[str, int]
