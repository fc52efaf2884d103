"""Whole-word masks for masked language modelling, different in every epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from condenser.data.randomness import random_bits, uniforms

_PLACE_BITS = 16
_SIZE_MASK = 2**_PLACE_BITS - 1
_RANKS_AT_ONCE = 8
_ORDER_MASK = -(2**32)  # the upper half of 64 bits


@dataclass(frozen=True)
class MaskedBatch:
    """Rows of `[CLS] tokens [SEP]`, some tokens masked."""

    input_ids: Int[np.ndarray, "row token"]
    masked_positions: Int[np.ndarray, " masked"]  # flat positions in input_ids
    labels: Int[np.ndarray, " masked"]  # the original ids at these positions


def mask_tokens(
    ids: Int[np.ndarray, "row token"],
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
    """Mask about `probability` of the content tokens of every row, in whole words.

    Content tokens are all but special ones: padding, [CLS] and [SEP] are none. A row of n content tokens has
    a budget of max(1, round(probability n)) tokens, at most `max_predictions`. Its words are chosen in random
    order; a word that does not fit into the rest of the budget is skipped. 80 % of the chosen tokens become
    [MASK], 10 % become a random token, 10 % stay. Source: BERT's whole-word masking, as in Condenser,
    section 4.1.

    The mask of a row depends only on (seed, epoch, its entry of `positions`), not on its batch. Special
    tokens inside a text are never masked, and they end a word.
    """
    is_ordinary = np.zeros(len(is_continuation), dtype=np.uint8)
    is_ordinary[random_ids] = 1
    kinds = (is_ordinary << is_continuation)[ids]  # 0 special, 1 begins a word, 2 continues one
    is_content = kinds > 0
    num_content = is_content.sum(axis=1, dtype=np.int32)
    shares = np.rint(probability * num_content).astype(np.int32)
    budgets = np.minimum(np.maximum(shares, 1), np.minimum(num_content, max_predictions))
    num_rows, width = ids.shape
    order = random_bits(seed, "mask order", epoch, positions, columns=width)
    masked = _choose_words(is_content, kinds == 2, budgets, order)

    labels = ids.ravel()[masked]
    first_places = (positions.astype(np.int64) << _PLACE_BITS) - np.arange(0, num_rows * width, width)
    places = first_places[masked // width] + masked
    actions = uniforms(seed, "mask actions", epoch, places, columns=1)[:, 0]
    is_random = np.flatnonzero((actions >= 0.8) & (actions < 0.9))
    choices = uniforms(seed, "mask actions", epoch, places[is_random], columns=2)[:, 1]
    tokens = np.where(actions < 0.8, mask_id, labels)
    tokens[is_random] = random_ids[(choices * len(random_ids)).astype(np.int64)]
    input_ids = ids.copy()
    input_ids.ravel()[masked] = tokens
    return MaskedBatch(input_ids, masked, labels)


def _choose_words(
    is_content: np.ndarray, is_continuation: np.ndarray, budgets: np.ndarray, order: np.ndarray
) -> np.ndarray:
    """Flat positions of the tokens of the chosen words, ascending.

    A word is a content token and the continuations after it. The words of a row are ordered by the upper half
    of the 64 bits that `order` has at the place of their first tokens, then by their place.
    """
    num_rows, width = is_content.shape
    assert width < 2**_PLACE_BITS, "a place must fit into its bits"
    assert not (is_content[:, 0].any() or is_content[:, -1].any()), "[CLS] and [SEP] are around every text"
    is_inside = is_continuation.ravel()
    is_inside[1:] &= is_content.ravel()[:-1]
    is_start = is_content.ravel() & ~is_inside
    changes = np.flatnonzero(is_inside[1:] != is_inside[:-1])  # first and last tokens of longer words

    # One integer for each word: order, place, size. Sorting integers is much faster than sorting indices.
    words = order.view(np.int64)
    words &= _ORDER_MASK
    words |= np.arange(width) << _PLACE_BITS | 1
    words.ravel()[changes[::2]] += changes[1::2] - changes[::2]
    words |= (is_start.view(np.int8) - np.int8(1)).reshape(words.shape)  # no word: last, and it never fits
    words.view(np.uint64).sort(axis=1)

    # All rows advance together by one word, each row in its own order.
    left = budgets.astype(np.uint16)
    rows, taken = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for first in range(0, width, _RANKS_AT_ONCE):
        if not left.any():
            break
        words_at = words[:, first : first + _RANKS_AT_ONCE].T.copy()
        sizes_at = words_at.astype(np.uint16)
        is_taken = np.zeros(sizes_at.shape, dtype=bool)
        for sizes_at_rank, is_taken_at_rank in zip(sizes_at, is_taken, strict=True):
            np.less_equal(sizes_at_rank, left, out=is_taken_at_rank)
            left -= sizes_at_rank * is_taken_at_rank
        found = np.flatnonzero(is_taken)
        rows.append(found % num_rows)
        taken.append(words_at.ravel()[found])

    chosen = np.concatenate(taken)
    sizes, places = chosen & _SIZE_MASK, chosen >> _PLACE_BITS & _SIZE_MASK
    ends = np.cumsum(sizes)
    masked = np.repeat(np.concatenate(rows) * width + places - (ends - sizes), sizes)
    masked += np.arange(len(masked))
    masked.sort()
    return masked
