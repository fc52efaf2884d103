"""Blocks of whole sentences of one row, the texts of Condenser pre-training.

Source: Condenser, section 4.1, and the authors' data preparation: blocks of 126 tokens (128 with the two
special tokens) that never cross paragraphs; one block in ten has a shorter target length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from condenser.data.randomness import uniforms
from condenser.data.tokens import TokenShards


@dataclass(frozen=True)
class Blocks:
    """Blocks in the order of the text, and two counts."""

    starts: Int[np.ndarray, " block"]  # flat token positions
    lengths: Int[np.ndarray, " block"]
    num_empty_rows: int  # without tokens after the title: they have no block
    num_long: int  # blocks of one sentence that is longer than `max_tokens`

    def __len__(self) -> int:
        return len(self.starts)


def pack_blocks(shards: TokenShards, *, max_tokens: int, short_probability: float, seed: int) -> Blocks:
    """Pack the sentences after the title of every row greedily into blocks.

    A block takes the next sentence of its row if it stays within its target length; a sentence
    longer than the target is a block of its own. The target is `max_tokens` or, with `short_probability`,
    drawn uniformly from 1..max_tokens; the draw depends on the first sentence of the block.

    The authors' code also closes a block before the sentence that would overflow it. Only a sentence longer
    than `max_tokens` is cut (`block_windows`).
    """
    starts, first = shards.sentence_starts, shards.first_sentence
    opens = np.zeros(len(starts), dtype=bool)
    opens[first] = True  # titles, and the end
    num_sentences = np.diff(first) - 1
    # All rows advance together by one sentence. The longest rows come first, so that the rows that still
    # have a sentence of the current rank are a prefix.
    rows = np.argsort(-num_sentences, kind="stable")
    ranks = np.arange(1, num_sentences.max(initial=0) + 1)
    num_active = np.searchsorted(-num_sentences[rows], -ranks, side="right")
    filled = np.zeros(shards.num_rows, dtype=np.int64)
    targets = np.zeros(shards.num_rows, dtype=np.int64)
    for rank, active in zip(ranks, num_active, strict=True):
        sentences = first[rows[:active]] + rank
        lengths = starts[sentences + 1] - starts[sentences]
        grown = filled[:active] + lengths
        is_new = (grown > targets[:active]) | (rank == 1)
        filled[:active] = np.where(is_new, lengths, grown)
        new = np.flatnonzero(is_new)
        opens[sentences[new]] = True
        draws = uniforms(seed, "block targets", 0, sentences[new], columns=2)
        short = 1 + (draws[:, 1] * max_tokens).astype(np.int64)
        targets[new] = np.where(draws[:, 0] < short_probability, short, max_tokens)
    bounds = np.flatnonzero(opens)
    is_text = np.ones(len(bounds), dtype=bool)
    is_text[np.searchsorted(bounds, first)] = False
    block_starts = starts[bounds[is_text]]
    block_lengths = starts[bounds[1:]][is_text[:-1]] - block_starts
    kept = block_lengths > 0
    ends = shards.row_starts[1:]
    return Blocks(
        starts=block_starts[kept],
        lengths=block_lengths[kept],
        num_empty_rows=int(np.count_nonzero(ends - shards.row_starts[:-1] == shards.title_lengths)),
        num_long=int(np.count_nonzero(block_lengths > max_tokens)),
    )


def block_windows(
    blocks: Blocks, items: Int[np.ndarray, " item"], *, max_tokens: int, seed: int, epoch: int
) -> tuple[Int[np.ndarray, " item"], Int[np.ndarray, " item"]]:
    """Starts and lengths of the tokens that represent blocks in one epoch.

    A block longer than `max_tokens` is represented by a random window. Ids and mask come from the same
    window; in the authors' code they come from two different ones.
    """
    starts, lengths = blocks.starts[items], blocks.lengths[items]
    spare = np.maximum(lengths - max_tokens, 0)
    draws = uniforms(seed, "block windows", epoch, items, columns=1)[:, 0]
    return starts + (draws * (spare + 1)).astype(np.int64), np.minimum(lengths, max_tokens)
