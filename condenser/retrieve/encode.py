"""Embeddings of passages and queries, in shards; the number of shards does not change an embedding.

The whole collection is divided into blocks of `block_rows` rows, and a shard consists of whole blocks.
Each block is sorted by length and divided into batches separately, so that a row has the same batch, the
same padding and the same matrix shapes in every shard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int

from condenser.data.tokens import Tokenizer, TokenShards
from condenser.files import full_disk_named, load_npy
from condenser.model.devices import Compute
from condenser.model.operations import weights_unchanged
from condenser.model.retriever import Retriever
from condenser.model.text_vector import Role
from condenser.progress import Progress
from condenser.retrieve.blocks import BlockFile
from condenser.retrieve.inference import TextReader, outputs_of


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
    reader = TextReader(shards, tokenizer, max_tokens, batch_tokens, prompt)

    def embeddings_of(of_block: Int[np.ndarray, " row"]) -> Float32[np.ndarray, "row dim"]:
        return outputs_of(
            *(reader.batches(of_block), compute, retriever),
            shape=(len(of_block), dim),
            what=f"{encoder_folder}: expected finite embeddings",
            name_of_row=lambda place: name_of_row(int(of_block[place])),
        )

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
            blocks.append(embeddings_of(of_block))
            progress.advance(len(of_block))
        blocks.link_to(output)
    written = load_npy(output)  # of all blocks, also those of an interrupted job
    lengths = reader.whole_lengths(wanted)
    return {
        "rows": len(wanted),
        "tokens": int(np.minimum(lengths, max_tokens).sum()),
        "rows_cut": int((lengths > max_tokens).sum()),
        "zero_vectors": sum(
            int((~written[start : start + block_rows].any(axis=1)).sum())
            for start in range(0, len(written), block_rows)
        ),
    }
