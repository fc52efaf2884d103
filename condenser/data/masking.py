"""Whole-word masks for masked language modelling, different in every epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from condenser.data.randomness import bits_at, uniforms

_PLACE_BITS = 16
_SIZE_MASK = np.uint64(2**_PLACE_BITS - 1)
_RANKS_AT_ONCE = 8
_ORDER_MASK = np.uint64((2**32 - 1) << 32)
_NO_WORD = np.uint64(2**64 - 1)  # sorts after every word, with a size above every budget


@dataclass(frozen=True)
class MaskedBatch:
    """Rows of `[CLS] tokens [SEP]`, some tokens masked."""

    input_ids: Int[np.ndarray, "row token"]
    masked_positions: Int[np.ndarray, " masked"]  # flat positions in input_ids
    labels: Int[np.ndarray, " masked"]  # the original ids at these positions


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
    """Mask about `probability` of the content tokens of every row, in whole words.

    Content tokens are all but special ones. A row of n content tokens has a budget of
    max(1, round(probability n)) tokens, at most `max_predictions`. Its words are chosen in random order; a
    word that does not fit into the rest of the budget is skipped. 80 % of the chosen tokens become [MASK],
    10 % become a random token, 10 % stay. Source: BERT's whole-word masking, as in Condenser, section 4.1.

    The mask of a row depends only on (seed, epoch, its entry of `positions`), not on its batch. Special
    tokens inside a text are never masked, and they end a word.
    """
    is_ordinary = np.zeros(len(is_continuation), dtype=bool)
    is_ordinary[random_ids] = True
    width = ids.shape[1]
    columns = np.arange(width)
    is_content = is_ordinary[ids] & (columns > 0) & (columns < lengths[:, None] - 1)
    num_content = np.count_nonzero(is_content, axis=1)
    shares = np.rint(probability * num_content).astype(np.int64)
    budgets = np.where(num_content > 0, np.clip(shares, 1, max_predictions), 0)

    def order(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return bits_at(seed, "mask order", epoch, positions, rows=rows, columns=columns)

    masked = _choose_words(is_content, is_continuation[ids], budgets, order)

    labels = ids.ravel()[masked]
    rows = masked // width  # divmod is slower
    columns = masked - rows * width
    places = (positions[rows].astype(np.uint64) << np.uint64(_PLACE_BITS)) + columns.astype(np.uint64)
    actions, choices = uniforms(seed, "mask actions", epoch, places, columns=2).T
    replacements = random_ids[(choices * len(random_ids)).astype(np.int64)]
    input_ids = ids.copy()
    input_ids.ravel()[masked] = np.where(
        actions < 0.8, mask_id, np.where(actions < 0.9, replacements, labels)
    )
    return MaskedBatch(input_ids, masked, labels)


def _choose_words(
    is_content: np.ndarray,
    is_continuation: np.ndarray,
    budgets: np.ndarray,
    order: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Flat positions of the tokens of the chosen words, ascending.

    A word is a content token and the continuations after it. The words of a row are ordered by the upper half
    of the 64 bits that `order` gives the row and the place of their first tokens, then by their place.
    """
    num_rows, width = is_content.shape
    assert width < 2**_PLACE_BITS, "a place must fit into its bits"
    is_inside = is_content & is_continuation
    is_inside[:, 1:] &= is_content[:, :-1]
    bounds = np.append(np.flatnonzero(~is_inside), is_content.size)  # of words and of tokens without content
    is_start = is_content.ravel()[bounds[:-1]]
    starts = bounds[:-1][is_start]
    sizes = bounds[1:][is_start] - starts
    rows = starts // width
    places = starts - rows * width

    # One integer for each word: order, place, size. Sorting integers is much faster than sorting indices.
    words = np.full((num_rows, width), _NO_WORD, dtype=np.uint64)
    words.ravel()[starts] = order(rows, places) & _ORDER_MASK | (places << _PLACE_BITS | sizes).astype(
        np.uint64
    )
    words.sort(axis=1)

    # All rows advance together by one word, each row in its own order.
    left, taken = budgets.copy(), [np.zeros(0, dtype=np.int64)]
    for first in range(0, width, _RANKS_AT_ONCE):
        if not left.any():
            break
        sizes_at = np.ascontiguousarray((words[:, first : first + _RANKS_AT_ONCE] & _SIZE_MASK).T, np.int64)
        is_taken = np.zeros(sizes_at.shape, dtype=bool)
        for sizes_at_rank, is_taken_at_rank in zip(sizes_at, is_taken, strict=True):
            np.less_equal(sizes_at_rank, left, out=is_taken_at_rank)
            left -= sizes_at_rank * is_taken_at_rank
        ranks, rows = np.nonzero(is_taken)
        taken.append(rows * width + ranks + first)

    chosen = np.concatenate(taken)
    found = words.ravel()[chosen]
    sizes = (found & _SIZE_MASK).astype(np.int64)
    places = (found >> np.uint64(_PLACE_BITS) & _SIZE_MASK).astype(np.int64)
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(np.repeat(chosen // width * width + places, sizes) + within)
