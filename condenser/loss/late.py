"""The contrast of MaxSim scores: late interaction over the token states of a whole batch.

Its score of a pair is that of `condenser.retrieve.late.maxsim`.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from condenser.loss.contrastive import in_batch_cross_entropy, inner_products


def maxsim_scores(
    queries: Float[Tensor, "query_token dim"],
    passages: Float[Tensor, "token dim"],
    *,
    query_counts: Int64[Tensor, " query"],
    passage_counts: Int64[Tensor, " passage"],
    meets: Bool[Tensor, "token query_token"] | None = None,
) -> Float[Tensor, "query passage"]:
    """The sum over a query's tokens of the largest inner product with a token of the passage.

    The tokens of texts stand end to end, without padding: `counts` of each. All products are in memory at
    once, query_token x token of them. With `meets` only such tokens meet; a token of a query that meets none
    of a passage adds 0, and learns nothing from it.
    Source: Khattab and Zaharia 2020 (ColBERT), §3.3; of equal tokens Gao et al. 2021 (COIL), §3.2.

    >>> tokens, counts = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), torch.tensor([2, 1])
    >>> maxsim_scores(tokens, tokens, query_counts=counts, passage_counts=counts)
    tensor([[2.0000, 0.8000],
            [0.8000, 1.0000]])
    """
    products = inner_products(passages, queries)
    if meets is not None:
        products = products.masked_fill(~meets, -torch.inf)
    largest = torch.segment_reduce(products, "max", lengths=passage_counts)
    if meets is not None:
        largest = largest.masked_fill(largest.isneginf(), 0)
    return torch.segment_reduce(largest.T.contiguous(), "sum", lengths=query_counts)


def maxsim_loss(
    queries: Float[Tensor, "query_token dim"],
    passages: Float[Tensor, "token dim"],
    *,
    query_counts: Int64[Tensor, " query"],
    passage_counts: Int64[Tensor, " passage"],
    scale: float,
    meets: Bool[Tensor, "token query_token"] | None = None,
) -> Float[Tensor, ""]:
    """Mean cross-entropy of each query against every passage of the batch, by their `maxsim_scores`.

    The positive of query i is passage i * group, as in `condenser.loss.contrastive.in_batch_loss`. ColBERT
    (§3.3) contrasts a query with one negative; the passages of other queries are added in ColBERTv2
    (Santhanam et al. 2022, §3.2).

    Raises:
        ValueError: the passages do not divide evenly among the queries.
    """
    scores = maxsim_scores(
        queries, passages, query_counts=query_counts, passage_counts=passage_counts, meets=meets
    )
    return in_batch_cross_entropy(scores * scale)
