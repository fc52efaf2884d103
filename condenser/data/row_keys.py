"""Keys of passages, by which a later job knows again what was encoded, and what a model has learnt from."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from jaxtyping import Int, Shaped

from condenser.data.batches import row_windows
from condenser.data.tokens import TokenShards
from condenser.files import load_npy, save_npy

_LEARNT_TOKENS = 512  # of a passage that are compared with those that a model has learnt from

Keys = Shaped[np.ndarray, " row"]
"""A digest of 16 bytes for each row."""


def row_keys(shards: TokenShards, rows: Int[np.ndarray, " row"], *, max_tokens: int) -> Keys:
    """A key for each of some rows of the shards, as they are read."""
    starts, lengths = row_windows(shards, rows, max_tokens=max_tokens)
    keys = np.empty(len(rows), "S16")
    for place in range(0, len(rows), 4096):
        part = slice(place, place + 4096)
        width = int(lengths[part].max(initial=0))
        tokens = shards.read(starts[part], lengths[part], width=width, fill=0).astype(np.int32)
        keys[part] = [
            hashlib.blake2b(row[:length].tobytes(), digest_size=16).digest()
            for row, length in zip(tokens, lengths[part].tolist(), strict=True)
        ]
    return keys


def note_learnt(file: Path, shards: TokenShards) -> None:
    """Write the keys of all rows from which a model has learnt."""
    save_npy(file, np.unique(row_keys(shards, np.arange(shards.num_rows), max_tokens=_LEARNT_TOKENS)))


def count_newer(learnt: Path, shards: TokenShards) -> int:
    """How many of these rows are not among those from which a model has learnt."""
    keys = row_keys(shards, np.arange(shards.num_rows), max_tokens=_LEARNT_TOKENS)
    return int((~np.isin(keys, load_npy(learnt))).sum())
