"""The bi-encoder: a text is one vector of the last layer's states."""

from __future__ import annotations

from pathlib import Path

from jaxtyping import Float
from torch import Tensor, nn
from transformers import BertModel

from condenser.model.backbone_folder import load_backbone, save_backbone
from condenser.model.dropout import use_quick_dropout
from condenser.model.layers import before_last_layer
from condenser.model.rows import Rows
from condenser.model.text_vector import TextVector, read_text_vector


class Retriever(nn.Module):
    """One tied encoder of queries and passages. Relevance is the inner product of two outputs.

    In the papers a text is the last layer's [CLS], without pooler and normalisation (coCondenser, §3.4);
    `vector` says what it is in this model.
    """

    def __init__(self, backbone: BertModel, vector: TextVector | None = None) -> None:
        super().__init__()
        self.backbone = backbone
        self.vector = vector or TextVector()
        use_quick_dropout(self)
        self.recompute_layers = False  # see full_layer

    def forward(self, rows: Rows) -> Float[Tensor, "row dim"]:
        """The vector of each row."""
        _, states = before_last_layer(self.backbone, rows, recompute=self.recompute_layers)
        vectors, _ = self.vector.pooled(self.backbone.encoder.layer[-1], states, rows, masked=None)
        return self.vector.finished(vectors)

    def save(self, folder: str | Path, tokenizer_folder: str | Path) -> None:
        """Write a Hugging Face folder, with what `tokenizer_folder` has on tokens and the text's vector."""
        save_backbone(self.backbone, tokenizer_folder, folder)

    @classmethod
    def load(cls, folder: str | Path, *, dropout: float | int | None) -> Retriever:
        """Read a Hugging Face folder; `dropout` replaces the folder's own probability, None keeps it."""
        return cls(load_backbone(folder, dropout=dropout), read_text_vector(folder))
