"""Losses are computed in float32 or better, under autocast too."""

from __future__ import annotations

import torch
from torch import Tensor


def at_least_float32(values: Tensor) -> Tensor:
    """The values in float32, or unchanged if they are in float64."""
    return values if values.dtype == torch.float64 else values.float()
