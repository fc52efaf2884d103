"""Masked language modelling alone: the baseline of adapting a model to a collection.

The Condenser trains on the same blocks of text (`train_on_blocks`).

Source: BERT (Devlin et al. 2019) with the Condenser's data: blocks, whole-word masks (Condenser, §4.1).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from condenser.nouns import Pretraining
from condenser.settings import Share

if TYPE_CHECKING:
    from condenser.data.tokens import Tokenizer, TokenShards
    from condenser.train.masked_texts import MaskedRows
    from condenser.train.pretrain import Training


class Settings(Pretraining):
    """The blocks of text and their masks."""

    max_tokens: Annotated[int, Field(ge=1, le=510)]
    short_probability: Share
    mask_probability: Share

    @property
    def longest_row(self) -> tuple[str, int]:
        return "max_tokens", self.max_tokens


def training(
    initial: Path, shards: TokenShards, tokenizer: Tokenizer, settings: Settings, *, seed: int
) -> Training:
    """The model of `initial` and the loss of its last layer at the masked positions.

    The loss is the mean over all masked tokens of the whole batch.
    """
    from condenser.loss.mlm import masked_cross_entropy_sum
    from condenser.model.masked_language import MaskedLanguageModel

    model = MaskedLanguageModel.load(initial, dropout=None)

    def losses(texts: MaskedRows) -> tuple[None, dict[str, Any]]:
        logits = model(texts.rows, texts.masked)
        return None, {"mlm": masked_cross_entropy_sum(logits, texts.labels)}

    return train_on_blocks(shards, settings, seed=seed, model=model, loss_weights={"mlm": 1.0}, losses=losses)


def train_on_blocks(
    shards: TokenShards, settings: Settings, *, seed: int, **model_and_losses: Any
) -> Training:
    """The training of a model on blocks of text, each masked anew in every epoch."""
    from condenser.data.blocks import block_windows, pack_blocks
    from condenser.train.masked_texts import Stretches
    from condenser.train.pretrain import Training

    blocks = pack_blocks(
        shards,
        max_tokens=settings.max_tokens,
        short_probability=settings.short_probability,
        seed=seed,
    )

    def texts(items: Any, epoch: int) -> dict[str, Stretches]:
        starts, lengths = block_windows(blocks, items, max_tokens=settings.max_tokens, seed=seed, epoch=epoch)
        return {"blocks": Stretches(starts, lengths, positions=items)}

    return Training(
        num_items=len(blocks),
        counts={
            "rows_without_text": blocks.num_empty_rows,
            "blocks": len(blocks),
            "blocks_cut_to_a_window": blocks.num_long,
        },
        texts=texts,
        mask_probability=settings.mask_probability,
        **model_and_losses,
    )
