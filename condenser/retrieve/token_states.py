"""Token states of passages, kept from the indexing, so that MaxSim encodes no passage again.

A state is the last layer's at one token, of length 1, in eight bits: a whole number from -127 to 127 for each
dimension, and one scale. They lie end to end, a record for each token, in `collection.SHARD.states.npy`;
where each passage begins says `collection.SHARD.starts.npy`. Both are mapped, not read into memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float32, Int, Int8, Int64, Shaped
from torch import Tensor

from condenser.files import load_npy

MOST = 127  # of eight bits with a sign; the same on both sides of 0

Records = Shaped[np.ndarray, " token"]
"""Tokens of a passage: `id`, `scale` and `state` of each."""


class StatesFiles(NamedTuple):
    """The two files of a shard; both are empty where states are not kept."""

    states: Path
    starts: Path


def states_files(states: Path) -> StatesFiles:
    """The files of a shard, by that of its states."""
    return StatesFiles(states, states.with_name(states.name.replace(".states.", ".starts.")))


def record_of_token(dim: int) -> np.dtype:
    """What is kept of a token."""
    return np.dtype([("id", "<i4"), ("scale", "<f4"), ("state", "i1", (dim,))])


def in_eight_bits(
    states: Float[Tensor, "token dim"],
) -> tuple[Float32[np.ndarray, " token"], Int8[np.ndarray, "token dim"]]:
    """Scales of some tokens' states, and the states in these. An error is at most half of a scale."""
    states = states.float()
    scales = states.abs().amax(dim=1).clamp_min(torch.finfo(torch.float32).tiny) / MOST
    return scales.cpu().numpy(), (states / scales[:, None]).round().to(torch.int8).cpu().numpy()


def records_of_tokens(
    ids: Int[np.ndarray, " token"],
    scales: Float32[np.ndarray, " token"],
    states: Int8[np.ndarray, "token dim"],
) -> Records:
    """What is kept of some tokens."""
    records = np.empty(len(ids), record_of_token(states.shape[1]))
    records["id"], records["scale"], records["state"] = ids, scales, states
    return records


def in_floats(records: Records) -> Float32[np.ndarray, "token dim"]:
    """The states that were kept in eight bits."""
    return records["state"].astype(np.float32) * records["scale"][:, None]


class KeptStates:
    """The token states of a collection, by row.

    Attributes:
        are_kept: of all passages; else of none, because they would have been larger than `states_gb`.
    """

    def __init__(self, shards: Sequence[StatesFiles]) -> None:
        self._states = [load_npy(shard.states) for shard in shards]
        self._starts = [load_npy(shard.starts, mapped=False) for shard in shards]
        self.are_kept = bool(shards) and all(len(starts) for starts in self._starts)
        for files, states, starts in zip(shards, self._states, self._starts, strict=True):
            if len(states) != (starts[-1] if len(starts) else 0):
                raise ValueError(f"{files.starts}: expected the starts of {files.states}, got others.")
        self._first_rows = np.cumsum([0, *(len(starts) - 1 for starts in self._starts)])

    def of_rows(self, rows: Int64[np.ndarray, " passage"]) -> list[Records]:
        """The records of some passages."""
        shards = np.searchsorted(self._first_rows, rows, side="right") - 1
        found = []
        for shard, row in zip(shards.tolist(), (rows - self._first_rows[shards]).tolist(), strict=True):
            begin, end = self._starts[shard][row : row + 2].tolist()
            found.append(np.asarray(self._states[shard][begin:end]))
        return found


def split_texts(records: Records, lengths: Int[np.ndarray, " text"]) -> list[Records]:
    """The records of each of some texts, which stand end to end."""
    return [records[begin:end] for begin, end in pairwise([0, *np.cumsum(lengths).tolist()])]
