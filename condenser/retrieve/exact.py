"""What makes an exhaustive search exact, on a processor and on a GPU.

On one machine a result depends on the embeddings alone, not on the number of shards or reads. A tie goes to
the lower row, also at the last rank. Float addition is not associative, so every score must come from a
matrix product of the same shape: `QUERIES_PER_PRODUCT` queries by `block_rows` passages at a time, and every
shard begins at a multiple of `block_rows`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float32, Int64

QUERIES_PER_PRODUCT = 4096
WINDOW = 1024  # passages at a time where many may become hits
READ_BYTES = 1 << 29  # passages of one read; with depth 1000 a search stays under 1 GB

Rows = Int64[np.ndarray, "query rank"]
Scores = Float32[np.ndarray, "query rank"]


def pieces(
    embeddings: Float32[np.ndarray, "passage dim"], *, block_rows: int
) -> Iterator[tuple[int, Float32[np.ndarray, "row dim"]]]:
    """First row and vectors of each read: whole blocks. Keep no read beyond the next one."""
    step = block_rows * max(1, READ_BYTES // (block_rows * embeddings.shape[1] * embeddings.itemsize))
    for start in range(0, len(embeddings), step):
        yield start, mapped_rows(embeddings, start, step)


def mapped_rows(array: np.ndarray, start: int, count: int) -> np.ndarray:
    """At most `count` rows, beginning at `start`; of a memory map by a map of their own.

    Pages that were read through a map count as memory of this process until the map is gone.
    """
    rows = array[start : start + count]
    if not isinstance(array, np.memmap) or array.filename is None or not rows.size:
        return np.asarray(rows)
    assert array.flags.c_contiguous, "our arrays are in C order"
    # copy on write, as PyTorch warns of arrays that cannot be written
    return np.asarray(
        np.memmap(array.filename, array.dtype, "c", array.offset + start * array.strides[0], rows.shape)
    )


def best_of(parts: Sequence[tuple[Rows, Scores]], *, depth: int) -> tuple[Rows, Scores]:
    """The `depth` best hits of all parts: score descending; ties keep their order."""
    rows, scores = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)
