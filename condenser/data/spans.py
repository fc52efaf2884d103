"""Pairs of spans of one document, the positives of coCondenser's contrastive loss.

Source: coCondenser, section 3.2. The authors' script for spans is lost. Our recipe: two spans without
overlap, of about 80 to 128 tokens; one span in ten is shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from condenser.data.randomness import uniforms
from condenser.data.tokens import TokenShards
from condenser.settings import LONGER_TEXTS


@dataclass(frozen=True)
class SpanDocuments:
    """The rows that have room for two spans after their title."""

    rows: Int[np.ndarray, " document"]
    starts: Int[np.ndarray, " document"]  # flat position of the first token after the title
    lengths: Int[np.ndarray, " document"]
    num_left_out: int  # rows without room for two spans

    def __len__(self) -> int:
        return len(self.rows)


def span_documents(shards: TokenShards, *, min_tokens: int) -> SpanDocuments:
    """The rows with at least two spans of `min_tokens` after their title.

    Raises:
        ValueError: there are fewer than two such rows, so that no span would have a negative.
    """
    starts = shards.row_starts[:-1] + shards.title_lengths
    lengths = shards.row_starts[1:] - starts
    rows = np.flatnonzero(lengths >= 2 * min_tokens)
    if len(rows) < 2:
        raise ValueError(
            f"expected at least 2 documents of {2 * min_tokens} tokens or more, got {len(rows)} among "
            f"{shards.num_rows}. Lower min_span_tokens, {LONGER_TEXTS}."
        )
    return SpanDocuments(rows, starts[rows], lengths[rows], shards.num_rows - len(rows))


def sample_spans(
    shards: TokenShards,
    documents: SpanDocuments,
    items: Int[np.ndarray, " item"],
    *,
    is_continuation: Bool[np.ndarray, " vocab"],
    min_tokens: int,
    lengths: Sequence[int],
    short_probability: float,
    seed: int,
    epoch: int,
) -> tuple[Int[np.ndarray, " two_items"], Int[np.ndarray, " two_items"]]:
    """Starts and lengths of two spans of each document: d1s1, d1s2, d2s1, ...

    A pure function of (seed, epoch, row). The length of a span is drawn uniformly from
    lengths[0]..lengths[1], or with `short_probability` from min_tokens..lengths[0], and is at most half of
    the document. All places without overlap are equally likely, and either span may come first in the
    text. A span that would begin inside a word begins at the next word instead, and keeps its length if
    there is room; only a span inside one long word begins inside it.
    """
    shortest, longest = lengths
    assert 1 <= min_tokens <= shortest <= longest, "the configuration has seen to it"
    rows, begins, sizes = documents.rows[items], documents.starts[items], documents.lengths[items]
    draws = uniforms(seed, "spans", epoch, rows, columns=7)
    is_short = draws[:, 0:2] < short_probability
    lowest = np.where(is_short, min_tokens, shortest)
    highest = np.where(is_short, shortest, longest)
    targets = lowest + (draws[:, 2:4] * (highest - lowest + 1)).astype(np.int64)
    targets = np.minimum(targets, sizes[:, None] // 2)  # [item, place in the text]

    # The free tokens are in three gaps: before, between and after the spans. Put free tokens and spans in a
    # row of free + 2 places: a choice of two places for the spans is a choice of gaps. Choose uniformly.
    free = sizes - targets.sum(axis=1)
    first_place = (draws[:, 4] * (free + 2)).astype(np.int64)
    second_place = (draws[:, 5] * (free + 1)).astype(np.int64)
    second_place += second_place >= first_place
    earlier = np.minimum(first_place, second_place)
    later = np.maximum(first_place, second_place) - 1 + targets[:, 0]
    starts = begins[:, None] + np.stack([earlier, later], axis=1)

    limits = np.stack([starts[:, 1], begins + sizes], axis=1)
    shifts = _tokens_to_next_word(shards, starts.ravel(), targets.ravel(), is_continuation).reshape(-1, 2)
    # the first token of a text begins a word, also where a vocabulary marks words by the space before them
    starts = starts + np.where(starts == begins[:, None], 0, shifts)
    targets = np.minimum(targets, limits - starts)

    swapped = np.where(draws[:, 6:7] < 0.5, [[1, 0]], [[0, 1]])
    return (
        np.take_along_axis(starts, swapped, axis=1).ravel(),
        np.take_along_axis(targets, swapped, axis=1).ravel(),
    )


def _tokens_to_next_word(
    shards: TokenShards, starts: np.ndarray, lengths: np.ndarray, is_continuation: np.ndarray
) -> np.ndarray:
    """Number of tokens before the first start of a word in each span; 0 if no word starts in it."""
    width = int(lengths.max(initial=1))
    ids = shards.read(starts, lengths, width=width, fill=0)
    is_word_start = ~is_continuation[ids] & (np.arange(width) < lengths[:, None])
    return np.where(is_word_start.any(axis=1), is_word_start.argmax(axis=1), 0)
