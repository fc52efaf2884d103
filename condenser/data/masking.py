"""Whole-word masks for masked language modelling, different in every epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from condenser.data.randomness import uniforms

_PLACE_BITS = 16
_SIZE_MASK = np.uint64(2**_PLACE_BITS - 1)
_NO_WORD = np.uint64(2**64 - 1)  # sorts after every word, with a size above every budget


@dataclass(frozen=True)
class MaskedBatch:
    """Rows of `[CLS] tokens [SEP]`, some tokens masked."""

    input_ids: Int[np.ndarray, "row token"]
    lengths: Int[np.ndarray, " row"]  # with the two special tokens
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
    shares = np.rint(probability * is_content.sum(axis=1)).astype(np.int64)
    budgets = np.clip(shares, 1, max_predictions)
    order = uniforms(seed, "mask order", epoch, positions, columns=width)
    masked = _choose_words(is_content, is_continuation[ids], budgets, order)

    labels = ids.ravel()[masked]
    rows, columns = np.divmod(masked, width)
    places = (positions[rows].astype(np.uint64) << np.uint64(_PLACE_BITS)) + columns.astype(np.uint64)
    actions, choices = uniforms(seed, "mask actions", epoch, places, columns=2).T
    replacements = random_ids[(choices * len(random_ids)).astype(np.int64)]
    input_ids = ids.copy()
    input_ids.ravel()[masked] = np.where(
        actions < 0.8, mask_id, np.where(actions < 0.9, replacements, labels)
    )
    return MaskedBatch(input_ids, lengths, masked, labels)


def _choose_words(
    is_content: np.ndarray, is_continuation: np.ndarray, budgets: np.ndarray, order: np.ndarray
) -> np.ndarray:
    """Flat positions of the tokens of the chosen words, ascending.

    A word is a content token and the continuations after it. The words of a row are ordered by the number
    of their first token in `order`, then by their place.
    """
    num_rows, width = is_content.shape
    assert width < 2**_PLACE_BITS, "a place must fit into its bits"
    is_inside = is_content & is_continuation
    is_inside[:, 1:] &= is_content[:, :-1]
    bounds = np.flatnonzero(~is_inside)  # starts of words and tokens without content, as the last of each row
    is_start = is_content.ravel()[bounds]
    starts = bounds[is_start]
    sizes = np.diff(bounds, append=is_content.size)[is_start]

    # One integer for each word: rank, place, size. Sorting integers is much faster than sorting indices.
    words = np.full(is_content.size, _NO_WORD, dtype=np.uint64)
    ranks = (order.ravel()[starts] * 2.0**32).astype(np.uint64)
    places = (starts % width).astype(np.uint64)
    words[starts] = (ranks << np.uint64(32)) | (places << np.uint64(_PLACE_BITS)) | sizes.astype(np.uint64)
    words = np.sort(words.reshape(num_rows, width), axis=1).T

    # All rows advance together by one word, each row in its own order.
    words = np.ascontiguousarray(words)
    sizes = (words & _SIZE_MASK).astype(np.int64)
    is_taken = np.zeros(words.shape, dtype=bool)
    left = np.where(is_content.any(axis=1), budgets, 0)
    for rank in range(width):
        if not left.any():
            break
        np.less_equal(sizes[rank], left, out=is_taken[rank])
        left -= sizes[rank] * is_taken[rank]

    ranks, rows = np.nonzero(is_taken)
    sizes = sizes[ranks, rows]
    places = ((words[ranks, rows] >> np.uint64(_PLACE_BITS)) & _SIZE_MASK).astype(np.int64)
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(np.repeat(rows * width + places, sizes) + within)
