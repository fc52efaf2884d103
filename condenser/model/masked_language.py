"""An encoder with its masked language modelling head, trained without a Condenser head."""

from __future__ import annotations

from pathlib import Path

from jaxtyping import Float
from torch import Tensor, nn

from condenser.files import atomic_folder
from condenser.model.encoder import Encoder
from condenser.model.folder import load_backbone, write_backbone
from condenser.model.mlm_head import MLM_HEAD_FILE, MaskedLanguageHead
from condenser.model.projection import Projection
from condenser.model.rows import Chosen, Rows
from condenser.model.text_vector import folder_projection
from condenser.model.weights import write_weights


class MaskedLanguageModel(nn.Module):
    """Logits of masked words from the last layer, the projection tied to the word embeddings."""

    def __init__(
        self, backbone: Encoder, mlm_head: MaskedLanguageHead, projection: Projection | None = None
    ) -> None:
        super().__init__()
        self.backbone, self.mlm_head = backbone, mlm_head
        self.projection = None if projection is None else projection.requires_grad_(False)  # kept as it is
        self.recompute_layers = False  # see EncoderLayer.at_all

    def forward(self, rows: Rows, masked: Chosen) -> Float[Tensor, "masked vocab"]:
        """Logits at the masked tokens."""
        _, states = self.backbone.before_last_layer(rows, recompute=self.recompute_layers)
        (late,) = self.backbone.layers[-1](states, rows, [masked])
        return self.mlm_head(late, self.backbone.word_embeddings)

    def save(self, folder: str | Path, tokenizer_folder: str | Path) -> None:
        """Write the backbone as a Hugging Face folder, with the MLM head in a file beside it."""
        with atomic_folder(folder) as partial:
            write_backbone(self.backbone, tokenizer_folder, partial, projection=self.projection)
            write_weights(partial / MLM_HEAD_FILE, self.mlm_head, settings=None)

    @classmethod
    def load(cls, folder: str | Path, *, dropout: float | int | None) -> MaskedLanguageModel:
        """Read a folder with an MLM head; a Condenser head in it is left alone."""
        backbone = load_backbone(folder, dropout=dropout)
        mlm_head = MaskedLanguageHead.load(folder, backbone.config)
        return cls(backbone, mlm_head, folder_projection(Path(folder)))
