"""Our jobs with the settings that no measurement varies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from condenser.data.tokens import Tokenizer, tokenise_collection
from condenser.files import load_npy
from condenser.model.devices import Compute
from condenser.retrieve.encode import encode_texts


def tokenise(collection: Path, doc_ids: Path, prefix: Path, tokenizer: Tokenizer) -> None:
    """Write the one token shard of a collection."""
    tokenise_collection(
        collection, doc_ids, prefix, tokenizer, shard="0-of-1", multiple_of=1024, leading_separator=False,
        batch_size=512,
    )  # fmt: skip


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
