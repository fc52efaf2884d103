"""What every encoder is to the rest: embeddings and layers over texts without their padding.

The layers can run at some tokens alone. `condenser.model.bert` has those of BERT and its family,
`condenser.model.modernbert` ModernBERT's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from condenser.encoders import EncoderConfig
from condenser.model.rows import Chosen, Rows

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_new": partial(functional.gelu, approximate="tanh"),
    "relu": functional.relu,
    "tanh": torch.tanh,
}


class EncoderLayer(nn.Module):
    """A layer of an encoder."""

    @abstractmethod
    def forward(
        self, states: Float[Tensor, "token dim"], rows: Rows, wanted: Sequence[Chosen | None]
    ) -> list[Float[Tensor, "_ dim"]]:
        """The layer's output at some tokens, one tensor for each entry of `wanted`; None means all tokens.

        A masked language model needs the last layer at the masked tokens (15 % of them), a retriever whose
        vector is [CLS] at [CLS]. For the other tokens only keys and values are computed, once.
        Entries are computed in order and each draws its own dropout, so the dropout of an entry never
        depends on the entries after it. The gradient cache relies on this: its first pass asks for [CLS],
        its second for [CLS] and more.
        """

    @abstractmethod
    def first_row_scores(
        self, states: Float[Tensor, "token dim"], rows: Rows
    ) -> list[Float[Tensor, "_ _ 1 _"]]:
        """What attention of each row's first token makes its shares of, -inf at padding; for each group."""

    def at_all(
        self, states: Float[Tensor, "token dim"], rows: Rows, *, recompute: bool
    ) -> Float[Tensor, "token dim"]:
        """The layer's output at every token.

        `recompute` turns activation checkpointing on: the backward pass computes the layer again, with the
        same dropout. That is a quarter more work, and holds one layer's activations instead of all layers'.
        """
        if recompute and torch.is_grad_enabled():
            (output,) = checkpoint(self, states, rows, [None], use_reentrant=False)
        else:
            (output,) = self(states, rows, [None])
        return cast(Tensor, output)


class Encoder(nn.Module):
    """An encoder. Its modules are named so that weights go to a Hugging Face folder and back by name."""

    config: EncoderConfig
    pooler: nn.Module | None

    @property
    @abstractmethod
    def layers(self) -> list[EncoderLayer]:
        """The layers, in order."""

    @property
    @abstractmethod
    def word_embeddings(self) -> nn.Parameter:
        """[vocab, size], to which the projection of a masked language model's head is tied."""

    @abstractmethod
    def embedded(self, rows: Rows) -> Float[Tensor, "token dim"]:
        """The input of the first layer."""

    @abstractmethod
    def new_layers(self, count: int) -> nn.ModuleList:
        """More layers of the same kind, for a Condenser's head."""

    def before_last_layer(
        self, rows: Rows, *, recompute: bool, skip_from: int = 0
    ) -> tuple[Float[Tensor, "token dim"], Float[Tensor, "token dim"]]:
        """The output of layer `skip_from` (0: the embeddings), and the input of the last layer."""
        states = early = self.embedded(rows)
        for number, layer in enumerate(self.layers[:-1], start=1):
            states = layer.at_all(states, rows, recompute=recompute)
            if number == skip_from:
                early = states
        return early, states
