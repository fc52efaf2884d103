"""The dimensions of a BERT or an LSTM: its weights, its operations for a token, its memory.

An operation is a multiplication or an addition of a matrix product. All layers are counted at every token:
the few that a model leaves out are in the rates, which are measured on whole jobs.
"""

from __future__ import annotations

from dataclasses import dataclass


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

    @property
    def num_weights(self) -> int:
        """Weights: embeddings, layers with biases and LayerNorms, pooler; head and its language model."""
        dim, wide = self.dim, self.feed_forward
        embeddings = (self.vocab_size + self.max_positions + 2) * dim + 2 * dim
        layer = 4 * (dim * dim + dim) + (dim * wide + wide) + (wide * dim + dim) + 2 * 2 * dim
        language_model = dim * dim + dim + 2 * dim + self.vocab_size if self.num_head_layers else 0
        layers = (self.num_layers + self.num_head_layers) * layer
        return embeddings + layers + dim * dim + dim + language_model

    def token_flops(self, length: float, *, num_logits: float = 0.0) -> float:
        """Operations of a forward pass for one token of a text of this length.

        `num_logits`: how often a token is a row of logits, on average.
        """
        dim, num_layers = self.dim, self.num_layers + self.num_head_layers
        products = 4 * dim**2 + 2 * dim * self.feed_forward + 2 * length * dim
        return 2 * (num_layers * products + num_logits * dim * (dim + self.vocab_size))

    def graph_bytes(self, num_tokens: float, *, length: float, num_logits: float = 0.0) -> float:
        """Bytes in float32 that the graph of so many tokens keeps for the backward pass."""
        vectors = 12 * self.dim + 2 * self.feed_forward + 3 * self.num_heads * length
        layers = (self.num_layers + self.num_head_layers) * vectors
        return 4 * num_tokens * (layers + num_logits * 3 * self.vocab_size)


@dataclass(frozen=True)
class LstmShape(Shape):
    """The dimensions of an LSTM over vectors of words: `dim` numbers in each of two directions."""

    word_dim: int = 0

    @property
    def num_weights(self) -> int:
        """Weights: vectors of words, not trained, and of each direction four gates with two biases."""
        return self.vocab_size * self.word_dim + 8 * self.dim * (self.word_dim + self.dim + 2)

    def token_flops(self, length: float, *, num_logits: float = 0.0) -> float:
        """Operations of a forward pass for one word of a text."""
        return 2 * 8 * self.dim * (self.word_dim + self.dim)

    def graph_bytes(self, num_tokens: float, *, length: float, num_logits: float = 0.0) -> float:
        """Bytes in float32 that the graph keeps: the word, and of each direction gates, cell and state."""
        return 4 * num_tokens * (self.word_dim + 2 * 6 * self.dim)
