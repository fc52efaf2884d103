"""The bi-encoder: a text is one vector of the last layer's states, of one encoder or of two."""

from __future__ import annotations

from pathlib import Path

from jaxtyping import Float, Int
from torch import Tensor, nn

from condenser.model.encoder import Encoder
from condenser.model.folder import load_backbone, save_backbone
from condenser.model.projection import Projection, vector_dim
from condenser.model.rows import Rows
from condenser.model.text_vector import TextVector, folder_projection, read_text_vector
from condenser.shards import QUERY_FOLDER


class Retriever(nn.Module):
    """One tied encoder of queries and passages. Relevance is the inner product of two outputs.

    In the papers a text is the last layer's [CLS], without pooler and normalisation (coCondenser, §3.4);
    `vector` says what it is in this model.
    """

    def __init__(
        self, backbone: Encoder, vector: TextVector | None = None, projection: Projection | None = None
    ) -> None:
        super().__init__()
        self.backbone, self.projection = backbone, projection
        self.vector = vector or TextVector()
        self.recompute_layers = False  # see EncoderLayer.at_all

    def forward(self, rows: Rows) -> Float[Tensor, "row dim"]:
        """The vector of each row."""
        _, states = self.backbone.before_last_layer(rows, recompute=self.recompute_layers)
        vectors, _ = self.vector.pooled(self.backbone.layers[-1], states, rows)
        return self.vector.projected_and_scaled(vectors, self.projection)

    def token_states(
        self, rows: Rows, tokens: Int[Tensor, " counted"], *, is_projected: bool, is_normalised: bool
    ) -> Float[Tensor, "counted out"]:
        """The last layer's states at some tokens: projected, and then of length 1, if this is asked for."""
        _, states = self.backbone.before_last_layer(rows, recompute=self.recompute_layers)
        (states,) = self.backbone.layers[-1](states, rows, [None])
        chosen = states.index_select(0, tokens)
        vector = TextVector(normalised=is_normalised)
        return vector.projected_and_scaled(chosen, self.projection if is_projected else None)

    def vectors_and_states(self, rows: Rows) -> tuple[Float[Tensor, "row dim"], Float[Tensor, "token out"]]:
        """The vector of each row, and of all tokens the last layer's states, of length 1."""
        _, states = self.backbone.before_last_layer(rows, recompute=self.recompute_layers)
        vectors, (of_tokens,) = self.vector.pooled(self.backbone.layers[-1], states, rows, [None])
        return (
            self.vector.projected_and_scaled(vectors, self.projection),
            TextVector(normalised=True).projected_and_scaled(of_tokens, None),
        )

    @property
    def dim(self) -> int:
        """Of a vector."""
        return vector_dim(self.backbone, self.projection)

    def save(self, folder: str | Path, tokenizer_folder: str | Path) -> None:
        """Write a Hugging Face folder, with what `tokenizer_folder` has on tokens and the text's vector."""
        save_backbone(self.backbone, tokenizer_folder, folder, projection=self.projection)

    @classmethod
    def load(cls, folder: str | Path, *, dropout: float | int | None = None) -> Retriever:
        """Read a Hugging Face folder; `dropout` replaces the folder's own probability, None keeps it."""
        backbone = load_backbone(folder, dropout=dropout)
        return cls(backbone, read_text_vector(folder), folder_projection(Path(folder)))


class UntiedEncoders(nn.Module):
    """A passage encoder and a query encoder that share no weights.

    Source: Karpukhin et al. 2020 (DPR); Condenser, §4.3.
    """

    def __init__(self, queries: Retriever, passages: Retriever) -> None:
        super().__init__()
        self.queries, self.passages = queries, passages

    @property
    def recompute_layers(self) -> bool:
        """Whether both encoders use activation checkpointing."""
        return self.passages.recompute_layers

    @recompute_layers.setter
    def recompute_layers(self, value: bool) -> None:
        self.queries.recompute_layers = self.passages.recompute_layers = value

    def save(self, folder: str | Path, tokenizer_folder: str | Path) -> None:
        """Write the passage encoder as a Hugging Face folder, and the query encoder into `query/` of it."""
        self.passages.save(folder, tokenizer_folder)
        self.queries.save(Path(folder) / QUERY_FOLDER, tokenizer_folder)

    @classmethod
    def load(cls, folder: str | Path, *, dropout: float | int | None) -> UntiedEncoders:
        """The two encoders of a folder that has two, else two with the weights of the one."""
        queries = query_encoder_folder(Path(folder))
        return cls(Retriever.load(queries, dropout=dropout), Retriever.load(folder, dropout=dropout))


def query_encoder_folder(folder: Path) -> Path:
    """The folder of a retriever's query encoder: its own, or the one that both share."""
    own = folder / QUERY_FOLDER
    return own if own.is_dir() else folder
