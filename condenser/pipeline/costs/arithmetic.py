"""Operations, weights and memory of a BERT and of its trainings, by counting.

An operation is a multiplication or an addition: a product of [a, b] by [b, c] has 2 a b c. Only matrix
products are counted. The rest is below 1 % of them; its time is that of the numbers it reads and writes
(`graph_numbers`). As in `condenser.model`, the last layers work only where their output is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from condenser.data.batches import length_chunks, num_items_of, num_steps, token_batches
from condenser.widths import CHOSEN_MULTIPLE, TOKENS_MULTIPLE, padded_count, row_widths

TRAINING_PASSES = 3
"""A forward pass, and a backward pass of twice its products: one for the inputs, one for the weights."""

UPDATE_BYTES = 4 * 11
"""Read or written for each weight by zeroing, the gradient norm, clipping and AdamW, in float32."""

_LOG_LINE_BYTES = 230


@dataclass(frozen=True)
class Chunk:
    """Rows computed together.

    Attributes:
        tokens: that are computed, as many as `condenser.widths` says.
        places: of all rows, as attention lays them out (`condenser.widths`).
        squares: places of each row with each other.
        masked: how many tokens are masked.
    """

    rows: float
    tokens: float
    places: float
    squares: float
    masked: float = 0.0


@dataclass(frozen=True)
class Shape:
    """The dimensions of a BERT, and the layers of the Condenser head that it has, if any."""

    num_layers: int
    dim: int
    feed_forward: int
    num_heads: int
    vocab_size: int
    max_positions: int
    num_head_layers: int = 0
    _: KW_ONLY
    pooling: str = "cls"  # "mean": the vector of a text needs the last layer at every token
    on_cpu: bool = False  # where it computes

    @property
    def num_weights(self) -> int:
        """Weights: embeddings, layers with biases and LayerNorms, pooler; head and its language model."""
        dim, wide = self.dim, self.feed_forward
        embeddings = (self.vocab_size + self.max_positions + 2) * dim + 2 * dim
        layer = 4 * (dim * dim + dim) + (dim * wide + wide) + (wide * dim + dim) + 2 * 2 * dim
        language_model = dim * dim + dim + 2 * dim + self.vocab_size if self.num_head_layers else 0
        return (
            embeddings + (self.num_layers + self.num_head_layers) * layer + dim * dim + dim + language_model
        )

    def encoder_flops(self, chunk: Chunk) -> float:
        """Forward pass of a retriever, or the first of a gradient cache; [CLS] needs less of a layer."""
        pooled = chunk.tokens if self.pooling == "mean" else chunk.rows
        return self._layers(self.num_layers, chunk, pooled)

    def mlm_flops(self, chunk: Chunk) -> float:
        """Forward pass of a masked language model: the last layer and the logits at masked positions only."""
        return self._layers(self.num_layers, chunk, chunk.masked) + self._logits(chunk)

    def condenser_flops(self, chunk: Chunk, *, use_late_mlm: bool) -> float:
        """Forward pass of a Condenser with the logits of its one or two masked language models."""
        head = self._layers(self.num_head_layers, chunk, chunk.masked) + self._logits(chunk)
        late = self._logits(chunk)
        if self.pooling == "cls":  # the encoder has the last layer's keys and values already
            late += self._layer(chunk, 0, chunk.masked)
        return self.encoder_flops(chunk) + head + use_late_mlm * late

    def _layers(self, number: int, chunk: Chunk, asked: float) -> float:
        """Some layers, the last one at so many tokens only."""
        whole = self._layer(chunk, chunk.tokens, chunk.tokens)
        return (number - 1) * whole + self._layer(chunk, chunk.tokens, asked)

    def _layer(self, chunk: Chunk, keys: float, asked: float) -> float:
        """Keys and values of some tokens; queries, output and feed-forward of those that are asked for.

        Attention has padding.
        """
        products = (2 * keys + 2 * asked) * self.dim**2
        pairs = chunk.squares if asked == chunk.tokens else asked * chunk.places / chunk.rows
        return 2 * (products + 2 * pairs * self.dim + 2 * asked * self.dim * self.feed_forward)

    def _logits(self, chunk: Chunk) -> float:
        """The language model's transform of masked positions, and their products with the vocabulary."""
        return 2 * chunk.masked * self.dim * (self.dim + self.vocab_size)

    def graph_numbers(self, chunks: Sequence[Chunk]) -> float:
        """Numbers that the graphs of these chunks keep for the backward pass.

        By this estimate a training decides on the gradient cache (`condenser.train.memory.graph_bytes`).
        """
        num_layers = self.num_layers + self.num_head_layers
        vectors = 12 * self.dim + 2 * self.feed_forward
        return sum(
            num_layers * (chunk.tokens * vectors + chunk.squares * 3 * self.num_heads)
            + chunk.masked * 3 * 2 * self.vocab_size
            for chunk in chunks
        )

    def training(
        self,
        settings: Any,
        rows: Sequence[tuple[int, np.ndarray]],
        forward: Callable[[Chunk], float],
        *,
        num_items: float,
        mask_probability: float = 0.0,
        graph_memory: float = 0.0,
        num_encoders: int = 1,
    ) -> dict[str, Any]:
        """The work of a training of a model of this shape.

        Args:
            settings: `batch_size`, `rows_per_chunk`, `epochs`, `updates` and `drop_last`.
            rows: of each kind of row, the number that an item has, and a sample of lengths with specials.
            forward: operations of a chunk's forward pass.
            num_items: items of an epoch.
            graph_memory: a batch whose graphs need more bytes goes through the gradient cache. With 0, chunks
                do not depend on each other, and each has its backward pass at once.
            num_encoders: 2 where queries and passages have an encoder each.
        """
        whole_items = max(1, round(num_items))
        batch_size = min(settings.batch_size, whole_items)
        cut = {"batch_size": batch_size, "drop_last": settings.drop_last}
        steps = num_steps(whole_items, epochs=settings.epochs, updates=settings.updates, **cut)
        items_seen = num_items_of(whole_items, num_steps=steps, **cut)
        batches = [average_batch(lengths, count * batch_size) for count, lengths in rows]
        chunks = [
            padded(batch[chunk], mask_probability, on_cpu=self.on_cpu)
            for batch in batches
            for chunk in length_chunks(batch, rows_per_chunk=settings.rows_per_chunk)
        ]
        num_layers, num_weights = self.num_layers + self.num_head_layers, num_encoders * self.num_weights
        graphs, flops = 4 * self.graph_numbers(chunks), TRAINING_PASSES * sum(map(forward, chunks))
        held = graphs if graphs <= graph_memory else 4 * max(self.graph_numbers([one]) for one in chunks)
        is_cached, passes = 0 < graph_memory < graphs, 1.0
        if is_cached:  # a pass more, without graphs
            flops += sum(map(self.encoder_flops, chunks))
            passes += self.num_layers / num_layers / TRAINING_PASSES
        num_batches = items_seen / batch_size  # a shorter last one counts as a part
        return {
            "tokens": items_seen * sum(count * lengths.mean() for count, lengths in rows),
            "flops": num_batches * flops,
            "graph_bytes": num_batches * graphs * passes,
            "layers": num_batches * len(chunks) * num_layers * passes,
            "update_bytes": steps * UPDATE_BYTES * num_weights,
            "bytes_on_disk": 4 * num_weights + steps * _LOG_LINE_BYTES,
            "memory_bytes": 16 * num_weights + held,  # weights, gradients and two moments
            "note": "with the gradient cache" if is_cached else "",
        }

    def inference(
        self, lengths: np.ndarray, num_rows: float, *, batch_tokens: int, block_rows: int
    ) -> dict[str, Any]:
        """The work of one forward pass of each of `num_rows` rows, in blocks of sorted rows.

        `lengths` is a sample of theirs, with specials.
        """
        block = average_batch(lengths, min(block_rows, max(1, round(num_rows))))
        batches = inference_batches(block, batch_tokens=batch_tokens, on_cpu=self.on_cpu)
        num_blocks = num_rows / len(block)
        # graphs are not kept, and a forward pass is a third of a training's
        graphs = [self.graph_numbers([batch]) for batch in batches]
        return {
            "tokens": num_rows * lengths.mean(),
            "flops": num_blocks * sum(map(self.encoder_flops, batches)),
            "graph_bytes": num_blocks * 4 * sum(graphs) / 3,
            "layers": num_blocks * len(batches) * self.num_layers / 3,
            "memory_bytes": 4 * self.num_weights + 4 * max(graphs) / self.num_layers,
        }


