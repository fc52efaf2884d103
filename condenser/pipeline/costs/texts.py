"""How long the texts of a collection are, and what the stages make of them.

A collection is known by a sample of its rows, real ones where token shards exist and made-up ones
where they do not, and every figure is that of the sample scaled up. Cutting, packing and padding
follow condenser.data in its plainest form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
from jaxtyping import Float, Int

from condenser.files import load_npy
from condenser.pipeline.costs.arithmetic import Chunk

SAMPLE_ROWS = 2000
_SEED = 0  # of a sample, not of a result


@dataclass(frozen=True)
class Texts:
    """A sample of a collection's rows; `weights` says how many rows each stands for."""

    titles: list[int]  # tokens with [SEP], 0 for none
    sentences: list[list[int]]  # tokens of each sentence
    weights: list[float]

    @property
    def num_rows(self) -> float:
        return sum(self.weights)

    @property
    def num_sentences(self) -> float:
        return sum(len(row) * weight for row, weight in zip(self.sentences, self.weights, strict=True))

    @property
    def num_tokens(self) -> float:
        """Tokens of titles and sentences, without the specials around a row."""
        rows = zip(self.titles, self.sentences, self.weights, strict=True)
        return sum((title + sum(row)) * weight for title, row, weight in rows)


@dataclass(frozen=True)
class Lengths:
    """Lengths of the rows that a model sees, both specials included; `weights` as in `Texts`."""

    lengths: Int[np.ndarray, " row"]
    weights: Float[np.ndarray, " row"]

    @property
    def num_rows(self) -> float:
        return float(self.weights.sum())

    @property
    def num_tokens(self) -> float:
        return float((self.lengths * self.weights).sum())


def assumed_texts(
    num_rows: float, *, mean_tokens: float, variation: float, sentence_tokens: float, title_tokens: float
) -> Texts:
    """Rows whose lengths stand at even quantiles of a log-normal distribution.

    Args:
        mean_tokens: of a row without its title.
        variation: standard deviation over mean; 0 makes all rows alike.
        sentence_tokens: mean of a sentence; sentences vary evenly between 0.4 and 1.6 of it.
    """
    spread = np.sqrt(np.log1p(variation**2))
    quantiles = [NormalDist().inv_cdf((index + 0.5) / SAMPLE_ROWS) for index in range(SAMPLE_ROWS)]
    shape = np.exp(spread * np.array(quantiles))
    lengths = np.maximum(1, np.rint(shape * mean_tokens / shape.mean())).astype(int)
    random = np.random.default_rng(_SEED)
    rows = []
    for length in lengths.tolist():
        row: list[int] = []
        while length:
            drawn = max(1, round(sentence_tokens * random.uniform(0.4, 1.6)))
            row.append(min(drawn, length))
            length -= row[-1]
        rows.append(row)
    return Texts([round(title_tokens)] * SAMPLE_ROWS, rows, [num_rows / SAMPLE_ROWS] * SAMPLE_ROWS)


