"""Exact exhaustive search by inner product, with FAISS, over embeddings that need not fit in memory.

On one machine a result depends on the embeddings alone, not on the number of shards or reads. A tie goes to
the lower row, also at the last rank. Float addition is not associative, so every score must come from a
matrix product of the same shape: `QUERIES_PER_PRODUCT` queries by `block_rows` passages at a time, and every
shard begins at a multiple of `block_rows`. `condenser.retrieve.device_search` keeps to the same on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import faiss
import numpy as np
from jaxtyping import Float32

from condenser.retrieve.documents import Rows, Scores

QUERIES_PER_PRODUCT = 4096
SPARE_HITS = 64
WINDOW = 1024  # passages at a time where many may become hits
READ_BYTES = 1 << 29  # passages of one read; with depth 1000 a search stays under 1 GB


def pieces(
    embeddings: Float32[np.ndarray, "passage dim"], *, block_rows: int
) -> Iterator[tuple[int, Float32[np.ndarray, "row dim"]]]:
    """First row and vectors of each read: whole blocks. A piece is valid until the next is read."""
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


def top_passages(
    embeddings: Float32[np.ndarray, "passage dim"],
    queries: Float32[np.ndarray, "query dim"],
    *,
    depth: int,
    block_rows: int,
    threads: int,
    on_read: Callable[[int], None] | None = None,
) -> tuple[Rows, Scores]:
    """Rows and scores of the `depth` best passages of each query: score descending, row ascending.

    A collection of fewer passages gives fewer ranks; there is no row -1. `embeddings` may be a memory map:
    it is read in pieces of whole blocks, and `on_read` is called with the number of passages of each.
    """
    faiss.omp_set_num_threads(threads)
    # Where queries times dim are fewer, FAISS sums in another order: the last digits of scores change.
    faiss.cvar.distance_compute_blas_threshold = 0
    faiss.cvar.distance_compute_blas_query_bs = QUERIES_PER_PRODUCT
    faiss.cvar.distance_compute_blas_database_bs = block_rows
    found = _no_hits(queries)
    for start, piece in pieces(embeddings, block_rows=block_rows):
        rows, scores = _top_of_piece(piece, queries, depth=depth, block_rows=block_rows)
        found = best_of([found, (rows + start, scores)], depth=depth) if start else (rows, scores)
        if on_read is not None:
            on_read(len(piece))
    return found


def top_of_shards(
    shards: Sequence[Float32[np.ndarray, "passage dim"]],
    queries: Float32[np.ndarray, "query dim"],
    *,
    depth: int,
    block_rows: int,
    threads: int,
) -> tuple[Rows, Scores]:
    """As `top_passages`, of all shards of a collection; rows are counted over all of them."""
    parts, first_row = [], 0
    for shard in shards:
        rows, scores = top_passages(shard, queries, depth=depth, block_rows=block_rows, threads=threads)
        parts.append((rows + first_row, scores))
        first_row += len(shard)
    return best_of(parts, depth=depth)


def _top_of_piece(
    piece: Float32[np.ndarray, "passage dim"],
    queries: Float32[np.ndarray, "query dim"],
    *,
    depth: int,
    block_rows: int,
) -> tuple[Rows, Scores]:
    """The same as `top_passages` for passages in memory.

    If passages tie at the last rank, FAISS keeps arbitrary ones. So we ask for some more than `depth`. If
    these do not reach the end of the tie, we halve the piece, down to one block; of a block we ask for
    every passage.
    """
    asked = min(depth + SPARE_HITS, len(piece))
    rows, scores = _nearest(piece, queries, asked)
    if asked == len(piece) or not (scores[:, depth - 1] == scores[:, -1]).any():
        return rows[:, :depth], scores[:, :depth]
    if len(piece) <= block_rows:
        return _top_of_block(piece, queries, depth=depth)
    half = -(-len(piece) // block_rows) // 2 * block_rows
    left = _top_of_piece(piece[:half], queries, depth=depth, block_rows=block_rows)
    rows, scores = _top_of_piece(piece[half:], queries, depth=depth, block_rows=block_rows)
    return best_of([left, (rows + half, scores)], depth=depth)


def _top_of_block(
    block: Float32[np.ndarray, "passage dim"], queries: Float32[np.ndarray, "query dim"], *, depth: int
) -> tuple[Rows, Scores]:
    """The `depth` best of a block, from the scores of all its passages, `WINDOW` passages at a time.

    The other passages are replaced by NaN, which FAISS never returns. So the matrix product keeps its
    shape, the scores stay the same, and memory does not depend on the number of tied passages.
    """
    found = _no_hits(queries)
    for start in range(0, len(block), WINDOW):
        window = np.full_like(block, np.nan)
        shown = block[start : start + WINDOW]
        window[start : start + WINDOW] = shown
        found = best_of([found, _nearest(window, queries, len(shown))], depth=depth)
    return found


def _nearest(piece: np.ndarray, queries: np.ndarray, count: int) -> tuple[Rows, Scores]:
    """The `count` best by FAISS, ties ordered by row."""
    scores, rows = faiss.knn(queries, piece, count, metric=faiss.METRIC_INNER_PRODUCT)
    repeats = np.zeros(scores.shape, dtype=bool)  # has the score of the hit before it
    np.equal(scores[:, 1:], scores[:, :-1], out=repeats[:, 1:])
    tied = repeats.copy()
    tied[:, :-1] |= repeats[:, 1:]
    places = np.flatnonzero(tied)
    tie = np.cumsum(~repeats.ravel()[places]) * len(piece)
    rows.ravel()[places] = np.sort(tie + rows.ravel()[places]) - tie
    return rows, scores


def _no_hits(queries: np.ndarray) -> tuple[Rows, Scores]:
    return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
