"""Condenser pre-training: masked words are predicted from the text's vector and the early token states.

Source: Condenser, §3 and §4.1, eq. 8-11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from condenser.settings import Count, NotNegative, Pretraining, Share, Whole

if TYPE_CHECKING:
    from condenser.data.tokens import Tokenizer, TokenShards
    from condenser.train.pretrain import Training


class Settings(Pretraining):
    """The head's shape and the blocks of text that it learns from."""

    skip_from: Whole
    num_head_layers: Count
    late_mlm_weight: NotNegative
    max_tokens: Annotated[int, Field(ge=1, le=510)]
    short_probability: Share
    mask_probability: Share


def longest_row(settings: Mapping[str, Any]) -> tuple[str, int]:
    """The key that bounds a text, and its tokens without specials."""
    return "max_tokens", settings["max_tokens"]


def check(settings: Mapping[str, Any], *, num_layers: int) -> None:
    """Refuse early layers that the backbone does not have.

    Raises:
        ValueError: `skip_from` is no layer below the last.
    """
    if settings["skip_from"] >= num_layers:
        raise ValueError(
            f"skip_from: expected at most {num_layers - 1} (the backbone's layers less one), "
            f"got {settings['skip_from']}."
        )


def training(
    initial: Path, shards: TokenShards, tokenizer: Tokenizer, settings: Mapping[str, Any], *, seed: int
) -> Training:
    """The Condenser of `initial`, with a new head where it has none, and its two MLM losses.

    The loss is the head's masked language modelling loss plus `late_mlm_weight` times the last
    layer's, each the mean over all masked tokens of the whole batch (eq. 11).
    """
    from functools import partial

    from condenser.data.blocks import block_windows, pack_blocks
    from condenser.model.pretraining import Condenser
    from condenser.train.masked_texts import Stretches
    from condenser.train.pretrain import Training, condenser_losses

    blocks = pack_blocks(
        shards,
        max_tokens=settings["max_tokens"],
        short_probability=settings["short_probability"],
        seed=seed,
    )
    model = Condenser.load(
        initial,
        num_head_layers=settings["num_head_layers"],
        skip_from=settings["skip_from"],
        use_late_mlm=settings["late_mlm_weight"] > 0,
        missing_head="random",
        seed=seed,
        dropout=None,
    )

    def texts(items: Any, epoch: int) -> dict[str, Stretches]:
        starts, lengths = block_windows(
            blocks, items, max_tokens=settings["max_tokens"], seed=seed, epoch=epoch
        )
        return {"blocks": Stretches(starts, lengths, positions=items)}

    return Training(
        model=model,
        num_items=len(blocks),
        counts={
            "rows_without_text": blocks.num_empty_rows,
            "blocks": len(blocks),
            "blocks_cut_to_a_window": blocks.num_long,
        },
        texts=texts,
        mask_probability=settings["mask_probability"],
        loss_weights={"head_mlm": 1.0, "late_mlm": settings["late_mlm_weight"]},
        losses=partial(condenser_losses, model),
    )


def cost(job: Any, data: Any) -> dict[str, Any]:
    """What the training takes (`condenser.pipeline.costs.stages`)."""
    import numpy as np

    from condenser.data.blocks import pack_blocks

    settings, texts = job.config["model"], data.passages(job)
    model = replace(data.shape(job), num_head_layers=settings["num_head_layers"])
    blocks = pack_blocks(
        texts,
        max_tokens=settings["max_tokens"],
        short_probability=settings["short_probability"],
        seed=job.config["seed"],
    )
    return model.training(
        settings,
        [(1, np.minimum(blocks.lengths, settings["max_tokens"]) + 2)],
        lambda chunk: model.condenser_flops(chunk, use_late_mlm=settings["late_mlm_weight"] > 0),
        num_items=texts.weight * len(blocks),
        mask_probability=settings["mask_probability"],
    )
