"""The vectors that a retriever makes of texts, and how texts become the chunks of a training step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from condenser.data.batches import length_chunks, pack_texts, row_windows
from condenser.data.randomness import stream_key
from condenser.data.token_choice import ChosenTokens, counted_tokens
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.loss.contrastive import in_batch_loss
from condenser.model.retriever import Retriever, UntiedEncoders
from condenser.model.rows import OnDevice, Rows
from condenser.model.text_vector import Role
from condenser.train.chunks import Chunk, ChunkedTexts

ROLES: dict[str, Role] = {"queries": "query", "passages": "passage"}  # of groups of texts


@dataclass(frozen=True)
class TextRows(OnDevice):
    """Some texts, and the tokens that have a vector, among those of all rows."""

    rows: Rows
    counted: Int[Tensor, " counted"]


@dataclass(frozen=True)
class BatchTexts(ChunkedTexts[TextRows]):
    """The texts of a step, and the loss of their vectors."""

    loss: Callable[..., Tensor]


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """The vectors that a retriever makes of a text, and how those of a query meet those of passages.

    The vectors of several texts stand end to end. `ChosenTokens` says which tokens they are of.

    Attributes:
        encoders: of "queries" and of "passages"; they are in `model`.
        dim: of a vector.
        scale: what similarities are multiplied by in the loss unless the recipe says otherwise.
        counted: of a group, padded ids, whole lengths, and the place of a text's first token, True at the
            tokens that have a vector: bool [row, place].
        encode: of a group and texts, their vectors [counted, dim].
        loss: of the tokens by group and the scale, the loss of the vectors `queries` and `passages`.
        scores: of the vectors of one query, those of passages, and the tokens of both: [passage].
        save: writes a Hugging Face folder, with what another one has on tokens and vectors.
    """

    model: Retriever | UntiedEncoders
    encoders: Mapping[str, Retriever]
    dim: int
    scale: float
    counted: Callable[[str, np.ndarray, np.ndarray, int], np.ndarray]
    encode: Callable[[str, TextRows], Tensor]
    loss: Callable[[Mapping[str, ChosenTokens], float], Callable[..., Tensor]]
    scores: Callable[[Tensor, Tensor, ChosenTokens, ChosenTokens], Tensor]
    save: Callable[[Path, Path], None]


@dataclass(frozen=True, kw_only=True)
class Group:
    """The queries or the passages of a training: their tokens, and how they become chunks.

    Attributes:
        name: "queries" or "passages".
        prompt: ids before each text.
        max_tokens: of a text, with specials and prompt.
        counted: which tokens have a vector, as in `Vectors` of this group.
        rows_per_chunk: texts encoded at a time.
        seed: of dropout.
    """

    name: str
    shards: TokenShards
    tokenizer: Tokenizer
    prompt: np.ndarray
    max_tokens: int
    counted: Callable[[np.ndarray, np.ndarray, int], np.ndarray]
    rows_per_chunk: int
    seed: int
    device: torch.device

    def chunks(
        self, rows: np.ndarray, *, step: int, numbers: Callable[[int], Iterable[int]]
    ) -> tuple[list[Chunk[TextRows]], int, ChosenTokens]:
        """Chunks of some texts, the tokens of all texts, and those of them with a vector.

        Args:
            rows: of the texts, int [text].
            step: whose dropout it is.
            numbers: from the number of chunks, the numbers of those to make.
        """
        starts, lengths = row_windows(self.shards, rows, max_tokens=self.max_tokens - len(self.prompt))
        ids, whole = pack_texts(self.shards, starts, lengths, self.tokenizer, prompt=self.prompt)
        counted = self.counted(ids, whole, len(self.prompt) + 1)
        vector_places = np.cumsum(counted).reshape(counted.shape) - 1
        cuts = length_chunks(lengths, rows_per_chunk=self.rows_per_chunk)
        chunks = []
        for number in numbers(len(cuts)):
            places = cuts[number]
            rows_of_chunk = Rows.of(ids[places], whole[places], device=self.device)
            tokens = torch.from_numpy(counted_tokens(counted[places], whole[places]))
            in_batch = torch.from_numpy(vector_places[places][counted[places]])
            dropout_seed = stream_key(self.seed, f"dropout of {self.name} of step {step}", number)
            chunks.append(Chunk(self.name, in_batch, TextRows(rows_of_chunk, tokens), dropout_seed))
        return chunks, int(whole.sum()), ChosenTokens(counted.sum(axis=1), ids[counted].astype(np.int64))


def one_vector(initial: Path, *, tied: bool) -> Vectors:
    """A bi-encoder: a text has one vector, which stands at its first token; a score is an inner product."""
    model: Retriever | UntiedEncoders
    model = (Retriever if tied else UntiedEncoders).load(initial, dropout=None)
    both = (model.queries, model.passages) if isinstance(model, UntiedEncoders) else (model, model)
    encoders = dict(zip(ROLES, both, strict=True))
    return Vectors(
        model=model,
        encoders=encoders,
        dim=encoders["queries"].dim,
        scale=encoders["queries"].vector.scale,
        counted=lambda group, ids, whole, first: np.broadcast_to(np.arange(ids.shape[1]) == 0, ids.shape),
        encode=lambda group, texts: encoders[group](texts.rows),
        loss=lambda tokens, scale: partial(in_batch_loss, scale=scale),
        scores=lambda query, passages, *tokens: passages @ query[0],
        save=model.save,
    )
