"""The bi-encoder: a text is the last layer's [CLS] vector."""

from __future__ import annotations

from pathlib import Path

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import BertModel

from condenser.model.backbone_folder import load_backbone, save_backbone
from condenser.model.dropout import use_quick_dropout
from condenser.model.layers import broadcast_mask, full_layer, layer_at


class Retriever(nn.Module):
    """One tied encoder of queries and passages: last-layer [CLS], no pooler, no normalisation.

    Source: coCondenser, §3.4. Relevance is the inner product of two outputs.
    """

    def __init__(self, backbone: BertModel) -> None:
        super().__init__()
        self.backbone = backbone
        use_quick_dropout(self)
        self.recompute_layers = False  # see full_layer

    def forward(
        self, input_ids: Int[Tensor, "row token"], attention_mask: Bool[Tensor, "row token"] | None
    ) -> Float[Tensor, "row dim"]:
        """The vector of each row. Without a mask, no row is padded."""
        mask = broadcast_mask(attention_mask)
        *layers, last = self.backbone.encoder.layer
        states = self.backbone.embeddings(input_ids)
        for layer in layers:
            states = full_layer(layer, states, mask, recompute=self.recompute_layers)
        (cls,) = layer_at(last, states, mask, ["cls"])
        return cls

    def save(self, folder: str | Path, tokenizer_folder: str | Path) -> None:
        """Write a Hugging Face folder, with the tokenizer files of `tokenizer_folder`."""
        save_backbone(self.backbone, tokenizer_folder, folder)

    @classmethod
    def load(cls, folder: str | Path, *, dropout: float | int | None) -> Retriever:
        """Read a Hugging Face folder; `dropout` replaces the folder's own probability, None keeps it."""
        return cls(load_backbone(folder, dropout=dropout))
