"""The inverse cloze task: a sentence must find the text that it was taken from, among those of the batch.

Source: Lee et al. 2019 (ORQA), the baseline ICT of Condenser, Table 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from condenser.nouns import Pretraining
from condenser.settings import LARGEST, Positive, Share

if TYPE_CHECKING:
    from condenser.data.tokens import Tokenizer, TokenShards
    from condenser.train.pretrain import Training


class Settings(Pretraining):
    """Lengths without specials, and how often the sentence is removed from its text."""

    max_sentence_tokens: Annotated[int, Field(ge=1, le=510)]
    max_tokens: Annotated[int, Field(ge=1, le=510)]
    remove_probability: Share
    scale: Positive | None = None  # of similarities in the loss; `TextVector.scale` by default
    batch_size: Annotated[int, Field(ge=2, le=LARGEST)]
    gradient_cache: Literal["auto", "always", "never"]
    memory_gb: Positive  # for graphs on a processor; see `gradient_cache`

    @property
    def longest_row(self) -> tuple[str, int]:
        return "max_tokens", max(self.max_tokens, self.max_sentence_tokens)


@dataclass(frozen=True)
class Contexts:
    """Stretches of tokens with a hole in each, where the sentence was; a hole of length 0 is none."""

    starts: np.ndarray  # int64 [row], flat token positions
    lengths: np.ndarray  # int64 [row], without the hole
    hole_starts: np.ndarray  # int64 [row], counted from the start of the stretch
    hole_lengths: np.ndarray  # int64 [row]
    positions: np.ndarray  # int64 [row]

    def pack(
        self, shards: TokenShards, rows: np.ndarray, tokenizer: Tokenizer
    ) -> tuple[np.ndarray, np.ndarray]:
        """`[CLS] tokens [SEP]` of some rows, padded to a common multiple of 8, and their lengths."""
        lengths, holes = self.lengths[rows], self.hole_lengths[rows]
        tokens = shards.read(
            self.starts[rows], lengths + holes, width=int((lengths + holes).max()), fill=tokenizer.pad_id
        )
        columns = np.arange(int(lengths.max(initial=0)))
        kept = columns + np.where(columns >= self.hole_starts[rows][:, None], holes[:, None], 0)
        tokens = np.take_along_axis(tokens, np.minimum(kept, tokens.shape[1] - 1), axis=1)
        whole = lengths + 2
        ids = np.full((len(rows), -(-int(whole.max()) // 8) * 8), tokenizer.pad_id, dtype=np.int64)
        ids[:, 0] = tokenizer.cls_id
        ids[:, 1 : 1 + len(columns)] = np.where(columns < lengths[:, None], tokens, tokenizer.pad_id)
        ids[np.arange(len(rows)), whole - 1] = tokenizer.sep_id
        return ids, whole


def rows_with_sentences(shards: TokenShards) -> np.ndarray:
    """The rows, int64 [item], that have two sentences or more behind their title."""
    return np.flatnonzero(np.diff(shards.first_sentence) > 2)


def sample_pairs(
    shards: TokenShards, rows: np.ndarray, settings: Settings, *, seed: int, epoch: int
) -> tuple[tuple[np.ndarray, np.ndarray], Contexts]:
    """A sentence of each row (its start and length), and the text around it: functions of (seed, epoch, row).

    The text has at most `max_tokens` tokens: those nearest to the sentence, as many on both sides where
    the row has them. The sentence is removed from it with `remove_probability`.
    """
    from condenser.data.randomness import uniforms

    draws = uniforms(seed, "inverse cloze", epoch, rows, columns=2)
    first, num_sentences = shards.first_sentence[rows] + 1, np.diff(shards.first_sentence)[rows] - 1
    sentence = first + (draws[:, 0] * num_sentences).astype(np.int64)
    begin, end = shards.sentence_starts[sentence], shards.sentence_starts[sentence + 1]
    text_begin, text_end = shards.sentence_starts[first], shards.row_starts[rows + 1]

    holes = np.where(draws[:, 1] < settings.remove_probability, end - begin, 0)
    sizes = np.minimum(text_end - text_begin, settings.max_tokens + holes)  # with the hole
    starts = np.clip((begin + end - sizes) // 2, text_begin, text_end - sizes)
    contexts = Contexts(starts, sizes - holes, begin - starts, holes, rows)
    return (begin, np.minimum(end - begin, settings.max_sentence_tokens)), contexts


def training(
    initial: Path, shards: TokenShards, tokenizer: Tokenizer, settings: Settings, *, seed: int
) -> Training:
    """The encoder of `initial` and the contrast of sentences with their texts, in-batch negatives."""
    from functools import partial

    from condenser.loss.contrastive import in_batch_loss
    from condenser.model.retriever import Retriever
    from condenser.train.masked_texts import Stretches
    from condenser.train.pretrain import Training

    rows = rows_with_sentences(shards)
    model = Retriever.load(initial, dropout=None)

    def texts(items: Any, epoch: int) -> dict[str, Any]:
        (starts, lengths), contexts = sample_pairs(shards, rows[items], settings, seed=seed, epoch=epoch)
        return {"queries": Stretches(starts, lengths, positions=rows[items]), "passages": contexts}

    return Training(
        model=model,
        num_items=len(rows),
        counts={"texts": len(rows), "texts_of_one_sentence": shards.num_rows - len(rows)},
        texts=texts,
        mask_probability=0.0,
        loss_weights={},
        losses=lambda texts: (model(texts.rows), {}),
        represent=model,
        contrast=partial(in_batch_loss, scale=settings.scale or model.vector.scale),
        gradient_cache=settings.gradient_cache,
        memory_gb=settings.memory_gb,
    )
