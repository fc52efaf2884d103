"""Search of one shard of embeddings, query block by query block, and the run of all shards together.

FAISS searches on the processor (`condenser.retrieve.exact`, with what both keep to), PyTorch on a GPU
(`condenser.retrieve.device_search`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int64

from condenser.data.records import ScoredDoc, without_own_text
from condenser.files import atomic_write, load_npy, save_npy
from condenser.progress import Progress
from condenser.retrieve import exact
from condenser.retrieve.documents import Rows, Scores, best_of_documents, best_passages
from condenser.retrieve.exact import best_of, mapped_rows, top_passages

if TYPE_CHECKING:
    import torch

HITS_AT_ONCE = 1 << 22  # of one merge: bounds its memory, changes no result
SMALL_SEARCH = (
    1e11  # multiplications; a processor makes them in seconds, as long as PyTorch needs to start a GPU
)


def search_device(name: str, *, threads: int, multiplications: float) -> torch.device | None:
    """Where the config's `compute.device` lets PyTorch search; None for FAISS on the processor.

    For "auto" and a small search, or on a machine without NVIDIA's devices, PyTorch is not imported: that
    takes longer than the search. `multiplications` are queries x passages x dimensions.

    Raises:
        ValueError: the name is "cuda" and there is no GPU, or none is free.
    """
    if name == "cpu":
        return None
    if name == "auto" and (multiplications < SMALL_SEARCH or not any(Path("/dev").glob("nvidia[0-9]*"))):
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
    documents: Int64[np.ndarray, " row"] | None = None,
) -> dict[str, int]:
    """The `depth` passages of one embedding shard that score highest with each query, best first.

    Writes `rows` (int64, rows of the whole collection; the shard begins at `first_row`) and `scores`
    (float32), both [query, min(depth, rows of the shard)]. Of a collection that is split, these are the best
    passages of the `depth` best documents instead (`condenser.data.passages`).

    An interrupted search resumes after the last finished block of queries in `work_folder`, which keeps all
    blocks but the last one. The caller chooses a folder that belongs to these inputs alone, and removes it.

    Args:
        device: where PyTorch searches; None for FAISS on the processor.
        documents: of a collection that is split, the document of each row of the shard.
    """
    embeddings, queries = load_npy(embeddings_file), load_npy(queries_file)
    assert first_row % block_rows == 0, "a shard begins at a multiple of block_rows"
    work_folder.mkdir(parents=True, exist_ok=True)
    num_queries = exact.QUERIES_PER_PRODUCT
    width = min(depth, len(embeddings) if documents is None else len(np.unique(documents)))
    search: Callable[..., tuple[Rows, Scores]] = partial(top_passages, threads=threads)
    if device is not None:
        from condenser.retrieve.device_search import queries_at_once, top_passages_on

        if documents is None:  # else more hits are held than `depth`, of as few queries as a product has
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
            if all(map(Path.is_file, files)):
                rows, scores = map(load_npy, files)
                progress.advance(len(embeddings))
            else:
                block = mapped_rows(queries, start, num_queries)
                if documents is None:
                    rows, scores = search(
                        embeddings, block, depth=depth, block_rows=block_rows, on_read=progress.advance
                    )
                else:

                    def passages(asked: int, block: np.ndarray = block) -> tuple[Rows, Scores]:
                        return search(embeddings, block, depth=asked, block_rows=block_rows)

                    rows, scores = best_of_documents(passages, documents, depth=depth)
                    progress.advance(len(embeddings))
                rows = rows + first_row
                if start != starts[-1]:
                    save_npy(files[0], rows)
                    save_npy(files[1], scores)
            rows_out.write(np.ascontiguousarray(rows).data)
            scores_out.write(np.ascontiguousarray(scores).data)
    return {"queries": len(queries), "passages": len(embeddings), "depth": width}


def merged_run(
    parts: Sequence[tuple[Path, Path]],
    query_ids: Sequence[str],
    doc_ids: Sequence[str],
    *,
    depth: int,
    in_collection: Collection[str] = (),
    is_split: bool = False,
) -> Iterator[ScoredDoc]:
    """The run of all shards together: the `depth` best of each query, ties to the lower row.

    Of queries `in_collection` their own text is left out (`without_own_text`).

    `parts` are the (rows, scores) files of the shards, in their order. Of a collection that is split, the run
    names documents; one whose passages lie in two shards stands once.
    """
    if in_collection:
        deeper = merged_run(parts, query_ids, doc_ids, depth=depth + 1, is_split=is_split)
        yield from without_own_text(deeper, in_collection, depth=depth)
        return
    arrays = [(load_npy(rows), load_npy(scores)) for rows, scores in parts]
    step = max(1, HITS_AT_ONCE // max(1, sum(rows.shape[1] for rows, _ in arrays)))
    with Progress("merge", total=len(query_ids), unit="queries") as progress:
        for start in range(0, len(query_ids), step):
            rows, scores = best_of(
                [
                    (mapped_rows(rows, start, step), mapped_rows(scores, start, step))
                    for rows, scores in arrays
                ],
                depth=sum(rows.shape[1] for rows, _ in arrays) if is_split else depth,
            )
            for query_id, found, values in zip(query_ids[start : start + step], rows, scores, strict=True):
                ids = [doc_ids[row] for row in found.tolist()]
                if is_split:
                    yield from best_passages(query_id, ids, values.tolist(), depth=depth)
                else:
                    yield from map(ScoredDoc, repeat(query_id), ids, values.tolist())
                progress.advance()
