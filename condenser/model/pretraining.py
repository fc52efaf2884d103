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
from condenser.model.encoder import Encoder, EncoderLayer
from condenser.model.folder import load_backbone, write_backbone
from condenser.model.mlm_head import MLM_HEAD_FILE, MaskedLanguageHead
from condenser.model.projection import Projection, vector_dim
from condenser.model.rows import Chosen, Rows
from condenser.model.text_vector import TextVector, folder_projection, read_text_vector
from condenser.model.weights import (
    fill,
    initialise,
    make_unfilled,
    read_float32_weights,
    read_settings,
    write_weights,
)

log = logging.getLogger(__name__)

CONDENSER_HEAD_FILE = "condenser_head.safetensors"


@dataclass
class CondenserOutput:
    """What one forward pass gives; logits are in the order of the masked tokens."""

    head_logits: Float[Tensor, "masked vocab"] | None
    late_logits: Float[Tensor, "masked vocab"] | None
    vector: Float[Tensor, "row dim"]


class Condenser(nn.Module):
    """A backbone and a short head that gets late information from the vector of the text alone.

    The input of the head is [vector ; early tokens], where early is the output of layer `skip_from` (0:
    the embeddings; the last layer: nothing is skipped, for comparison). The vector is the late [CLS] in the
    papers (eq. 8), and what the model says here. The head reads it before it is normalised, at the length
    of the other states. The head and the last layer both predict the masked words, through one projection
    that is tied to the word embeddings (eq. 9-11).

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

        A head without layers is none: the last layer alone predicts.

        Raises:
            ValueError: the backbone has no layer `skip_from`.
        """
        super().__init__()
        num_layers = len(backbone.layers)
        if skip_from is None:
            skip_from = num_layers // 2  # Condenser, §4.1: 6 of 12
        if not 0 <= skip_from <= num_layers:
            raise ValueError(
                f"skip_from: expected a layer of the backbone, 0 to {num_layers}, got {skip_from}. "
                "Half of the layers is the paper's choice."
            )
        self.backbone = backbone
        self.mlm_head = mlm_head
        self.vector, self.projection = vector or TextVector(), projection
        self.head = make_unfilled(lambda: backbone.new_layers(num_head_layers))
        initialise(self.head, standard_deviation=backbone.config.initializer_range, seed=seed)
        self.skip_from = skip_from
        self.use_late_mlm = use_late_mlm
        self.recompute_layers = False  # see EncoderLayer.at_all

    def forward(self, rows: Rows, masked: Chosen) -> CondenserOutput:
        """Logits at the masked tokens and the vector of each row."""
        early, states = self.backbone.before_last_layer(
            rows, recompute=self.recompute_layers, skip_from=self.skip_from
        )
        has_head = len(self.head) > 0
        is_without_skip = has_head and self.skip_from == len(self.backbone.layers)
        wanted = [None] if is_without_skip else [masked] if self.use_late_mlm else []
        vectors, late = self.vector.pooled(self.backbone.layers[-1], states, rows, wanted)
        if is_without_skip:
            (early,) = late
            late = [early.index_select(0, masked.tokens)] if self.use_late_mlm else []
        head = []
        if has_head:
            head_states = early.index_copy(0, rows.first.tokens, vectors.to(early.dtype))  # eq. 8
            *layers, last = cast("list[EncoderLayer]", [*self.head])
            for layer in layers:
                head_states = layer.at_all(head_states, rows, recompute=self.recompute_layers)
            head = last(head_states, rows, [masked])

        # one product with the vocabulary for both predictions
        logits = self.mlm_head(torch.cat([*head, *late]), self.backbone.word_embeddings)
        parts = logits.tensor_split(len(head) + len(late))
        return CondenserOutput(
            parts[0] if head else None,
            parts[-1] if late else None,
            self.vector.projected_and_scaled(vectors, self.projection),
        )

    def represent(self, rows: Rows) -> Float[Tensor, "row dim"]:
        """The vectors alone, without head and logits, with the same dropout as in `forward`."""
        _, states = self.backbone.before_last_layer(rows, recompute=self.recompute_layers)
        vectors, _ = self.vector.pooled(self.backbone.layers[-1], states, rows)
        return self.vector.projected_and_scaled(vectors, self.projection)

    @property
    def dim(self) -> int:
        """Of a vector."""
        return vector_dim(self.backbone, self.projection)

    def save(self, folder: str | Path, tokenizer_folder: str | Path) -> None:
        """Write the backbone as a Hugging Face folder, with both heads in files beside it."""
        with atomic_folder(folder) as partial:
            write_backbone(self.backbone, tokenizer_folder, partial, projection=self.projection)
            write_weights(partial / MLM_HEAD_FILE, self.mlm_head, settings=None)
            if len(self.head):
                settings = {"num_head_layers": len(self.head), "skip_from": self.skip_from}
                write_weights(partial / CONDENSER_HEAD_FILE, self.head, settings=settings)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        num_head_layers: int | None = None,
        skip_from: int | None = None,
        use_late_mlm: bool = True,
        missing_head: Literal["refuse", "random"] = "refuse",
        seed: int = 0,
        dropout: float | int | None = None,
    ) -> Condenser:
        """Read a folder that `save` or the rule backbone wrote; by default with its own head.

        `num_head_layers` None takes the head that is there, with its `skip_from`, or the paper's two layers.
        `missing_head` says what happens without a Condenser head: "refuse", or "random" for a new one
        drawn from `seed`. A new head damages a backbone that was trained with another head
        (luyug/Condenser#11). With `num_head_layers` 0 the folder's head is left out. `dropout` replaces
        the folder's own probability; None keeps it.

        Raises:
            ValueError: there is no head and `missing_head` is "refuse", or the head has another shape.
        """
        backbone, path = load_backbone(folder, dropout=dropout), Path(folder) / CONDENSER_HEAD_FILE
        if num_head_layers is None:
            head = read_settings(path) if path.is_file() else {}
            num_head_layers, skip_from = head.get("num_head_layers", 2), head.get("skip_from", skip_from)
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
        if num_head_layers == 0:
            return model
        if not path.is_file():
            if missing_head != "random":
                raise ValueError(
                    f"{path}: no such file. Pre-training continues with the head that the backbone was "
                    "trained with: start from a model of objective condenser, or ask for a random head by "
                    "new_head."
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
