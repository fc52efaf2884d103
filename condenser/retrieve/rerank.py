"""Reranking: a cross-encoder scores the first hits of a run, and sorts them by its scores.

The pairs of query and hit are divided into blocks of `block_rows` pairs in the order of the run. Each block
is sorted by length and divided into batches separately, so that a resumed job has the same batches.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, Int64

from condenser.data.batches import PairWindows, pack_pairs, pair_windows, token_batches
from condenser.data.records import read_run, write_run
from condenser.data.text_files import TextFiles
from condenser.data.tokens import Tokenizer
from condenser.files import full_disk_named, load_npy
from condenser.model.crossencoder import CrossEncoder
from condenser.model.devices import Compute
from condenser.model.operations import weights_unchanged
from condenser.model.rows import Rows
from condenser.progress import Progress
from condenser.retrieve.blocks import BlockFile
from condenser.retrieve.documents import ranked_pairs


def rerank(
    model_folder: Path,
    candidates: Path,
    output: Path,
    files: TextFiles,
    *,
    subset: Collection[str] | None,
    depth: int,
    lengths: Mapping[str, int],
    batch_tokens: int,
    block_rows: int,
    compute: Compute,
    work_folder: Path,
    system: str,
    is_split: bool = False,
) -> dict[str, int]:
    """Write the run of the first `depth` hits of each query of `candidates`; returns counts.

    Hits are sorted by the cross-encoder's score; a tie goes to the lower row of the collection. Deeper hits
    are left out. Of a document that is split, the model reads the passage that the candidates found. Texts
    are cut as in training. By `batch_tokens` and `block_rows` only the rounding differs.

    An interrupted reranking resumes after the last finished block in `work_folder`. The caller chooses a
    folder that belongs to these inputs alone, and removes it.

    Args:
        subset: ids of the queries that are reranked; None for all of the run.
        lengths: tokens a query and a passage are cut to, as in training.

    Counts: `queries`, `queries_of_fewer_hits` than `depth`, `hits`, `tokens` (with special tokens).

    Raises:
        ValueError: a score is NaN or infinite.
    """
    texts, tokenizer = files.read(), Tokenizer(model_folder)
    query_rows, passage_rows = _rows_of_hits(
        candidates,
        {query_id: row for row, query_id in enumerate(texts.query_ids)},
        {doc_id: row for row, doc_id in enumerate(texts.doc_ids)},
        subset=subset,
        depth=depth,
    )
    pairs = pair_windows(
        texts.queries,
        query_rows,
        texts.passages,
        passage_rows,
        query_length=lengths["query"],
        passage_length=lengths["passage"],
        num_separators=tokenizer.num_separators,
    )
    device = compute.device
    model = CrossEncoder.load(model_folder).to(device).eval()
    has_segments, num_pairs = model.encoder.config.has_segments, len(query_rows)

    def scores_of(block: PairWindows) -> Float32[np.ndarray, "pair 1"]:
        scores = torch.empty(len(block.lengths), 1, device=device)
        for batch in token_batches(block.lengths, batch_tokens=batch_tokens):
            of_batch = block.at(batch)
            ids, types = pack_pairs(texts.queries, texts.passages, of_batch, tokenizer)
            with torch.inference_mode(), compute.autocast():
                rows = Rows.of(
                    ids, of_batch.lengths, token_types=types if has_segments else None, device=device
                )
                found = model(rows.to(device))
            scores[torch.from_numpy(batch).to(device)] = found.float()
        return scores.cpu().numpy()

    with (
        weights_unchanged(),
        full_disk_named(work_folder),
        BlockFile(work_folder, "scores", num_rows=num_pairs, rows_of_block=block_rows, dim=1) as blocks,
        Progress("rerank", total=num_pairs, unit="pairs", start=blocks.num_rows_done) as progress,
    ):
        for start in range(blocks.num_rows_done, num_pairs, block_rows):
            of_block = np.arange(start, min(start + block_rows, num_pairs))
            block = scores_of(pairs.at(of_block))
            wrong = np.flatnonzero(~np.isfinite(block))
            if len(wrong):
                first = of_block[wrong[0]]
                raise ValueError(
                    f"{model_folder}: expected finite scores, got NaN or infinity for query "
                    f"{texts.query_ids[query_rows[first]]} with passage {texts.doc_ids[passage_rows[first]]} "
                    f"and {len(wrong) - 1} more pairs of its block. Precision is {compute.precision}: set "
                    "compute.precision to fp32, or train again."
                )
            blocks.append(block)
            progress.advance(len(of_block))
    scores = load_npy(blocks.path, mapped=False)[:, 0]
    hits = ranked_pairs(
        *(texts.query_ids, texts.doc_ids, query_rows, passage_rows, scores), depth=depth, is_split=is_split
    )
    _, num_hits_of_query = np.unique(query_rows, return_counts=True)
    return {
        "queries": len(num_hits_of_query),
        "queries_of_fewer_hits": int((num_hits_of_query < depth).sum()),
        "hits": write_run(output, hits, system=system),
        "tokens": int(pairs.lengths.sum()),
    }


def _rows_of_hits(
    run: Path,
    query_rows: Mapping[str, int],
    doc_rows: Mapping[str, int],
    *,
    subset: Collection[str] | None,
    depth: int,
) -> tuple[Int64[np.ndarray, " pair"], Int64[np.ndarray, " pair"]]:
    """Rows of the queries and of the passages of a run's first hits, in the order of the run."""
    queries, passages = array("q"), array("q")
    for query_id, hits in groupby(read_run(run), key=attrgetter("query_id")):
        if subset is not None and query_id not in subset:
            continue
        for hit in islice(hits, depth):
            queries.append(query_rows[query_id])
            passages.append(doc_rows[hit.text_id])
    return np.array(queries, dtype=np.int64), np.array(passages, dtype=np.int64)
