"""Condenser pre-training: masked words are predicted from the text's vector and the early token states.

Source: Condenser, §3 and §4.1, eq. 8-11.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from condenser.objectives import mlm
from condenser.settings import Count, NotNegative, Whole

if TYPE_CHECKING:
    from condenser.data.tokens import Tokenizer, TokenShards
    from condenser.train.pretrain import Training


class Settings(mlm.Settings):
    """The head's shape, and the blocks of text that it learns from; `skip_from` null: half of the layers.

    With all layers as `skip_from` the head reads the late states of all tokens: a head without the skip.
    """

    skip_from: Whole | None
    num_head_layers: Count
    late_mlm_weight: NotNegative

    def check(self, *, num_layers: int) -> None:
        """Refuse early layers that the backbone does not have.

        Raises:
            ValueError: the backbone has no layer `skip_from`.
        """
        if self.skip_from is not None and self.skip_from > num_layers:
            raise ValueError(
                f"skip_from: expected at most {num_layers} (the backbone's layers), got {self.skip_from}."
            )


def training(
    initial: Path, shards: TokenShards, tokenizer: Tokenizer, settings: Settings, *, seed: int
) -> Training:
    """The Condenser of `initial`, with a new head where it has none, and its two MLM losses.

    The loss is the head's masked language modelling loss plus `late_mlm_weight` times the last
    layer's (eq. 11), each the mean over all masked tokens of the whole batch; eq. 9 and 10 are sums.
    """
    from condenser.model.pretraining import Condenser
    from condenser.train.pretrain import condenser_losses

    model = Condenser.load(
        initial,
        num_head_layers=settings.num_head_layers,
        skip_from=settings.skip_from,
        use_late_mlm=settings.late_mlm_weight > 0,
        missing_head="random",
        seed=seed,
        dropout=None,
    )
    return mlm.train_on_blocks(
        shards,
        settings,
        seed=seed,
        model=model,
        loss_weights={"head_mlm": 1.0, "late_mlm": settings.late_mlm_weight},
        losses=partial(condenser_losses, model),
    )
