"""Means of weights: of what was trained with its start, and of several trainings."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def copied_weights(model: nn.Module) -> dict[str, Tensor]:
    """A copy of each weight of a model, by name."""
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


@torch.no_grad()
def mix_in(model: nn.Module, others: Mapping[str, Tensor], *, share: float) -> None:
    """Replace each weight of a model by (1 - share) x itself + share x the other weight of its name.

    With the weights that a training started from, this keeps more of what they knew than the training alone.
    Source: WiSE-FT (Wortsman et al. 2022).
    """
    for name, weight in model.named_parameters():
        weight.copy_(torch.lerp(weight, others[name].to(weight), share))
