"""The texts of a pre-training step: packed, masked, and cut into chunks that are computed together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from condenser.data.batches import length_chunks, pack_texts
from condenser.data.masking import mask_tokens
from condenser.data.randomness import stream_key
from condenser.data.records import read_doc_ids
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.model.rows import Chosen, OnDevice, Rows
from condenser.train.chunks import Chunk, ChunkedTexts
from condenser.train.distributed import Processes

_ROWS_MASKED_AT_ONCE = 512  # numpy's calls cost little then, and their arrays still fit into a core's cache


@runtime_checkable
class Texts(Protocol):
    """A group of a batch's texts: `Stretches`, or what an objective makes of the shards itself.

    `positions` identifies the texts: a mask is a function of (seed, epoch, position).
    """

    @property
    def starts(self) -> Int[np.ndarray, " row"]:
        """Flat token positions, each in the row of the collection that the text comes from."""

    @property
    def lengths(self) -> Int[np.ndarray, " row"]:
        """Tokens without specials."""

    @property
    def positions(self) -> Int[np.ndarray, " row"]: ...

    def pack(
        self, shards: TokenShards, rows: Int[np.ndarray, " chunk"], tokenizer: Tokenizer
    ) -> tuple[Int[np.ndarray, "chunk token"], Int[np.ndarray, " chunk"]]:
        """`[CLS] tokens [SEP]` of some rows, padded together, and their lengths with specials."""


@dataclass(frozen=True)
class Stretches:
    """Texts that are stretches of tokens, each within one row of the collection."""

    starts: Int[np.ndarray, " row"]  # flat token positions
    lengths: Int[np.ndarray, " row"]
    positions: Int[np.ndarray, " row"]

    def pack(
        self, shards: TokenShards, rows: Int[np.ndarray, " chunk"], tokenizer: Tokenizer
    ) -> tuple[Int[np.ndarray, "chunk token"], Int[np.ndarray, " chunk"]]:
        return pack_texts(shards, self.starts[rows], self.lengths[rows], tokenizer)


@dataclass(frozen=True)
class MaskedRows(OnDevice):
    """Texts that are encoded together, and their masked tokens. They stay on the CPU until then."""

    rows: Rows
    masked: Chosen
    labels: Int[Tensor, " masked"]


@dataclass(frozen=True)
class MaskedTexts(ChunkedTexts[MaskedRows]):
    """The chunks of a step's texts, and the number of masked tokens in the whole batch."""

    num_masked: int


def masked_texts(
    shards: TokenShards,
    groups: Mapping[str, Texts],
    *,
    tokenizer: Tokenizer,
    mask_probability: float,
    rows_per_chunk: int,
    seed: int,
    epoch: int,
    step: int,
    processes: Processes,
) -> MaskedTexts:
    """This process's chunks of a masked batch, and the number of masked tokens in the whole batch.

    Every process masks the whole batch: that is cheap, and no counts need to be exchanged.
    """
    chunks: list[Chunk[MaskedRows]] = []
    num_masked = 0
    cuts = {
        name: length_chunks(group.lengths, rows_per_chunk=rows_per_chunk) for name, group in groups.items()
    }
    first_numbers = accumulate((len(cut) for cut in cuts.values()), initial=0)
    mine = processes.mine(sum(map(len, cuts.values())))
    at_once = max(1, _ROWS_MASKED_AT_ONCE // rows_per_chunk)
    for (name, group), first in zip(groups.items(), first_numbers, strict=False):
        for begin in range(0, len(cuts[name]), at_once):
            several = cuts[name][begin : begin + at_once]
            ids, whole = group.pack(shards, np.concatenate(several), tokenizer)
            masked_positions = labels = np.zeros(0, dtype=np.int64)
            if mask_probability > 0:
                masked = mask_tokens(
                    ids,
                    is_continuation=tokenizer.is_continuation,
                    random_ids=tokenizer.random_ids,
                    mask_id=tokenizer.mask_id,
                    probability=mask_probability,
                    max_predictions=ids.shape[1],  # BERT's limit of 20 is not the authors'
                    positions=group.positions[np.concatenate(several)],
                    seed=seed,
                    epoch=epoch,
                )
                ids, masked_positions, labels = masked.input_ids, masked.masked_positions, masked.labels
            num_masked += len(labels)
            sizes = [len(rows) for rows in several]
            parts = _cut(ids, whole, masked_positions, labels, sizes=sizes, device=processes.device)
            for number, (rows, inputs) in enumerate(zip(several, parts, strict=True), start=first + begin):
                if number in mine:
                    chunk_seed = stream_key(seed, f"dropout of step {step}", number)
                    chunks.append(Chunk(name, torch.from_numpy(rows), inputs, chunk_seed))
    return MaskedTexts(chunks, {name: len(group.lengths) for name, group in groups.items()}, num_masked)


def _cut(
    ids: np.ndarray,
    whole: np.ndarray,
    masked_positions: np.ndarray,
    labels: np.ndarray,
    *,
    sizes: list[int],
    device: torch.device,
) -> Iterator[MaskedRows]:
    """Masked rows in chunks of these sizes."""
    ends = np.cumsum(sizes)
    masked_rows, masked_columns = np.divmod(masked_positions, ids.shape[1])
    masked_ends = np.searchsorted(masked_rows, ends)
    begin = first = 0
    for end, last in zip(ends.tolist(), masked_ends.tolist(), strict=True):
        rows = Rows.of(ids[begin:end], whole[begin:end], device=device)
        masked = rows.chosen(masked_rows[first:last] - begin, masked_columns[first:last])
        yield MaskedRows(rows, masked, torch.from_numpy(labels[first:last]))
        begin, first = end, last


def ids_of(shards: TokenShards, groups: Mapping[str, Texts], doc_ids: Path) -> dict[str, list[str]]:
    """The documents of a batch, each once, in the batch's order.

    The ids are read only now: a training holds row numbers, not ids.
    """
    starts = np.concatenate([group.starts for group in groups.values()])
    rows = np.searchsorted(shards.row_starts, starts, side="right") - 1
    ids = read_doc_ids(doc_ids)
    return {"documents": list(dict.fromkeys(ids[row] for row in rows.tolist()))}
