"""Dropout that is fast on a CPU.

PyTorch's dropout on a CPU draws one random number for each value, which takes a sixth of a fine-tuning step.
Here a number of 64 bits serves four values. On a GPU, dropout is PyTorch's own.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int16
from torch import Tensor
from torch.nn import functional

_LEVELS = 1 << 15
"""On a CPU a probability is rounded to a multiple of 1 / this."""

_ONE = {torch.bfloat16: 0x3F80, torch.float16: 0x3C00}  # the bits of 1.0


def dropout(values: Float[Tensor, "*rows dim"], probability: float) -> Float[Tensor, "*rows dim"]:
    """Zero each value with this probability, and scale the others up to keep the mean."""
    if not is_drawn_here(values, probability):
        return functional.dropout(values, probability)
    return values * _ones_kept(values, probability) * kept_scale(probability)


def add_dropped(
    states: Float[Tensor, "*rows dim"], values: Float[Tensor, "*rows dim"], probability: float
) -> Float[Tensor, "*rows dim"]:
    """`states` plus the values after dropout, in the precision of `states`."""
    if not is_drawn_here(values, probability):
        return states + functional.dropout(values, probability)
    total: Tensor = _AddDropped.apply(states, values, probability)
    return total


def is_drawn_here(values: Tensor, probability: float) -> bool:
    """Whether dropout of these values is this module's: on a CPU, unless next to nothing is dropped."""
    return values.device.type == "cpu" and round(probability * _LEVELS) > 0


def kept_scale(probability: float) -> float:
    """What the values that stay are multiplied by, for the probability as it is rounded."""
    return _LEVELS / (_LEVELS - round(probability * _LEVELS))


def dropped_signs(count: int, probability: float) -> Int16[Tensor, " {count}"]:
    """The lowest number of int16, which is its sign alone, with this probability, else 0; `count` times."""
    # of an even and an odd number, the last bit becomes the sign
    return _draws(count, _least_kept(probability)).mul_(-_LEVELS)


def _ones_kept(values: Tensor, probability: float) -> Tensor:
    """1 where a value is kept, 0 where it is dropped, in the type of the values."""
    least, one = _least_kept(probability), _ONE.get(values.dtype)
    kept = _draws(values.numel(), least).sub_(least - 1).view(values.shape)
    return kept.to(values.dtype) if one is None else kept.mul_(one).view(values.dtype)


def _least_kept(probability: float) -> int:
    """The least number of int16 that keeps a value; even."""
    return 2 * (round(probability * _LEVELS) - _LEVELS // 2)


def _draws(count: int, least: int) -> Tensor:
    """int16 numbers: `least`, or `least` - 1 with the probability of a draw below it.

    These operations in place are vectorised on a CPU; comparisons and masked_fill are not.
    """
    draws = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    return draws.view(torch.int16)[:count].clamp_(least - 1, least)


class _AddDropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, values: Tensor, probability: float) -> Tensor:
        kept = _ones_kept(values, probability)
        ctx.save_for_backward(kept)
        ctx.scale = kept_scale(probability)
        return torch.add(states, (values * kept).to(states.dtype), alpha=ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (kept,) = ctx.saved_tensors
        return gradient, (gradient * ctx.scale).to(kept.dtype).mul_(kept), None
