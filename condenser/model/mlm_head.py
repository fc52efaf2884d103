"""The masked language model's head, shared by BERT's last layer and the Condenser's."""

from __future__ import annotations

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from condenser.encoders import EncoderConfig
from condenser.model.encoder import ACTIVATIONS
from condenser.model.operations import linear, product
from condenser.model.weights import fill, read_weights

MLM_HEAD_FILE = "mlm_head.safetensors"


class MaskedLanguageHead(nn.Module):
    """Logits over the vocabulary: dense, activation, LayerNorm, then the word embeddings and a bias.

    The projection is tied: it has no weight of its own but takes the embedding matrix at each call.
    Parameters are named as in BERT's `cls.predictions`.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.transform = Transform(config)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(
        self, states: Float[Tensor, "position dim"], word_embeddings: Float[Tensor, "vocab size"]
    ) -> Float[Tensor, "position vocab"]:
        """Logits of each position."""
        return product(self.transform(states), [word_embeddings], [self.bias])

    @classmethod
    def load(cls, folder: str | Path, config: EncoderConfig) -> MaskedLanguageHead:
        """Read a folder's `mlm_head.safetensors`.

        Raises:
            ValueError: the file does not fit the backbone.
        """
        path = Path(folder) / MLM_HEAD_FILE
        head = cls(config)
        fill(head, read_weights(path), origin=path)
        return head


class Transform(nn.Module):
    """What comes before the words: linear layer, activation, LayerNorm."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.layout.word_size, bias=config.layout.head_bias)
        eps, bias = config.layer_norm_eps, config.layout.layer_norm_bias
        self.LayerNorm = nn.LayerNorm(config.layout.word_size, eps=eps, bias=bias)
        self._activation = ACTIVATIONS[config.layout.head_act]

    def forward(self, states: Float[Tensor, "position dim"]) -> Float[Tensor, "position size"]:
        """What is compared with the words, as wide as their embeddings."""
        output: Tensor = self.LayerNorm(self._activation(linear(states, self.dense)))
        return output
