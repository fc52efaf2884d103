"""Whole-word masks for masked language modelling, drawn anew each epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from condenser.data.randomness import uniforms


@dataclass(frozen=True)
class MaskedBatch:
    """Rows of `[CLS] tokens [SEP]`, some tokens masked."""

    input_ids: Int[np.ndarray, "row token"]
    lengths: Int[np.ndarray, " row"]  # with the two specials
    masked_positions: Int[np.ndarray, " masked"]  # flat positions in input_ids
    labels: Int[np.ndarray, " masked"]  # the ids that stood there


def mask_tokens(
    ids: Int[np.ndarray, "row token"],
    lengths: Int[np.ndarray, " row"],
    *,
    is_continuation: Bool[np.ndarray, " vocab"],
    random_ids: Int[np.ndarray, " ids"],
    mask_id: int,
    probability: float,
    max_predictions: int,
    positions: Int[np.ndarray, " row"],
    seed: int,
    epoch: int,
) -> MaskedBatch:
    """Mask about `probability` of the content tokens of every row, whole words at a time.

    A row of n content tokens (all but special ones) has a budget of max(1, round(probability n)),
    at most `max_predictions`. Its words are taken in random order; one that would overflow the
    budget is skipped. Of the tokens taken, 80 % become [MASK], 10 % a random one, 10 % stay.
    Source: BERT's whole-word masking as Condenser, section 4.1, uses it.

    A row's mask depends on (seed, epoch, its entry of `positions`) alone, not on the batch it is
    computed in. Special tokens inside a text are never masked and end a word.
    """
    is_ordinary = np.zeros(len(is_continuation), dtype=bool)
    is_ordinary[random_ids] = True
    columns = np.arange(ids.shape[1])
    is_content = is_ordinary[ids] & (columns > 0) & (columns < lengths[:, None] - 1)
    shares = np.rint(probability * is_content.sum(axis=1)).astype(np.int64)
    budgets = np.clip(shares, 1, max_predictions)
    order, actions, choices = (
        uniforms(seed, stream, epoch, positions, columns=ids.shape[1])
        for stream in ("mask order", "mask actions", "mask replacements")
    )
    is_masked = _choose_words(ids, is_content, is_continuation, budgets, order)
    rows, columns = np.nonzero(is_masked)
    labels = ids[rows, columns]
    action = actions[rows, columns]
    replacements = random_ids[(choices[rows, columns] * len(random_ids)).astype(np.int64)]
    input_ids = ids.copy()
    input_ids[rows, columns] = np.where(action < 0.8, mask_id, np.where(action < 0.9, replacements, labels))
    return MaskedBatch(input_ids, lengths, rows * ids.shape[1] + columns, labels)


def _choose_words(
    ids: np.ndarray,
    is_content: np.ndarray,
    is_continuation: np.ndarray,
    budgets: np.ndarray,
    order: Float[np.ndarray, "row token"],
) -> np.ndarray:
    """The tokens of the words taken; a word's rank is its first token's number in `order`."""
    num_rows = len(ids)
    follows_content = np.zeros_like(is_content)
    follows_content[:, 1:] = is_content[:, :-1]
    is_word_start = is_content & ~(is_continuation[ids] & follows_content)
    word_of = np.cumsum(is_word_start, axis=1) - 1  # word of each content token of its row
    num_words = int(word_of.max(initial=-1)) + 1
    sizes = np.zeros((num_rows, num_words), dtype=np.int64)
    rows, columns = np.nonzero(is_content)
    np.add.at(sizes, (rows, word_of[rows, columns]), 1)
    ranks = np.full((num_rows, num_words), np.inf)
    rows, columns = np.nonzero(is_word_start)
    ranks[rows, word_of[rows, columns]] = order[rows, columns]

    # All rows advance together, word by word in each row's own order.
    by_rank = np.argsort(ranks, axis=1)
    sizes_by_rank = np.ascontiguousarray(np.take_along_axis(sizes, by_rank, axis=1).T)
    taken_by_rank = np.zeros((num_words, num_rows), dtype=bool)
    left = budgets.copy()
    for rank in range(num_words):
        fits = sizes_by_rank[rank] <= left
        taken_by_rank[rank] = fits
        left -= sizes_by_rank[rank] * fits
        if not left.any():
            break
    taken = np.zeros((num_rows, num_words), dtype=bool)
    np.put_along_axis(taken, by_rank, taken_by_rank.T, axis=1)
    return is_content & np.take_along_axis(taken, np.maximum(word_of, 0), axis=1) if num_words else is_content
