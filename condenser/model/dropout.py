"""Faster dropout on a CPU, and attention that uses it.

PyTorch's dropout on a CPU draws one random number for each value, which takes a sixth of a fine-tuning
step. Here one draw serves four values. On a GPU, dropout and attention are PyTorch's own.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

_LEVELS = 1 << 16  # a probability is rounded to a multiple of 1 / this


class Dropout(nn.Dropout):
    """`nn.Dropout`, faster on a CPU; like there, the random numbers come from PyTorch's generator."""

    def forward(self, input: Tensor) -> Tensor:
        """`dropout` with probability `p` in training; the input itself otherwise."""
        return dropout(input, self.p if self.training else 0.0)


def dropout(values: Float[Tensor, "..."], probability: float) -> Float[Tensor, "..."]:
    """Zero each value with this probability, and scale the others up to keep the mean.

    On a CPU the probability is rounded to a multiple of 1/65,536.
    """
    if probability == 0.0:
        return values
    if values.device.type != "cpu" or not 1 <= round(probability * _LEVELS) < _LEVELS:
        return functional.dropout(values, probability)
    return _Dropout.apply(values, round(probability * _LEVELS))


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, level: int) -> Tensor:
        count, least = values.numel(), level - _LEVELS // 2  # of the draws that keep a value
        draws = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
        # 1 keeps, 0 drops. These are all vectorised on a CPU, comparisons and masked_fill are not
        kept = draws.view(torch.int16)[:count].clamp_(least - 1, least).sub_(least - 1).view(values.shape)
        ctx.save_for_backward(kept)
        ctx.scale = _LEVELS / (_LEVELS - level)
        return (values * kept).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return (gradient * kept).mul_(ctx.scale), None


def attention(
    queries: Float[Tensor, "row head query dim"],
    keys: Float[Tensor, "row head token dim"],
    values: Float[Tensor, "row head token dim"],
    mask: Bool[Tensor, "row 1 _ token"] | None,
    *,
    scale: float,
    probability: float,
) -> Float[Tensor, "row head query dim"]:
    """Scaled dot-product attention with dropout; `mask` is True at the tokens to attend to."""
    if probability == 0.0 or queries.device.type != "cpu":
        return functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, dropout_p=probability, scale=scale
        )
    scores = (queries * scale) @ keys.transpose(-1, -2)
    if mask is not None:
        hidden = torch.zeros(mask.shape, dtype=scores.dtype)
        scores.add_(hidden.masked_fill_(~mask, torch.finfo(scores.dtype).min))
    return dropout(torch.softmax(scores, dim=-1), probability) @ values


def use_quick_dropout(model: nn.Module) -> None:
    """Replace every `nn.Dropout` of a BERT by `Dropout`."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, Dropout(child.p).train(child.training))
