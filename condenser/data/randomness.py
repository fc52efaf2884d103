"""Random numbers as a pure function of where they are used.

There is no generator with a state. A number depends only on (seed, stream, epoch, position, column), so
it is the same after resuming, with another number of processes and with other batches.
"""

from __future__ import annotations

import hashlib

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def _mixed(values: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014), elementwise on uint64, in place."""
    shifted = values >> np.uint64(30)
    values ^= shifted
    values *= _MIX_1
    np.right_shift(values, np.uint64(27), out=shifted)
    values ^= shifted
    values *= _MIX_2
    np.right_shift(values, np.uint64(31), out=shifted)
    values ^= shifted
    return values


def stream_key(seed: int, stream: str, epoch: int = 0) -> int:
    """A 63-bit key for one epoch of a stream, which is a name for one use of randomness."""
    text = f"{seed}/{stream}/{epoch}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1


def uniforms(seed: int, stream: str, epoch: int, positions: np.ndarray, *, columns: int) -> np.ndarray:
    """Independent numbers in [0, 1): float64 [position, column].

    Entry (i, j) depends on `positions[i]` and j alone, so a call with more columns begins with the same
    numbers.
    """
    bits = random_bits(seed, stream, epoch, positions, columns=columns)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def random_bits(seed: int, stream: str, epoch: int, positions: np.ndarray, *, columns: int) -> np.ndarray:
    """64 random bits for each position and column: uint64 [position, column].

    The first 53 are the number that `uniforms` gives there.
    """
    keys = _mixed(positions.astype(np.uint64) * _GOLDEN + np.uint64(stream_key(seed, stream, epoch)))
    return _mixed(keys[:, None] + np.arange(1, columns + 1, dtype=np.uint64) * _GOLDEN)


def permutation(seed: int, stream: str, epoch: int, count: int) -> np.ndarray:
    """A permutation of 0..count-1 for this seed, stream and epoch: int64 [count]."""
    keys = np.random.Generator(np.random.Philox(key=stream_key(seed, stream, epoch)))
    return keys.permutation(count)
