"""The loss of single pairs: is this passage relevant to this query, or not?"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from condenser.loss.precision import at_least_float32


def pointwise_loss(scores: Float[Tensor, "pair 1"], *, passages_per_query: int) -> Float[Tensor, ""]:
    """Mean binary cross-entropy of the pairs, whose scores are logits of relevance.

    The passages of a query stand together; the first is relevant, the others are not. So the sigmoid of a
    score is a probability, among as many negatives for each positive as the training has.
    Source: Nogueira and Cho 2019, "Passage Re-ranking with BERT", eq. 1, and RocketQA's cross-encoder (Qu et
    al. 2021). Both have two outputs and a softmax, which is the sigmoid of their difference.

    Raises:
        ValueError: the pairs do not divide evenly among the queries, or none is a negative.

    >>> pointwise_loss(torch.zeros(4, 1), passages_per_query=2)  # ln 2
    tensor(0.6931)
    """
    if passages_per_query < 2:
        raise ValueError(
            f"passages_per_query: expected at least 2, got {passages_per_query}. Without a negative every "
            "pair is relevant: raise it in the recipe of the system."
        )
    if len(scores) == 0 or len(scores) % passages_per_query:
        raise ValueError(f"scores: expected {passages_per_query} of each query, got {len(scores)} in all.")
    logits = at_least_float32(scores)
    is_positive = torch.arange(len(scores), device=scores.device) % passages_per_query == 0
    return functional.binary_cross_entropy_with_logits(logits[:, 0], is_positive.to(logits.dtype))
