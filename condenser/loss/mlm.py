"""The masked language model's loss."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from condenser.loss.precision import at_least_float32


def masked_cross_entropy_sum(
    logits: Float[Tensor, "masked vocab"], labels: Int[Tensor, " masked"]
) -> Float[Tensor, ""]:
    """Sum over the masked positions of -log p(label), in float32 whatever the logits are.

    A sum, not a mean: the caller divides by the masked positions of the whole batch, so that a
    batch cut into chunks has the loss of the batch in one piece. No position gives 0.
    Source: Condenser, eq. 9-11.

    >>> import torch
    >>> masked_cross_entropy_sum(torch.zeros(3, 4), torch.tensor([0, 1, 2]))  # 3 ln 4
    tensor(4.1589)
    """
    return functional.cross_entropy(at_least_float32(logits), labels, reduction="sum")
