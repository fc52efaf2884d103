"""Batches: the items of each step, divided into chunks, as padded `[CLS] tokens [SEP]` or pairs of texts.

The order is a pure function of (seed, epoch, position), so that a resumed training and any number of
processes have the same batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from jaxtyping import Int, Integer

from condenser.data.randomness import permutation, uniforms
from condenser.data.tokens import TokenShards

NO_PROMPT = np.zeros(0, dtype=np.int64)


def num_steps(
    num_items: int,
    *,
    batch_size: int,
    epochs: float | None,
    updates: int | Mapping[str, int | None] | None = None,
    drop_last: bool = False,
) -> int:
    """Number of steps of a training; the last batch of an epoch may be shorter, or is left out.

    A fraction of an epoch consists of its first steps, at least one. `updates` is the number itself, or
    bounds of what the epochs give.

    >>> num_steps(10, batch_size=4, epochs=2), num_steps(10, batch_size=4, epochs=0.5)
    (6, 2)
    >>> num_steps(10, batch_size=4, epochs=2, drop_last=True)
    4
    >>> num_steps(10, batch_size=4, epochs=2, updates={"least": 16, "most": 64})
    16
    >>> num_steps(10, batch_size=4, epochs=None, updates=18)
    18
    """
    in_epoch = steps_per_epoch(num_items, batch_size=batch_size, drop_last=drop_last)
    if isinstance(updates, int):
        return updates
    assert epochs is not None, "the configuration has seen to it"
    bounds, steps = updates or {}, math.ceil(epochs * in_epoch - 1e-9)
    steps = max(steps, bounds.get("least") or steps)
    return min(steps, bounds.get("most") or steps)


def num_items_of(num_items: int, *, num_steps: int, batch_size: int, drop_last: bool = False) -> int:
    """The items of the first steps of a training, repetitions included.

    >>> num_items_of(10, num_steps=4, batch_size=4)
    14
    """
    in_epoch = steps_per_epoch(num_items, batch_size=batch_size, drop_last=drop_last)
    epochs, steps = divmod(num_steps, in_epoch)
    return epochs * min(num_items, in_epoch * batch_size) + min(num_items, steps * batch_size)


def step_items(
    num_items: int, *, batch_size: int, step: int, seed: int, stream: str, drop_last: bool = False
) -> tuple[int, Int[np.ndarray, " item"], Int[np.ndarray, " item"]]:
    """Epoch of a step (from 0), positions of its batch in the order of the epoch, and items of the batch.

    Every item occurs once in an epoch, but for those of a last batch that is left out. `stream` names the
    training, so that two trainings with the same seed have different orders.
    """
    epoch, batch = divmod(step, steps_per_epoch(num_items, batch_size=batch_size, drop_last=drop_last))
    positions = np.arange(batch * batch_size, min((batch + 1) * batch_size, num_items))
    return epoch, positions, _order(num_items, seed, stream, epoch)[positions]


def steps_per_epoch(num_items: int, *, batch_size: int, drop_last: bool = False) -> int:
    """Number of steps of an epoch; at least one, also if it has fewer items than a batch."""
    assert num_items > 0 and batch_size > 0
    return max(1, num_items // batch_size) if drop_last else -(-num_items // batch_size)


@lru_cache(maxsize=2)  # shuffling millions of items takes longer than a step
def _order(num_items: int, seed: int, stream: str, epoch: int) -> np.ndarray:
    order = permutation(seed, f"order of {stream}", epoch, num_items)
    order.setflags(write=False)
    return order


def padded_width(num_tokens: int) -> int:
    """Tokens of a row with padding, in multiples of 8, in which GPUs multiply matrices fastest.

    >>> padded_width(8), padded_width(9)
    (8, 16)
    """
    return -(-num_tokens // 8) * 8


def token_batches(
    lengths: Int[np.ndarray, " row"], *, batch_tokens: int
) -> Iterator[Int[np.ndarray, " batch"]]:
    """Indices of rows of similar length, longest first, in batches of at most `batch_tokens` padded tokens.

    A longer row is a batch of its own. Rows of equal length keep their order.

    >>> [batch.tolist() for batch in token_batches(np.array([5, 30, 16, 7]), batch_tokens=32)]
    [[1], [2, 3], [0]]
    """
    order = np.argsort(-lengths, kind="stable")
    begin = 0
    while begin < len(order):
        size = max(1, batch_tokens // padded_width(int(lengths[order[begin]])))
        yield order[begin : begin + size]
        begin += size


def length_chunks(
    lengths: Int[np.ndarray, " row"], *, rows_per_chunk: int
) -> list[Int[np.ndarray, " chunk"]]:
    """Indices of a batch in chunks of rows of similar length, longest first.

    Rows of equal length keep their order; the last chunk may be shorter. The longest chunk comes first,
    because later chunks then reuse its memory; in the other order each would allocate more.

    >>> [chunk.tolist() for chunk in length_chunks(np.array([9, 5, 7]), rows_per_chunk=2)]
    [[0, 2], [1]]
    """
    order = np.argsort(-lengths, kind="stable")
    return [order[begin : begin + rows_per_chunk] for begin in range(0, len(order), rows_per_chunk)]


def row_windows(
    shards: TokenShards, rows: Int[np.ndarray, " row"], *, max_tokens: int
) -> tuple[Int[np.ndarray, " row"], Int[np.ndarray, " row"]]:
    """Starts and lengths of queries or passages (title and text), cut to `max_tokens` with special tokens.

    Source: texttron/tevatron: 32 tokens for a query, 128 for a passage.
    """
    starts = shards.row_starts[rows]
    return starts, np.minimum(shards.row_starts[rows + 1] - starts, max_tokens - 2)


class SpecialIds(Protocol):
    """Ids of special tokens, such as those of a `Tokenizer`."""

    cls_id: int
    sep_id: int
    pad_id: int


def pack_texts(
    shards: TokenShards,
    starts: Int[np.ndarray, " row"],
    lengths: Int[np.ndarray, " row"],
    specials: SpecialIds,
    *,
    prompt: Integer[np.ndarray, " prompt_token"] = NO_PROMPT,
) -> tuple[Int[np.ndarray, "row token"], Int[np.ndarray, " row"]]:
    """`[CLS] prompt tokens [SEP]` of each text, padded to a common multiple of 8, and their whole lengths.

    Only the lengths distinguish padding from text, as a text may contain the pad token.
    """
    first = 1 + len(prompt)
    whole = lengths + first + 1
    width = padded_width(int(whole.max(initial=first + 1)))
    ids = np.empty((len(starts), width), dtype=np.int64)
    ids[:, 0], ids[:, -1] = specials.cls_id, specials.pad_id
    ids[:, 1:first] = prompt
    ids[:, first:-1] = shards.read(starts, lengths, width=width - first - 1, fill=specials.pad_id)
    ids[np.arange(len(starts)), whole - 1] = specials.sep_id
    return ids, whole


@dataclass(frozen=True)
class PairWindows:
    """What is read of the query and of the passage of each pair: flat starts and lengths (`row_windows`).

    `num_separators` [SEP] stand between the two.
    """

    query_starts: Int[np.ndarray, " pair"]
    query_lengths: Int[np.ndarray, " pair"]
    passage_starts: Int[np.ndarray, " pair"]
    passage_lengths: Int[np.ndarray, " pair"]
    num_separators: int

    @property
    def lengths(self) -> Int[np.ndarray, " pair"]:
        """Tokens of each pair, with [CLS] and the [SEP] behind each text."""
        return self.query_lengths + self.passage_lengths + self.num_separators + 2

    def at(self, places: Int[np.ndarray, " place"]) -> PairWindows:
        """The pairs at these places."""
        arrays = {name: each[places] for name, each in vars(self).items() if isinstance(each, np.ndarray)}
        return replace(self, **arrays)


def pair_windows(
    queries: TokenShards,
    query_rows: Int[np.ndarray, " pair"],
    passages: TokenShards,
    passage_rows: Int[np.ndarray, " pair"],
    *,
    query_length: int,
    passage_length: int,
    num_separators: int,
) -> PairWindows:
    """Pairs of rows; each text is cut as a bi-encoder cuts it, to two tokens less than its length."""
    return PairWindows(
        *row_windows(queries, query_rows, max_tokens=query_length),
        *row_windows(passages, passage_rows, max_tokens=passage_length),
        num_separators,
    )


def pack_pairs(
    queries: TokenShards, passages: TokenShards, pairs: PairWindows, specials: SpecialIds
) -> tuple[Int[np.ndarray, "pair token"], Int[np.ndarray, "pair token"]]:
    """`[CLS] query [SEP] passage [SEP]` of each pair, padded to a common multiple of 8, and its token types.

    A passage is `title [SEP] text`, as its tokens are. Token types are BERT's: 1 at the passage and the [SEP]
    behind it, 0 elsewhere. Only `pairs.lengths` distinguish padding from text.
    """
    between = pairs.num_separators
    whole = pairs.lengths[:, None]  # where pairs end
    second = pairs.query_lengths[:, None] + 1 + between  # where their passages begin
    width = padded_width(int(whole.max(initial=between + 2)))
    columns = np.arange(width)
    ids = np.full((len(whole), width), specials.pad_id, dtype=np.int64)
    ids[:, 0] = specials.cls_id
    ids[(columns >= second - between) & (columns < second) | (columns == whole - 1)] = specials.sep_id
    for shards, starts, lengths, first in (
        (queries, pairs.query_starts, pairs.query_lengths, 1),
        (passages, pairs.passage_starts, pairs.passage_lengths, second),
    ):
        longest = int(lengths.max(initial=0))
        read = shards.read(starts, lengths, width=longest, fill=specials.pad_id)
        inside = (columns >= first) & (columns < first + lengths[:, None])
        ids[inside] = read[np.arange(longest) < lengths[:, None]]
    types = (columns >= second) & (columns < whole)
    return ids, types.astype(np.int64)


def positive_index(item: int, num_positives: int, *, seed: int, epoch: int) -> int:
    """Index of the positive that an item uses in an epoch: (item + seed + epoch) mod n.

    Source: texttron/tevatron's training set, as used for coCondenser.
    """
    assert num_positives > 0, "every example has a positive"
    return (item + seed + epoch) % num_positives


def negative_window(
    num_negatives: int, size: int, *, seed: int, item: int, epoch: int
) -> Int[np.ndarray, " size"]:
    """Indices of the negatives that an item uses in an epoch.

    The item's negatives are shuffled once; a window of `size` over them moves by `size` in each epoch and
    wraps around at the end. From fewer than `size` negatives every epoch draws with replacement. Source:
    the training set of texttron/tevatron; shuffle and draws have the same distribution as there.
    """
    if size == 0:
        return np.zeros(0, dtype=np.int64)
    assert num_negatives > 0, "every example has a negative"
    if num_negatives < size:
        draws = uniforms(seed, "few negatives", epoch, np.array([item]), columns=size)[0]
        return (draws * num_negatives).astype(np.int64)
    ranks = uniforms(seed, "negatives", 0, np.array([item]), columns=num_negatives)[0]
    window = (epoch * size + np.arange(size)) % num_negatives
    return np.argsort(ranks)[window]
