"""Unsupervised SimCSE: a passage, encoded twice with different dropout, is its own positive.

Source: Gao et al. 2021, "SimCSE: Simple Contrastive Learning of Sentence Embeddings", eq. 1 and 4.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from condenser.nouns import Pretraining
from condenser.settings import Positive

if TYPE_CHECKING:
    from condenser.data.tokens import Tokenizer, TokenShards
    from condenser.train.pretrain import Training


class Settings(Pretraining):
    """Texts are cut to `max_tokens`; cosines are divided by `temperature`."""

    max_tokens: Annotated[int, Field(ge=1, le=510)]
    temperature: Positive
    gradient_cache: Literal["auto", "always", "never"]
    memory_gb: Positive

    @property
    def longest_row(self) -> tuple[str, int]:
        """The key that bounds a text, and its tokens without specials."""
        return "max_tokens", self.max_tokens


def training(
    initial: Path, shards: TokenShards, tokenizer: Tokenizer, settings: Settings, *, seed: int
) -> Training:
    """The encoder of `initial`, and the contrast of two encodings of each passage of a batch."""
    import numpy as np
    from torch.nn.functional import normalize

    from condenser.data.batches import row_windows
    from condenser.loss.contrastive import in_batch_loss
    from condenser.loss.precision import at_least_float32
    from condenser.model.retriever import Retriever
    from condenser.train.masked_texts import Stretches
    from condenser.train.pretrain import Training

    model = Retriever.load(initial, dropout=None)

    def texts(items, epoch):  # twice in one chunk: dropout differs from row to row
        rows = np.repeat(items, 2)
        starts, lengths = row_windows(shards, rows, max_tokens=settings.max_tokens + 2)
        return {"passages": Stretches(starts, lengths, positions=rows)}

    def contrast(passages):
        vectors = normalize(at_least_float32(passages), dim=1)
        return in_batch_loss(vectors[0::2] / settings.temperature, vectors[1::2])

    return Training(
        model=model,
        num_items=shards.num_rows,
        counts={},
        texts=texts,
        mask_probability=0.0,
        loss_weights={},
        losses=lambda texts: (model(texts.rows), {}),
        represent=model,
        contrast=contrast,
        gradient_cache=settings.gradient_cache,
        memory_gb=settings.memory_gb,
    )
