"""Contrastive losses over the representations of a whole batch.

In the papers scores are plain inner products: scale 1 and vectors as they are. With vectors of length 1
they are cosines; `scale`, the inverse of a temperature, then spreads them.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from condenser.loss.precision import at_least_float32


def inner_products(left: Tensor, right: Tensor) -> Tensor:
    """Every row of `left` with every row of `right`, in float32 or better."""
    with torch.autocast(left.device.type, enabled=False):  # in bfloat16 the scores would be rounded
        return at_least_float32(left) @ at_least_float32(right).T


def span_contrastive_loss(spans: Float[Tensor, "span dim"], *, scale: float = 1.0) -> Float[Tensor, ""]:
    """Mean cross-entropy of each span against every other span of the batch.

    Spans come in the order d1s1, d1s2, d2s1, ...: the positive of a span is its twin, the other span of
    its document (1, 0, 3, 2, ...). All spans of other documents are negatives.
    Source: coCondenser, eq. 6.

    Raises:
        ValueError: the number of spans is odd or 0.

    >>> span_contrastive_loss(torch.eye(4))  # three candidates, all with score 0: ln 3
    tensor(1.0986)
    """
    num_spans = len(spans)
    if num_spans == 0 or num_spans % 2:
        raise ValueError(f"spans: expected two of each document, got {num_spans} spans.")
    itself = torch.eye(num_spans, dtype=torch.bool, device=spans.device)
    scores = (inner_products(spans, spans) * scale).masked_fill(itself, float("-inf"))
    twins = torch.arange(num_spans, device=spans.device) ^ 1
    return functional.cross_entropy(scores, twins)


def in_batch_loss(
    queries: Float[Tensor, "query dim"], passages: Float[Tensor, "passage dim"], *, scale: float = 1.0
) -> Float[Tensor, ""]:
    """Mean cross-entropy of each query against every passage of the batch.

    The positive of query i is passage i * group, where group = passages per query. All other passages
    are its negatives, also those of the other queries.
    Source: coCondenser, §3.4, and Condenser, A.1 (8 queries with 8 passages each: 64 candidates).

    Raises:
        ValueError: the passages do not divide evenly among the queries.

    >>> in_batch_loss(torch.eye(2), torch.eye(2))
    tensor(0.3133)
    """
    return in_batch_cross_entropy(inner_products(queries, passages) * scale)


def in_batch_cross_entropy(scores: Float[Tensor, "query passage"]) -> Float[Tensor, ""]:
    """Mean cross-entropy of each query's scores of all passages; the positive is the first of its group.

    Raises:
        ValueError: the passages do not divide evenly among the queries.
    """
    num_queries, num_passages = scores.shape
    if num_queries == 0 or num_passages == 0 or num_passages % num_queries:
        raise ValueError(
            f"passages: expected the same number for each of {num_queries} queries, got {num_passages}."
        )
    positives = torch.arange(num_queries, device=scores.device) * (num_passages // num_queries)
    return functional.cross_entropy(scores, positives)
