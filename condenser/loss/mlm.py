"""The loss of a masked language model."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from condenser.loss.precision import at_least_float32

_ROWS_AT_ONCE = 16  # of a vocabulary of 30,522 words in float32, these fit into a core's cache


def masked_cross_entropy_sum(
    logits: Float[Tensor, "masked_and_more vocab"], labels: Int[Tensor, " masked"]
) -> Float[Tensor, ""]:
    """Sum of -log p(label) over the masked positions, in float32 or better; 0 for no position.

    Logits behind those of the labels do not count.

    A sum and not a mean: the caller divides by the number of masked positions in the whole batch, so
    that the loss does not depend on how the batch is cut into chunks.
    Source: Condenser, eq. 9-11.

    >>> import torch
    >>> masked_cross_entropy_sum(torch.zeros(3, 4), torch.tensor([0, 1, 2]))  # 3 ln 4
    tensor(4.1589)
    """
    if logits.device.type != "cpu":
        return functional.cross_entropy(at_least_float32(logits[: len(labels)]), labels, reduction="sum")
    loss: Tensor = _CrossEntropySum.apply(logits, labels)
    return loss


class _CrossEntropySum(torch.autograd.Function):
    """Some rows at a time, whose gradient is computed at once: numbers in float32 never leave the cache."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        gradient, losses = torch.empty_like(logits), []
        gradient[len(labels) :].zero_()
        parts = (each[: len(labels)].split(_ROWS_AT_ONCE) for each in (logits, labels, gradient))
        for scores, words, of_scores in zip(*parts, strict=True):
            log_shares = torch.log_softmax(at_least_float32(scores), dim=-1)
            losses.append(-log_shares.gather(1, words[:, None]).sum())
            shares = log_shares.exp_()
            shares.scatter_add_(1, words[:, None], -torch.ones_like(shares[:, :1]))
            of_scores.copy_(shares)
        ctx.save_for_backward(gradient)
        return torch.stack(losses).sum()

    @staticmethod
    def backward(ctx: Any, of_loss: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * of_loss.to(gradient.dtype), None
