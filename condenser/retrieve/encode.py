"""Embeddings of passages and queries, in shards; the number of shards does not change an embedding.

The whole collection is divided into blocks of `block_rows` rows, and a shard consists of whole blocks.
Each block is sorted by length and divided into batches separately, so that a row has the same batch, the
same padding and the same matrix shapes in every shard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from condenser.data.batches import pack_texts, row_windows, token_batches
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.files import full_disk_named, load_npy
from condenser.model.devices import Compute
from condenser.model.operations import weights_unchanged
from condenser.model.retriever import Retriever
from condenser.model.rows import Rows
from condenser.model.text_vector import Role
from condenser.progress import Progress
from condenser.retrieve.blocks import BlockFile


def encode_texts(
    encoder_folder: Path,
    token_prefix: Path,
    output: Path,
    *,
    rows: Sequence[int] | None,
    role: Role,
    max_tokens: int,
    batch_tokens: int,
    block_rows: int,
    compute: Compute,
    work_folder: Path,
    name_of_row: Callable[[int], str],
) -> dict[str, int]:
    """Write the embeddings of a token shard's rows, float32 [row, dim]; returns counts.

    A text is cut to `max_tokens` tokens with [CLS], the model's prompt and [SEP]; a forward pass has at most
    `batch_tokens` tokens with padding. Counts: `rows`, `tokens` (with special tokens and prompts), `rows_cut`
    (longer than `max_tokens`), `zero_vectors`.

    An interrupted encoding resumes after the last finished block in `work_folder`. The caller chooses a
    folder that belongs to these inputs alone, and removes it.

    Args:
        rows: which rows of the shard; None for all.
        role: whose prompt the model puts before a text.
        name_of_row: names a row of the shard in an error.

    Raises:
        ValueError: an embedding contains NaN or infinity, or the prompt leaves no room for a text.
    """
    shards = TokenShards([token_prefix])
    tokenizer = Tokenizer(encoder_folder)
    retriever = Retriever.load(encoder_folder, dropout=None).to(compute.device).eval()
    dim = retriever.dim
    prompt = tokenizer.encode_prompt(retriever.vector.prompt(role), max_tokens=max_tokens)
    around = len(prompt) + 2
    wanted = np.arange(shards.num_rows) if rows is None else np.array(rows, dtype=np.int64)
    with (
        weights_unchanged(),
        full_disk_named(work_folder),
        BlockFile(
            work_folder, "embeddings", num_rows=len(wanted), rows_of_block=block_rows, dim=dim
        ) as blocks,
        Progress(
            f"encode {output.stem}", total=len(wanted), unit="rows", start=blocks.num_rows_done
        ) as progress,
    ):
        for start in range(blocks.num_rows_done, len(wanted), block_rows):
            of_block = wanted[start : start + block_rows]
            starts, lengths = row_windows(shards, of_block, max_tokens=max_tokens - len(prompt))
            embeddings = torch.empty(len(of_block), dim, device=compute.device)
            for batch in token_batches(lengths + around, batch_tokens=batch_tokens):
                ids, whole = pack_texts(shards, starts[batch], lengths[batch], tokenizer, prompt=prompt)
                with torch.inference_mode(), compute.autocast():
                    vectors = retriever(Rows.of(ids, whole, device=compute.device).to(compute.device))
                embeddings[torch.from_numpy(batch).to(compute.device)] = vectors.float()
            block = embeddings.cpu().numpy()
            wrong = np.flatnonzero(~np.isfinite(block).all(axis=1))
            if len(wrong):
                raise ValueError(
                    f"{encoder_folder}: expected finite embeddings, got NaN or infinity for "
                    f"{name_of_row(int(of_block[wrong[0]]))} and {len(wrong) - 1} more of its block. "
                    f"Precision is {compute.precision}: set compute.precision to fp32, or train again."
                )
            blocks.append(block)
            progress.advance(len(of_block))
        blocks.link_to(output)
    written = load_npy(output)  # of all blocks, also those of an interrupted job
    lengths = shards.row_starts[wanted + 1] - shards.row_starts[wanted]
    return {
        "rows": len(wanted),
        "tokens": int(np.minimum(lengths + around, max_tokens).sum()),
        "rows_cut": int((lengths + around > max_tokens).sum()),
        "zero_vectors": sum(
            int((~written[start : start + block_rows].any(axis=1)).sum())
            for start in range(0, len(written), block_rows)
        ),
    }
