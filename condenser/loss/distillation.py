"""Holding a model near the one that it started from, by the similarities of a batch."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from condenser.loss.contrastive import inner_products


def similarity_divergence(
    left: Float[Tensor, "left both"],
    right: Float[Tensor, "right both"] | None,
    *,
    scale: float,
) -> Float[Tensor, ""]:
    """Mean over rows of KL(start || own), each the softmax of a row's scaled similarities to all others.

    The first half of a row's columns is the vector of the model that is trained, the second half that of
    its start. Without `right`, the rows of `left` are held against each other, none against itself.
    Source: distillation of similarities, as Fang et al. 2021 (SEED), with the start as the teacher.

    >>> similarity_divergence(torch.tensor([[1.0, 1.0], [2.0, 2.0]]), torch.ones(2, 2), scale=1.0)
    tensor(0.)
    """
    logs = []
    for own_left, own_right in zip(
        left.chunk(2, dim=1), (left if right is None else right).chunk(2, dim=1), strict=True
    ):
        scores = inner_products(own_left, own_right) * scale
        if right is None:
            itself = torch.eye(len(left), dtype=torch.bool, device=left.device)
            scores = scores.masked_fill(itself, torch.finfo(scores.dtype).min)  # infinity would give NaN
        logs.append(scores.log_softmax(dim=1))
    own, start = logs
    return functional.kl_div(own, start, reduction="batchmean", log_target=True)
