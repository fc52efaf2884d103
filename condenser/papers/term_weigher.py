"""A weight of each token in its text: a linear layer on the last layer's states."""

from __future__ import annotations

from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from condenser.model.encoder import Encoder
from condenser.model.folder import load_backbone
from condenser.model.operations import dropout
from condenser.model.rows import Rows
from condenser.model.weights import initialise, make_unfilled


class TermWeigher(nn.Module):
    """An encoder, and y = w T + b of each token state T (Dai and Callan 2019, eq. 1)."""

    def __init__(self, encoder: Encoder, *, seed: int) -> None:
        """`seed` draws w; b begins as 0."""
        super().__init__()
        config = encoder.config
        self.encoder, self.out = encoder, make_unfilled(lambda: nn.Linear(config.hidden_size, 1))
        initialise(self.out, standard_deviation=config.initializer_range, seed=seed)
        self._dropout = config.hidden_dropout_prob
        self.recompute_layers = False  # see EncoderLayer.at_all

    def forward(self, rows: Rows, tokens: Int[Tensor, " word"]) -> Float[Tensor, " word"]:
        """The weights of these tokens, in float32 at least."""
        _, states = self.encoder.before_last_layer(rows, recompute=self.recompute_layers)
        (states,) = self.encoder.layers[-1](states, rows, [None])
        states = states.index_select(0, tokens)
        with torch.autocast(states.device.type, enabled=False):
            states = states if states.dtype == torch.float64 else states.float()
            weights: Tensor = self.out(dropout(states, self._dropout if self.training else 0.0))
            return weights.squeeze(1)

    @classmethod
    def start(cls, folder: str | Path, *, seed: int) -> TermWeigher:
        """The encoder of a Hugging Face folder with a new linear layer."""
        return cls(load_backbone(folder, dropout=None), seed=seed)
