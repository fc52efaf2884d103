"""The loss of a reranker: its positive against the negatives of the same query."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from condenser.loss.precision import at_least_float32


def localised_contrastive_loss(
    scores: Float[Tensor, "pair 1"], *, passages_per_query: int
) -> Float[Tensor, ""]:
    """Mean cross-entropy of each query's positive against its own negatives, by a softmax of their scores.

    The passages of a query stand together, the positive first. Unlike a bi-encoder's loss, a query has no
    negatives of other queries: each would be a pass through the network more.
    Source: Gao et al. 2021, "Rethink Training of BERT Rerankers in Multi-Rule Retrieval Pipeline", the
    localised contrastive estimate; "localised" since the negatives come from the retriever's first ranks.

    Raises:
        ValueError: the pairs do not divide evenly among the queries.

    >>> localised_contrastive_loss(torch.zeros(4, 1), passages_per_query=2)  # ln 2
    tensor(0.6931)
    """
    if len(scores) == 0 or len(scores) % passages_per_query:
        raise ValueError(f"scores: expected {passages_per_query} of each query, got {len(scores)} in all.")
    of_query = at_least_float32(scores).view(-1, passages_per_query)
    positives = torch.zeros(len(of_query), dtype=torch.int64, device=scores.device)
    return functional.cross_entropy(of_query, positives)
