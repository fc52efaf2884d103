"""Whole-word masks for masked language modelling, drawn anew each epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from condenser.data.randomness import uniforms

_PLACE_BITS = 16
_SIZE_MASK = np.uint64(2**_PLACE_BITS - 1)
_NO_WORD = np.uint64(2**64 - 1)  # behind every word, and of a size that no budget holds


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
    """Flat positions of the tokens of the words taken, ascending.

    A word is a run of content tokens up to the next that begins one; its rank among the words of
    its row is its first token's number in `order` (then its place).
    """
    num_rows, width = is_content.shape
    assert width < 2**_PLACE_BITS, "a place must fit its bits"
    is_inside = is_content & is_continuation
    is_inside[:, 1:] &= is_content[:, :-1]
    bounds = np.flatnonzero(~is_inside)  # what begins a word, or is no content; each row's last token is none
    is_start = is_content.ravel()[bounds]
    starts = bounds[is_start]
    sizes = np.diff(bounds, append=is_content.size)[is_start]

    # One number a word: rank, place, size. Sorting numbers is many times faster than sorting indices.
    words = np.full(is_content.size, _NO_WORD, dtype=np.uint64)
    ranks = (order.ravel()[starts] * 2.0**32).astype(np.uint64)
    places = (starts % width).astype(np.uint64)
    words[starts] = (ranks << np.uint64(32)) | (places << np.uint64(_PLACE_BITS)) | sizes.astype(np.uint64)
    words = np.sort(words.reshape(num_rows, width), axis=1).T

    # All rows advance together, word by word in each row's own order.
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
