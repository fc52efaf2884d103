"""Operations of a BERT's steps, counted exactly, for the share of a device's peak that a step reaches.

An operation is a multiplication or an addition: a product of [a, b] by [b, c] has 2 a b c. Only matrix
products are counted. As in `condenser.model`, the last layers work only where their output is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from condenser.data.batches import token_batches
from condenser.model.rows import TOKENS_MULTIPLE, padded_count, row_widths

TRAINING_PASSES = 3
"""A forward pass, and a backward pass of twice its products: one for the inputs, one for the weights."""
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Chunk:
    """Rows computed together.

    Attributes:
        tokens: that are computed, as many as `condenser.model.rows` says.
        places: of all rows, as attention lays them out (`condenser.model.rows`).
        squares: places of each row with each other.
        masked: how many tokens are masked.
    """

    rows: float
    tokens: float
    places: float
    squares: float
    masked: float = 0.0


@dataclass(frozen=True)
class Operations:
    """The dimensions of a BERT and the layers of its Condenser head, if any; the operations of its passes."""

    num_layers: int
    dim: int
    feed_forward: int
    num_heads: int
    vocab_size: int
    num_head_layers: int = 0
    pooling: str = "cls"  # "mean": the vector of a text needs the last layer at every token

    @property
    def layer_weights(self) -> float:
        """Millions of weights in the encoder's layers."""
        return self.num_layers * (4 * self.dim**2 + 2 * self.dim * self.feed_forward) / 1e6

    def encoder_flops(self, chunk: Chunk) -> float:
        """Forward pass of a retriever, or the first of a gradient cache; [CLS] needs less of a layer."""
        pooled = chunk.tokens if self.pooling == "mean" else chunk.rows
        return self._layers(self.num_layers, chunk, pooled)

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


def inference_batches(lengths: np.ndarray, *, batch_tokens: int, on_cpu: bool) -> list[Chunk]:
    """Rows of these lengths in the batches of a forward pass."""
    batches = token_batches(lengths, batch_tokens=batch_tokens)
    return [padded(lengths[rows], on_cpu=on_cpu) for rows in batches]


def padded(lengths: np.ndarray, *, on_cpu: bool) -> Chunk:
    """Rows of these lengths, as attention lays them out."""
    widths = row_widths(lengths, on_cpu=on_cpu).astype(np.float64)
    tokens = padded_count(int(lengths.sum()), multiple=TOKENS_MULTIPLE)
    return Chunk(len(lengths), float(tokens), float(widths.sum()), float((widths**2).sum()))


def product_rate(device: torch.device, precision: str, clock: Callable[[], float]) -> float:
    """Operations a second of a large matrix product: the peak, the best of repeated runs.

    Args:
        clock: seconds.
    """
    size = {"cpu": 1024, "cuda": 8192}[device.type]
    left, right = (torch.randn(size, size, device=device).to(DTYPES[precision]) for _ in range(2))
    times: list[float] = []
    until = time.perf_counter() + 1.5  # long enough that a busy machine has a quiet moment
    while len(times) < 3 or time.perf_counter() < until:
        began = clock()
        torch.mm(left, right)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(clock() - began)
    return 2 * size**3 / min(times)
