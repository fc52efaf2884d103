"""Floating-point operations, weights and memory of one forward pass, by counting.

An operation is a multiplication or an addition, so a product of [a, b] by [b, c] has 2 a b c. Only
matrix products are counted: all the rest of BERT is below 1 % of them, and is told apart as the
numbers it reads and writes (`graph_numbers`). What is counted follows condenser.model: layers before
the last at every padded position, the last ones where somebody reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TRAINING_PASSES = 3
"""Forward, and a backward pass of twice the products: one for the inputs, one for the weights."""

_UPDATE_NUMBERS = 11
"""Numbers read or written for each weight by zeroing, the gradient norm, clipping and AdamW."""


@dataclass(frozen=True)
class Shape:
    """The dimensions of a BERT."""

    num_layers: int
    dim: int
    feed_forward: int
    num_heads: int
    vocab_size: int
    max_positions: int


@dataclass(frozen=True)
class Chunk:
    """Rows computed together, padded to one width; `masked` counts the positions that are guessed."""

    rows: float
    width: int
    masked: float


def layer_weights(shape: Shape) -> int:
    """Weights of one layer: four projections, the feed-forward, biases and two LayerNorms."""
    dim, wide = shape.dim, shape.feed_forward
    return 4 * (dim * dim + dim) + (dim * wide + wide) + (wide * dim + dim) + 2 * 2 * dim


def backbone_weights(shape: Shape) -> int:
    """Weights of the backbone: embeddings, layers and the pooler that only is kept."""
    dim = shape.dim
    embeddings = (shape.vocab_size + shape.max_positions + 2) * dim + 2 * dim
    return embeddings + shape.num_layers * layer_weights(shape) + dim * dim + dim


def condenser_weights(shape: Shape, *, num_head_layers: int) -> int:
    """Weights of a Condenser: backbone, head layers, and the masked language model's head."""
    mlm_head = shape.dim * shape.dim + shape.dim + 2 * shape.dim + shape.vocab_size
    return backbone_weights(shape) + num_head_layers * layer_weights(shape) + mlm_head


def full_layer_flops(shape: Shape, chunk: Chunk) -> float:
    """A layer at every position: four projections, the feed-forward, scores and weighted values."""
    dim, tokens = shape.dim, chunk.rows * chunk.width
    return 2 * tokens * (4 * dim * dim + 2 * dim * shape.feed_forward) + _attention_flops(
        shape, chunk, tokens
    )


def cls_flops(shape: Shape, chunk: Chunk) -> float:
    """What reading the last layer at [CLS] adds to its keys and values."""
    return (
        2 * chunk.rows * (2 * shape.dim * shape.dim + 2 * shape.dim * shape.feed_forward)
        + _attention_flops(shape, chunk, chunk.rows)
    )  # fmt: skip


def masked_flops(shape: Shape, chunk: Chunk) -> float:
    """What reading a layer at the masked positions adds to its keys and values: queries everywhere."""
    dim, tokens = shape.dim, chunk.rows * chunk.width
    after_attention = dim * dim + 2 * dim * shape.feed_forward
    return (
        2 * tokens * dim * dim + _attention_flops(shape, chunk, tokens) + 2 * chunk.masked * after_attention
    )


def keys_and_values_flops(shape: Shape, chunk: Chunk) -> float:
    """The two projections that a layer needs at every position, wherever it is read."""
    return 2 * chunk.rows * chunk.width * 2 * shape.dim * shape.dim


def encoder_flops(shape: Shape, chunk: Chunk) -> float:
    """Forward pass of a retriever, or of a Condenser's first pass of the gradient cache: [CLS] alone."""
    before = (shape.num_layers - 1) * full_layer_flops(shape, chunk)
    return before + keys_and_values_flops(shape, chunk) + cls_flops(shape, chunk)


def condenser_flops(shape: Shape, chunk: Chunk, *, num_head_layers: int, use_late_mlm: bool) -> float:
    """Forward pass of a Condenser with the logits of its masked language models."""
    logits = 2 * chunk.masked * (shape.dim * shape.dim + shape.dim * shape.vocab_size)
    head = (
        (num_head_layers - 1) * full_layer_flops(shape, chunk)
        + keys_and_values_flops(shape, chunk)
        + masked_flops(shape, chunk)
        + logits
    )
    late = masked_flops(shape, chunk) + logits if use_late_mlm else 0
    return encoder_flops(shape, chunk) + head + late


def _attention_flops(shape: Shape, chunk: Chunk, queries: float) -> float:
    return 2 * 2 * queries * chunk.width * shape.dim


def graph_numbers(shape: Shape, chunks: Sequence[Chunk], *, num_layers: int, num_mlm_heads: int) -> float:
    """Numbers that the graphs of these chunks keep for the backward pass.

    The same estimate by which training chooses the gradient cache (condenser.train.pretrain.graph_bytes).
    It also stands for what passes through memory besides matrix products.
    """
    a_token = 12 * shape.dim + 2 * shape.feed_forward
    return sum(
        chunk.rows * chunk.width * num_layers * (a_token + 3 * shape.num_heads * chunk.width)
        + chunk.masked * 3 * num_mlm_heads * shape.vocab_size
        for chunk in chunks
    )


def update_bytes(num_weights: int) -> int:
    """Bytes an update of the weights reads and writes, all in float32."""
    return 4 * _UPDATE_NUMBERS * num_weights
