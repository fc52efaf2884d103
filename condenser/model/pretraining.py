"""The Condenser: an encoder whose head predicts masked words from its vector of the text and early layers.

Source: "Condenser: a Pre-training Architecture for Dense Retrieval", §3.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from condenser.files import atomic_folder
from condenser.model.backbone_folder import load_backbone, write_backbone
from condenser.model.encoder import Encoder, EncoderLayer
from condenser.model.mlm_head import MLM_HEAD_FILE, MaskedLanguageHead
from condenser.model.projection import Projection, vector_dim
from condenser.model.rows import Chosen, Rows
from condenser.model.text_vector import TextVector, folder_projection, read_text_vector
from condenser.model.weights import (
    fill,
    initialise,
    on_meta_device,
    read_float32_weights,
    read_settings,
    write_weights,
)

log = logging.getLogger(__name__)

CONDENSER_HEAD_FILE = "condenser_head.safetensors"


@dataclass
class CondenserOutput:
    """What one forward pass gives; logits are in the order of the masked tokens."""

    head_logits: Float[Tensor, "masked vocab"]
    late_logits: Float[Tensor, "masked vocab"] | None
    vector: Float[Tensor, "row dim"]


class Condenser(nn.Module):
    """A backbone and a short head that gets late information from the vector of the text alone.

    The input of the head is [vector ; early tokens], where early is the output of layer `skip_from` (0:
    the embeddings). The vector is the late [CLS] in the papers (eq. 8), and what the model says here. The
    head reads it before it is normalised, at the length of the other states. The head and the last layer
    both predict the masked words, through one projection that is tied to the word embeddings (eq. 9-11).

    The result is that of luyug/Condenser, for less work: logits, and everything in the last layers
    except attention, are computed at masked positions only.
    """

    def __init__(
        self,
        backbone: Encoder,
        mlm_head: MaskedLanguageHead,
        *,
        num_head_layers: int,
        skip_from: int | None,
        use_late_mlm: bool,
        seed: int,
        vector: TextVector | None = None,
        projection: Projection | None = None,
    ) -> None:
        """A Condenser with a new head, drawn from `seed`. `skip_from` None: half of the backbone's layers.

        Raises:
            ValueError: `skip_from` is not a layer below the last, or the head has no layer.
        """
        super().__init__()
        num_layers = len(backbone.layers)
        if skip_from is None:
            skip_from = num_layers // 2  # Condenser, §4.1: 6 of 12
        if not 0 <= skip_from < num_layers:
            raise ValueError(
                f"skip_from: expected a layer below the last, 0 to {num_layers - 1}, got {skip_from}. "
                "Half of the backbone's layers is the paper's choice."
            )
        if num_head_layers < 1:
            raise ValueError(f"num_head_layers: expected 1 or more, got {num_head_layers}.")
        self.backbone = backbone
        self.mlm_head = mlm_head
        self.vector, self.projection = vector or TextVector(), projection
        self.head = on_meta_device(lambda: backbone.new_layers(num_head_layers))
        initialise(self.head, standard_deviation=backbone.config.initializer_range, seed=seed)
        self.skip_from = skip_from
        self.use_late_mlm = use_late_mlm
        self.recompute_layers = False  # see EncoderLayer.at_all

    def forward(self, rows: Rows, masked: Chosen) -> CondenserOutput:
        """Logits at the masked tokens and the vector of each row."""
        early, states = self.backbone.before_last_layer(
            rows, recompute=self.recompute_layers, skip_from=self.skip_from
        )
        vectors, late_masked = self.vector.pooled(
            self.backbone.layers[-1], states, rows, masked=masked if self.use_late_mlm else None
        )
        head_states = early.index_copy(0, rows.first.tokens, vectors.to(early.dtype))  # eq. 8
        *layers, last = cast("list[EncoderLayer]", [*self.head])
        for layer in layers:
            head_states = layer.at_all(head_states, rows, recompute=self.recompute_layers)
        head_masked = last(head_states, rows, [masked])

        # one product with the vocabulary for both predictions
        word_embeddings = self.backbone.word_embeddings
        late = [] if late_masked is None else [late_masked]
        logits = self.mlm_head(torch.cat([*head_masked, *late]), word_embeddings)
        head_logits, *late_logits = logits.split(len(masked.tokens)) if len(logits) else (logits, logits)
        return CondenserOutput(
            head_logits,
            late_logits[0] if self.use_late_mlm else None,
            self.vector.finished(vectors, self.projection),
        )

    def represent(self, rows: Rows) -> Float[Tensor, "row dim"]:
        """The vectors alone, without head and logits, with the same dropout as in `forward`."""
        _, states = self.backbone.before_last_layer(rows, recompute=self.recompute_layers)
        vectors, _ = self.vector.pooled(self.backbone.layers[-1], states, rows, masked=None)
        return self.vector.finished(vectors, self.projection)

    @property
    def dim(self) -> int:
        """Of a vector."""
        return vector_dim(self.backbone, self.projection)

    def save(self, folder: str | Path, tokenizer_folder: str | Path) -> None:
        """Write the backbone as a Hugging Face folder, with both heads in files beside it."""
        with atomic_folder(folder) as partial:
            write_backbone(self.backbone, tokenizer_folder, partial, projection=self.projection)
            write_weights(partial / MLM_HEAD_FILE, self.mlm_head, settings=None)
            settings = {"num_head_layers": len(self.head), "skip_from": self.skip_from}
            write_weights(partial / CONDENSER_HEAD_FILE, self.head, settings=settings)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        num_head_layers: int,
        skip_from: int | None,
        use_late_mlm: bool,
        missing_head: Literal["refuse", "random"],
        seed: int,
        dropout: float | int | None,
    ) -> Condenser:
        """Read a folder that `save` or the rule backbone wrote.

        `missing_head` says what happens without a Condenser head: "refuse", or "random" for a new one
        drawn from `seed`. A new head damages a backbone that was trained with another head
        (luyug/Condenser#11). `dropout` replaces the folder's own probability; None keeps it.

        Raises:
            ValueError: there is no head and `missing_head` is "refuse", or the head has another shape.
        """
        backbone = load_backbone(folder, dropout=dropout)
        model = cls(
            backbone,
            MaskedLanguageHead.load(folder, backbone.config),
            num_head_layers=num_head_layers,
            skip_from=skip_from,
            use_late_mlm=use_late_mlm,
            seed=seed,
            vector=read_text_vector(folder),
            projection=folder_projection(Path(folder)),
        )
        path = Path(folder) / CONDENSER_HEAD_FILE
        if not path.is_file():
            if missing_head != "random":
                raise ValueError(
                    f"{path}: no such file. Pre-training continues with the head that the backbone was "
                    "trained with. Begin with a model of objective condenser, or ask for a random head."
                )
            log.info("%s has no Condenser head: a new one is drawn from seed %d", folder, seed)
            return model
        settings = read_settings(path)
        for name, asked in (("num_head_layers", num_head_layers), ("skip_from", model.skip_from)):
            stored = settings.get(name)
            if stored != asked:
                raise ValueError(
                    f"{path}: expected {name} {asked}, got {stored}. Set it to {stored}, as in its training."
                )
        fill(model.head, read_float32_weights(path), origin=path)
        return model
