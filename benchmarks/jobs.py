"""Our jobs with the settings that no measurement varies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from condenser.data.tokens import Tokenizer, TokenShards, tokenise_collection
from condenser.files import load_npy
from condenser.model.devices import Compute
from condenser.retrieve.bm25 import search_bm25
from condenser.retrieve.encode import encode_texts
from condenser.train.distributed import alone
from condenser.train.masked_texts import Stretches, masked_texts

K1, B, HEAP_MB = 0.82, 0.68, 1500


def tokenise(collection: Path, doc_ids: Path, prefix: Path, tokenizer: Tokenizer) -> None:
    """Write the one token shard of a collection."""
    tokenise_collection(
        collection, doc_ids, prefix, tokenizer, shard="0-of-1", multiple_of=1024, leading_separator=False,
        batch_size=512,
    )  # fmt: skip


def mask(shards: TokenShards, lengths: np.ndarray, tokenizer: Tokenizer, *, rows_per_chunk: int) -> int:
    """Mask and batch the beginnings of the first rows; gives the number of masked tokens."""
    texts = Stretches(shards.row_starts[: len(lengths)], lengths, positions=np.arange(len(lengths)))
    return masked_texts(
        shards, {"blocks": texts}, tokenizer=tokenizer, mask_probability=0.15, rows_per_chunk=rows_per_chunk,
        seed=0, epoch=0, step=0, processes=alone(torch.device("cpu")),
    ).num_masked  # fmt: skip


def encode(
    model: Path,
    tokens: Path,
    compute: Compute,
    *,
    block_rows: int,
    rows: Sequence[int] | None = None,
    max_tokens: int = 128,
    batch_tokens: int = 16384,
) -> np.ndarray:
    """The vectors of a token shard's passages."""
    with TemporaryDirectory(dir=tokens.parent) as work:
        encode_texts(
            model, tokens, Path(work, "embeddings.npy"), rows=rows, role="passage", max_tokens=max_tokens,
            batch_tokens=batch_tokens, block_rows=block_rows, compute=compute, work_folder=Path(work, "work"),
            name_of_row=str,
        )  # fmt: skip
        return np.array(load_npy(Path(work, "embeddings.npy")))


def bm25(index: Path, queries: Path, run: Path, *, depth: int, threads: int) -> None:
    """Write a run of BM25."""
    with TemporaryDirectory(dir=run.parent) as work:
        search_bm25(
            index, queries, run, k1=K1, b=B, depth=depth, threads=threads, heap_mb=HEAP_MB,
            work_folder=Path(work, "work"), system="bm25",
        )  # fmt: skip
