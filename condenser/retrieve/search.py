"""Exhaustive search by inner product over embeddings that need not fit in memory.

FAISS searches on the processor, `condenser.retrieve.device_search` on a GPU. On one machine a result depends
on the embeddings alone, not on the number of shards or reads. A tie goes to the lower row, also at the last
rank. Float addition is not associative, so every score must come from a matrix product of the same shape:
`QUERIES_PER_PRODUCT` queries by `block_rows` passages at a time, and every shard begins at a multiple of
`block_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import faiss
import numpy as np
from jaxtyping import Float32, Int64

from condenser.data.records import ScoredDoc
from condenser.files import atomic_write, load_npy, save_npy
from condenser.progress import Progress
from condenser.retrieve.finished import finish_block, is_finished

if TYPE_CHECKING:
    import torch

QUERIES_PER_PRODUCT = 4096
SPARE_HITS = 64
WINDOW = 1024
READ_BYTES = 1 << 29  # passages of one read; with depth 1000 a search stays under 1 GB

Rows = Int64[np.ndarray, "query rank"]
Scores = Float32[np.ndarray, "query rank"]


def search_device(name: str, *, threads: int) -> torch.device | None:
    """Where the config's `compute.device` lets PyTorch search; None for FAISS on the processor.

    For "auto" on a machine without NVIDIA's devices, PyTorch is not imported: that takes longer than a search
    of a small collection.

    Raises:
        ValueError: the name is "cuda" and there is no GPU, or none is free.
    """
    if name == "cpu" or (name == "auto" and not any(Path("/dev").glob("nvidia[0-9]*"))):
        return None
    from condenser.retrieve.device_search import free_gpu

    return free_gpu(name, threads=threads)


def search_shard(
    embeddings_file: Path,
    queries_file: Path,
    rows_file: Path,
    scores_file: Path,
    *,
    first_row: int,
    depth: int,
    block_rows: int,
    threads: int,
    work_folder: Path,
    device: torch.device | None = None,
) -> dict[str, int]:
    """The `depth` passages of one embedding shard that score highest with each query, best first.

    Writes `rows` (int64, rows of the whole collection; the shard begins at `first_row`) and `scores`
    (float32), both [query, min(depth, rows of the shard)].

    An interrupted search resumes after the last finished block of queries in `work_folder`, which keeps all
    blocks but the last one. The caller chooses a folder that belongs to these inputs alone, and removes it.

    Args:
        device: where PyTorch searches; None for FAISS on the processor.

    Raises:
        ValueError: the two files differ in dimension or are not float32, or the shard does not begin at a
            multiple of `block_rows`.
    """
    embeddings, queries = load_npy(embeddings_file), load_npy(queries_file)
    for file, array in ((embeddings_file, embeddings), (queries_file, queries)):
        if array.ndim != 2 or array.dtype != np.float32:
            raise ValueError(
                f"{file}: expected float32 [row, dim], got {array.dtype} {list(array.shape)}. "
                "Did this workflow write this file?"
            )
    if embeddings.shape[1] != queries.shape[1]:
        raise ValueError(
            f"{queries_file}: expected vectors of {embeddings.shape[1]} numbers as in {embeddings_file}, "
            f"got {queries.shape[1]}. Encode both with one retriever."
        )
    if first_row % block_rows:
        raise ValueError(
            f"{embeddings_file}: expected a shard that begins at a multiple of {block_rows}, got row "
            f"{first_row}. Encode again with this block_rows."
        )
    work_folder.mkdir(parents=True, exist_ok=True)
    num_queries, width = QUERIES_PER_PRODUCT, min(depth, len(embeddings))
    settings = {"depth": depth, "block_rows": block_rows}
    search: Callable[..., tuple[Rows, Scores]] = partial(top_passages, threads=threads)
    if device is not None:
        from condenser.retrieve.device_search import queries_at_once, top_passages_on

        num_queries = queries_at_once(dim=embeddings.shape[1], depth=depth)
        search = partial(top_passages_on, device)
    starts = range(0, len(queries), num_queries)
    with (
        Progress("search", total=len(starts) * len(embeddings), unit="passages read") as progress,
        atomic_write(rows_file) as rows_out,
        atomic_write(scores_file) as scores_out,
    ):
        for out, dtype in ((rows_out, np.int64), (scores_out, np.float32)):
            header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (len(queries), width)}
            np.lib.format.write_array_header_1_0(out, header)
        for start in starts:
            files = tuple(work_folder / f"{part}-{start:09}.npy" for part in ("rows", "scores"))
            mark = work_folder / f"hits-{start:09}.json"
            if is_finished(mark, files):
                rows, scores = map(load_npy, files)
                progress.advance(len(embeddings))
            else:
                block = _rows(queries, start, num_queries)
                rows, scores = search(embeddings, block, **settings, on_read=progress.advance)
                rows = rows + first_row
                if start != starts[-1]:
                    save_npy(files[0], rows)
                    save_npy(files[1], scores)
                    finish_block(mark, files)
            rows_out.write(np.ascontiguousarray(rows).data)
            scores_out.write(np.ascontiguousarray(scores).data)
    return {"queries": len(queries), "passages": len(embeddings), "depth": width}


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
    faiss.cvar.distance_compute_blas_threshold = 0  # below it FAISS sums in another order
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


def pieces(
    embeddings: Float32[np.ndarray, "passage dim"], *, block_rows: int
) -> Iterator[tuple[int, Float32[np.ndarray, "row dim"]]]:
    """First row and vectors of each read: whole blocks. Keep no read beyond the next one."""
    step = block_rows * max(1, READ_BYTES // (block_rows * embeddings.shape[1] * embeddings.itemsize))
    for start in range(0, len(embeddings), step):
        yield start, _rows(embeddings, start, step)


def _rows(array: np.ndarray, start: int, count: int) -> np.ndarray:
    """At most `count` rows, beginning at `start`; of a memory map by a map of their own.

    Pages that were read through a map count as memory of this process until the map is gone.
    """
    rows = array[start : start + count]
    if not isinstance(array, np.memmap) or array.filename is None or not rows.size:
        return np.asarray(rows)
    assert array.flags.c_contiguous, "load_npy refuses arrays that are not in C order"
    # copy on write, as PyTorch warns of arrays that cannot be written
    return np.asarray(
        np.memmap(array.filename, array.dtype, "c", array.offset + start * array.strides[0], rows.shape)
    )


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


def best_of(parts: Sequence[tuple[Rows, Scores]], *, depth: int) -> tuple[Rows, Scores]:
    """The `depth` best hits of all parts: score descending; ties keep their order."""
    rows, scores = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def merged_run(
    parts: Sequence[tuple[Path, Path]], query_ids: Sequence[str], doc_ids: Sequence[str], *, depth: int
) -> Iterator[ScoredDoc]:
    """The run of all shards together: the `depth` best of each query, ties to the lower row.

    `parts` are the (rows, scores) files of the shards, in their order.

    Raises:
        ValueError: a file does not belong to the others, the queries or the collection.
    """
    arrays = [(load_npy(rows), load_npy(scores)) for rows, scores in parts]
    for (file, _), (rows, scores) in zip(parts, arrays, strict=True):
        if rows.shape != scores.shape or len(rows) != len(query_ids):
            raise ValueError(
                f"{file}: expected hits of {len(query_ids):,} queries, got {len(rows):,} rows and "
                f"{len(scores):,} of scores. Search again."
            )
    step = max(1, (1 << 22) // max(1, sum(rows.shape[1] for rows, _ in arrays)))
    with Progress("merge", total=len(query_ids), unit="queries") as progress:
        for start in range(0, len(query_ids), step):
            rows, scores = best_of(
                [(_rows(rows, start, step), _rows(scores, start, step)) for rows, scores in arrays],
                depth=depth,
            )
            if rows.size and not 0 <= rows.min() <= rows.max() < len(doc_ids):
                raise ValueError(
                    f"{parts[0][0]}: expected rows below {len(doc_ids):,}, the size of the collection, got "
                    f"{rows.min():,} to {rows.max():,}. Encode and search this collection again."
                )
            for query_id, found, values in zip(query_ids[start : start + step], rows, scores, strict=True):
                for row, score in zip(found.tolist(), values.tolist(), strict=True):
                    yield ScoredDoc(query_id, doc_ids[row], score)
                progress.advance()