def inference_batches(lengths: np.ndarray, *, batch_tokens: int, on_cpu: bool) -> list[Chunk]:
    """Rows of these lengths in the batches of a forward pass."""
    batches = token_batches(lengths, batch_tokens=batch_tokens)
    return [padded(lengths[rows], on_cpu=on_cpu) for rows in batches]


def even_places(count: int, number: int) -> np.ndarray:
    """Places of `number` of `count` things, int64, at even distances."""
    return (2 * np.arange(number) + 1) * count // (2 * number)


def average_batch(lengths: np.ndarray, num_rows: int) -> np.ndarray:
    """A batch as it is on average: lengths at even quantiles of a sample, ascending."""
    return np.sort(lengths)[even_places(len(lengths), num_rows)]


def padded(lengths: np.ndarray, mask_probability: float = 0.0, *, on_cpu: bool) -> Chunk:
    """Rows of these lengths, as attention lays them out.

    Of n tokens max(1, round(mask_probability n)) are masked; none with probability 0.
    """
    masked = np.maximum(mask_probability > 0, np.rint(mask_probability * (lengths - 2))).sum()
    widths = row_widths(lengths, on_cpu=on_cpu).astype(np.float64)
    computed = (
        padded_count(int(count), multiple=multiple)
        for count, multiple in ((lengths.sum(), TOKENS_MULTIPLE), (masked, CHOSEN_MULTIPLE))
    )
    tokens, masked = map(float, computed)
    return Chunk(len(lengths), tokens, float(widths.sum()), float((widths**2).sum()), masked)
