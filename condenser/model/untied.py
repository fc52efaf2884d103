"""Two encoders, one of queries and one of passages (DPR)."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from condenser.model.retriever import Retriever
from condenser.shards import QUERY_FOLDER


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
