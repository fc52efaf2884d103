"""The loss of a masked language model."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from condenser.loss.precision import at_least_float32


def masked_cross_entropy_sum(
    logits: Float[Tensor, "masked vocab"], labels: Int[Tensor, " masked"]
) -> Float[Tensor, ""]:
    """Sum of -log p(label) over the masked positions, in float32 or better; 0 for no position.

    A sum and not a mean: the caller divides by the number of masked positions in the whole batch, so
    that the loss does not depend on how the batch is cut into chunks.
    Source: Condenser, eq. 9-11.

    >>> import torch
    >>> masked_cross_entropy_sum(torch.zeros(3, 4), torch.tensor([0, 1, 2]))  # 3 ln 4
    tensor(4.1589)
    """
    return functional.cross_entropy(at_least_float32(logits), labels, reduction="sum")
