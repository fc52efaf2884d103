"""Reranking: a cross-encoder scores the first hits of a run, and sorts them by its scores.

The pairs of query and hit are divided into blocks of `block_rows` pairs in the order of the run. Each block
is sorted by length and divided into batches separately, so that a resumed job has the same batches.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int64

from condenser.data.batches import PairWindows, pack_pairs, pair_windows, token_batches
from condenser.data.records import read_run, write_run
from condenser.data.text_files import TextFiles, Texts
from condenser.data.tokens import Tokenizer
from condenser.files import full_disk_named, load_npy
from condenser.model.crossencoder import CrossEncoder
from condenser.model.devices import Compute
from condenser.model.operations import weights_unchanged
from condenser.progress import Progress
from condenser.retrieve.blocks import BlockFile, block_bounds, row_of_numbers
from condenser.retrieve.documents import ranked_pairs
from condenser.retrieve.inference import Batch, outputs_of

Pairs = Int64[np.ndarray, " pair"]


def rerank(
    model: PairScorer,
    candidates: Path,
    output: Path,
    files: TextFiles,
    *,
    subset: Collection[str] | None,
    depth: int,
    block_rows: int,
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

    Counts: `queries`, `queries_of_fewer_hits` than `depth`, `hits`, `tokens` (with special tokens).

    Raises:
        ValueError: a score is NaN or infinite.
    """
    texts = files.read()
    query_rows, passage_rows = _rows_of_hits(
        candidates,
        {query_id: row for row, query_id in enumerate(texts.query_ids)},
        {doc_id: row for row, doc_id in enumerate(texts.doc_ids)},
        subset=subset,
        depth=depth,
    )
    num_pairs = len(query_rows)
    bounds = block_bounds(num_pairs, block_rows)
    with (
        weights_unchanged(),
        full_disk_named(work_folder),
        BlockFile(work_folder, "scores", row=row_of_numbers(1), bounds=bounds) as blocks,
        Progress("rerank", total=num_pairs, unit="pairs", start=blocks.num_rows_done) as progress,
    ):
        for start in range(blocks.num_rows_done, num_pairs, block_rows):
            of_block = slice(start, start + block_rows)
            block = model.scores(texts, query_rows[of_block], passage_rows[of_block])
            blocks.append(block.tobytes())
            progress.advance(len(block))
    scores = load_npy(blocks.path, mapped=False)[:, 0]
    hits = ranked_pairs(
        *(texts.query_ids, texts.doc_ids, query_rows, passage_rows, scores), depth=depth, is_split=is_split
    )
    _, num_hits_of_query = np.unique(query_rows, return_counts=True)
    return {
        "queries": len(num_hits_of_query),
        "queries_of_fewer_hits": int((num_hits_of_query < depth).sum()),
        "hits": write_run(output, hits, system=system),
        "tokens": int(model.windows(texts, query_rows, passage_rows).lengths.sum()),
    }


@dataclass(kw_only=True)
class PairScorer:
    """A cross-encoder that is open; `lengths` are the tokens that a query and a passage are cut to."""

    model_folder: Path
    lengths: Mapping[str, int]
    batch_tokens: int
    compute: Compute

    def __post_init__(self) -> None:
        self.tokenizer = Tokenizer(self.model_folder)
        self.model = CrossEncoder.load(self.model_folder).to(self.compute.device).eval()

    def windows(self, texts: Texts, query_rows: Pairs, passage_rows: Pairs) -> PairWindows:
        """What is read of each pair of a query and a passage."""
        return pair_windows(
            *(texts.queries, query_rows, texts.passages, passage_rows),
            query_length=self.lengths["query"],
            passage_length=self.lengths["passage"],
            num_separators=self.tokenizer.num_separators,
        )

    def scores(self, texts: Texts, query_rows: Pairs, passage_rows: Pairs) -> Float32[np.ndarray, " pair"]:
        """The score of each pair of a block.

        Raises:
            ValueError: a score is NaN or infinite.
        """

        def name_of_pair(pair: int) -> str:
            query, passage = texts.query_ids[query_rows[pair]], texts.doc_ids[passage_rows[pair]]
            return f"query {query} with passage {passage}"

        return outputs_of(
            self._batches(texts, self.windows(texts, query_rows, passage_rows)),
            *(self.compute, self.model),
            shape=(len(query_rows), 1),
            what=f"{self.model_folder}: expected finite scores",
            name_of_row=name_of_pair,
        )[:, 0]

    def _batches(self, texts: Texts, windows: PairWindows) -> Iterator[Batch]:
        has_segments = self.model.encoder.config.layout.has_segments
        for places in token_batches(windows.lengths, batch_tokens=self.batch_tokens):
            pairs = windows.at(places)
            ids, types = pack_pairs(texts.queries, texts.passages, pairs, self.tokenizer)
            yield Batch(places, ids, pairs.lengths, types if has_segments else None)


def _rows_of_hits(
    run: Path,
    query_rows: Mapping[str, int],
    doc_rows: Mapping[str, int],
    *,
    subset: Collection[str] | None,
    depth: int,
) -> tuple[Pairs, Pairs]:
    """Rows of the queries and of the passages of a run's first hits, in the order of the run."""
    queries, passages = array("q"), array("q")
    for query_id, hits in groupby(read_run(run), key=attrgetter("query_id")):
        if subset is not None and query_id not in subset:
            continue
        for hit in islice(hits, depth):
            queries.append(query_rows[query_id])
            passages.append(doc_rows[hit.text_id])
    return np.array(queries, dtype=np.int64), np.array(passages, dtype=np.int64)