def counted_texts(prefixes: Sequence[Path]) -> Texts:
    """Evenly spaced rows of token shards (docs/architecture.md), as they are.

    Raises:
        ValueError: the files of a shard do not fit together.
    """
    parts = []
    for prefix in prefixes:
        lengths = load_npy(prefix.with_name(f"{prefix.name}.sentence_lengths.npy"))
        nums = load_npy(prefix.with_name(f"{prefix.name}.num_sentences.npy"))
        ends = np.cumsum(nums, dtype=np.int64)
        if len(nums) and ends[-1] != len(lengths):
            raise ValueError(
                f"{prefix}.num_sentences.npy: expected counts that add up to {len(lengths)}, got {ends[-1]}. "
                "Run rule tokens again."
            )
        taken = min(len(nums), -(-SAMPLE_ROWS // len(prefixes)))
        rows = [lengths[ends[row] - nums[row] : ends[row]].tolist() for row in evenly(len(nums), taken)]
        parts.append(
            Texts([row[0] for row in rows], [row[1:] for row in rows], [len(nums) / max(taken, 1)] * taken)
        )
    return joined(parts)


def evenly(count: int, taken: int) -> list[int]:
    """`taken` places at even distances among `count`."""
    return [(2 * index + 1) * count // (2 * taken) for index in range(taken)]


def joined(parts: Sequence[Texts]) -> Texts:
    """Several collections as one."""
    return Texts(
        [title for part in parts for title in part.titles],
        [row for part in parts for row in part.sentences],
        [weight for part in parts for weight in part.weights],
    )


def passages(texts: Texts, *, max_tokens: int) -> Lengths:
    """Rows as a retriever sees them: title and text, cut to `max_tokens` with both specials."""
    rows = zip(texts.titles, texts.sentences, strict=True)
    return Lengths(
        np.array([min(title + sum(row) + 2, max_tokens) for title, row in rows]), np.array(texts.weights)
    )


def blocks(texts: Texts, *, max_tokens: int, short_probability: float) -> Lengths:
    """What Condenser pre-training sees: whole sentences of a row packed up to a target length."""
    random = np.random.default_rng(_SEED)
    lengths: list[int] = []
    weights: list[float] = []
    for row, weight in zip(texts.sentences, texts.weights, strict=True):
        filled, target = 0, 0
        for sentence in [*row, None]:
            if filled and (sentence is None or filled + sentence > target):
                lengths.append(min(filled, max_tokens) + 2)
                weights.append(weight)
                filled = 0
            if sentence is not None:
                if not filled:
                    is_short = random.random() < short_probability
                    target = int(random.integers(1, max_tokens + 1)) if is_short else max_tokens
                filled += sentence
    return Lengths(np.array(lengths, dtype=int), np.array(weights))


def spans(texts: Texts, *, min_tokens: int, span_tokens: Sequence[int], short_probability: float) -> Lengths:
    """What coCondenser pre-training sees: two spans of each row with room for them, one after the other."""
    random = np.random.default_rng(_SEED)
    lengths: list[int] = []
    weights: list[float] = []
    for row, weight in zip(texts.sentences, texts.weights, strict=True):
        size = sum(row)
        if size >= 2 * min_tokens:
            for _ in range(2):
                is_short = random.random() < short_probability
                lowest, highest = (min_tokens, span_tokens[0]) if is_short else span_tokens
                lengths.append(min(int(random.integers(lowest, highest + 1)), size // 2) + 2)
                weights.append(weight)
    return Lengths(np.array(lengths, dtype=int), np.array(weights))


def even_batch(lengths: Lengths, *, num_rows: int) -> Int[np.ndarray, " row"]:
    """A batch as it is on average: lengths at even quantiles, shortest first."""
    order = np.argsort(lengths.lengths, kind="stable")
    reached = np.cumsum(lengths.weights[order])
    wanted = (np.arange(num_rows) + 0.5) / num_rows * reached[-1]
    places = np.minimum(np.searchsorted(reached, wanted), len(order) - 1)
    return lengths.lengths[order][places]


def length_chunks(
    batch: Int[np.ndarray, " row"], *, rows_per_chunk: int, mask_probability: float
) -> list[Chunk]:
    """A batch, shortest row first, cut into chunks, longest rows first, and padded to multiples of 8.

    Of n content tokens max(1, round(mask_probability n)) are masked; none with probability 0.
    """
    return [
        _chunk(batch[max(0, end - rows_per_chunk) : end], mask_probability)
        for end in range(len(batch), 0, -rows_per_chunk)
    ]


def token_chunks(batch: Int[np.ndarray, " row"], *, batch_tokens: int) -> list[Chunk]:
    """A block of rows, shortest first, cut from its longest row on into batches of so many padded tokens."""
    chunks, end = [], len(batch)
    while end:
        size = min(end, max(1, batch_tokens // _padded(int(batch[end - 1]))))
        chunks.append(_chunk(batch[end - size : end], 0.0))
        end -= size
    return chunks


def _chunk(rows: np.ndarray, mask_probability: float) -> Chunk:
    masked = np.maximum(1, np.rint(mask_probability * (rows - 2))).sum() if mask_probability else 0
    return Chunk(len(rows), _padded(int(rows[-1])), float(masked))


def _padded(length: int) -> int:
    return -(-length // 8) * 8
