"""Embeddings of passages and queries, in shards; the number of shards does not change an embedding.

The whole collection is divided into blocks of `block_rows` rows, and a shard consists of whole blocks.
Each block is sorted by length and divided into batches separately, so that a row has the same batch, the
same padding and the same matrix shapes in every shard. Where rows were encoded before (`LastRows`), blocks
are made of the other rows alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int
from torch import Tensor

from condenser.data.row_keys import row_keys
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.files import full_disk_named, load_npy, save_npy
from condenser.model.devices import Compute
from condenser.model.operations import weights_unchanged
from condenser.model.retriever import Retriever
from condenser.model.rows import Rows
from condenser.model.text_vector import Role
from condenser.progress import Progress
from condenser.retrieve.blocks import BlockFile, block_bounds, row_of_numbers
from condenser.retrieve.inference import TextReader, outputs_of
from condenser.retrieve.last_rows import LastRows, write_joined
from condenser.retrieve.token_states import (
    Records,
    StatesFiles,
    in_eight_bits,
    record_of_token,
    records_of_tokens,
    split_texts,
)

log = logging.getLogger(__name__)


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
    states: StatesFiles | None = None,
    states_gb: float = 0.0,
    last: LastRows | None = None,
) -> dict[str, int]:
    """Write the embeddings of a token shard's rows, float32 [row, dim]; returns counts.

    A text is cut to `max_tokens` tokens with [CLS], the model's prompt and [SEP]; a forward pass has at most
    `batch_tokens` tokens with padding. Counts: `rows`, `tokens` (with special tokens and prompts), `rows_cut`
    (longer than `max_tokens`), `zero_vectors`; with `states` also `states_bytes`, with `last` `rows_copied`.

    An interrupted encoding resumes after the last finished block in `work_folder`. The caller chooses a
    folder that belongs to these inputs alone, and removes it.

    Args:
        rows: which rows of the shard; None for all.
        role: whose prompt the model puts before a text.
        name_of_row: names a row of the shard in an error.
        states: where token states are kept too, if they need at most `states_gb` gigabytes; else both files
            are empty.
        last: rows that were encoded before; those with the same tokens are copied.

    Raises:
        ValueError: an embedding contains NaN or infinity, or the prompt leaves no room for a text.
    """
    shards = TokenShards([token_prefix])
    tokenizer = Tokenizer(encoder_folder)
    retriever = Retriever.load(encoder_folder, dropout=None).to(compute.device).eval()
    dim = retriever.dim
    prompt = tokenizer.encode_prompt(retriever.vector.prompt(role), max_tokens=max_tokens)
    reader = TextReader(shards, tokenizer, max_tokens, batch_tokens, prompt)
    wanted = np.arange(shards.num_rows) if rows is None else np.array(rows, dtype=np.int64)
    whole = reader.whole_lengths(wanted)
    lengths = np.minimum(whole, max_tokens)
    record = record_of_token(retriever.backbone.config.hidden_size)
    keeps = states is not None and int(lengths.sum()) * record.itemsize <= states_gb * 1e9
    copied = np.full(len(wanted), -1)
    if last:
        keys = row_keys(shards, wanted, max_tokens=max_tokens - len(prompt))
        copied = last.find(keys, with_states=keeps)
    new = np.flatnonzero(copied < 0)
    if len(new) < len(wanted):
        log.info("%d of %d passages were encoded before: copied", len(wanted) - len(new), len(wanted))

    def computed(of_block: Int[np.ndarray, " row"]) -> tuple[Float32[np.ndarray, "row dim"], list[Records]]:
        batches, rounded = list(reader.batches(of_block)), list[tuple[np.ndarray, np.ndarray]]()

        def vectors_of(rows: Rows) -> Tensor:
            vectors, of_tokens = retriever.vectors_and_states(rows)
            rounded.append(in_eight_bits(of_tokens[: rows.layout.num_tokens]))
            return vectors

        found = outputs_of(
            *(batches, compute, vectors_of if keeps else retriever),
            shape=(len(of_block), dim),
            what=f"{encoder_folder}: expected finite embeddings",
            name_of_row=lambda place: name_of_row(int(of_block[place])),
        )
        records: list[Records] = [np.empty(0, record)] * len(of_block)
        for batch, numbers in zip(batches, rounded, strict=False):  # none where no states are kept
            ids = batch.ids[np.arange(batch.ids.shape[1]) < batch.lengths[:, None]]
            of_texts = split_texts(records_of_tokens(ids, *numbers), batch.lengths)
            for place, of_text in zip(batch.places.tolist(), of_texts, strict=True):
                records[place] = of_text
        return found, records

    bounds = block_bounds(len(new), block_rows)
    starts = np.cumsum([0, *lengths[new].tolist()])
    with (
        weights_unchanged(),
        full_disk_named(work_folder),
        ExitStack() as opened,
        Progress(f"encode {output.stem}", total=len(wanted), unit="rows") as progress,
    ):
        files = [BlockFile(work_folder, "embeddings", row=row_of_numbers(dim), bounds=bounds)]
        if keeps:
            files.append(BlockFile(work_folder, "states", row=record, bounds=starts[bounds].tolist()))
        blocks = [opened.enter_context(file) for file in files]
        first = min(file.num_done for file in blocks)
        progress.advance(len(wanted) - len(new) + bounds[first])
        for number in range(first, len(bounds) - 1):
            of_block = wanted[new[bounds[number] : bounds[number + 1]]]
            vectors, records = computed(of_block)
            contents = vectors.tobytes(), b"".join(map(np.ndarray.tobytes, records))
            for file, content in zip(blocks, contents, strict=False):
                if file.num_done == number:
                    file.append(content)
            progress.advance(len(of_block))
        if len(new) == len(wanted):
            for file, place in zip(blocks, (output, states and states.states), strict=False):
                file.link_to(Path(str(place)))
    if len(new) < len(wanted):
        assert last
        made = load_npy(work_folder / "embeddings.npy")
        write_joined(output, copied, last.embeddings, made, block_rows=block_rows)
        if keeps and states:
            assert last.states is not None
            made = load_npy(work_folder / "states.npy")
            write_joined(
                *(states.states, copied, last.states, made),
                block_rows=block_rows,
                starts=(last.starts, starts),
            )
    if states:
        if not keeps:
            save_npy(states.states, np.empty(0, record))
        save_npy(states.starts, np.cumsum([0, *lengths.tolist()]) if keeps else np.empty(0, np.int64))
        if last:
            last.keep(keys, output, *states)
    written = load_npy(output)  # of all blocks, also those of an interrupted job
    return {
        "rows": len(wanted),
        "tokens": int(lengths.sum()),
        "rows_cut": int((whole > max_tokens).sum()),
        "zero_vectors": sum(
            int((~written[start : start + block_rows].any(axis=1)).sum())
            for start in range(0, len(written), block_rows)
        ),
        **({"states_bytes": int(lengths.sum()) * record.itemsize * keeps} if states else {}),
        **({"rows_copied": len(wanted) - len(new)} if last else {}),
    }
