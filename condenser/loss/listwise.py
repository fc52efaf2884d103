"""Losses over the passages of one query: a positive beside negatives, or a teacher's scores."""

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
        ValueError: the pairs do not divide evenly among the queries, or a query has one.

    >>> localised_contrastive_loss(torch.zeros(4, 1), passages_per_query=2)  # ln 2
    tensor(0.6931)
    """
    of_query = _scores_by_query(scores, passages_per_query)
    positives = torch.zeros(len(of_query), dtype=torch.int64, device=scores.device)
    return functional.cross_entropy(of_query, positives)


def pointwise_loss(scores: Float[Tensor, "pair 1"], *, passages_per_query: int) -> Float[Tensor, ""]:
    """Mean binary cross-entropy of the pairs, whose scores are logits of relevance.

    The first passage of a query is relevant, the others are not. So the sigmoid of a score is a probability,
    among as many negatives for each positive as the training has.
    Source: Nogueira and Cho 2019, "Passage Re-ranking with BERT", eq. 1, and RocketQA's cross-encoder (Qu et
    al. 2021). Both have two outputs and a softmax, which is the sigmoid of their difference.

    Raises:
        ValueError: the pairs do not divide evenly among the queries, or a query has one.

    >>> pointwise_loss(torch.zeros(4, 1), passages_per_query=2)  # ln 2
    tensor(0.6931)
    """
    of_query = _scores_by_query(scores, passages_per_query)
    is_positive = torch.zeros_like(of_query)
    is_positive[:, 0] = 1
    return functional.binary_cross_entropy_with_logits(of_query, is_positive)


def _scores_by_query(scores: Tensor, passages_per_query: int) -> Float[Tensor, "query passage"]:
    _refuse_one_passage(passages_per_query)
    if len(scores) == 0 or len(scores) % passages_per_query:
        raise ValueError(f"scores: expected {passages_per_query} of each query, got {len(scores)} in all.")
    return at_least_float32(scores).view(-1, passages_per_query)


def listwise_kl(
    student_scores: Float[Tensor, "query passage"],
    teacher_scores: Float[Tensor, "query passage"],
    *,
    temperature: float,
) -> Float[Tensor, ""]:
    """Mean over queries of the Kullback-Leibler divergence of the student's softmax from the teacher's.

    The teacher's scores are standardised within a query (mean 0, standard deviation 1; all 0 where they are
    equal) and divided by `temperature`, so that teachers of any scale teach alike. The student's are taken as
    they are: its own temperature is in them.
    Source: Hinton et al. 2015, "Distilling the Knowledge in a Neural Network", eq. 1; over lists of passages:
    Cao et al. 2007 (ListNet). The standard scores are ours.

    Raises:
        ValueError: a query has one passage.

    >>> listwise_kl(torch.zeros(1, 2), torch.tensor([[5.0, 7.0]]), temperature=1.0)  # softmax(-1, 1)
    tensor(0.3278)
    """
    _refuse_one_passage(student_scores.shape[1])
    student, teacher = at_least_float32(student_scores), at_least_float32(teacher_scores)
    centred = teacher - teacher.mean(dim=1, keepdim=True)
    deviation = centred.square().mean(dim=1, keepdim=True).sqrt()
    standard = centred / deviation.where(deviation > 0, 1)
    log_target = functional.log_softmax(standard / temperature, dim=1)
    log_student = functional.log_softmax(student, dim=1)
    return (log_target.exp() * (log_target - log_student)).sum(dim=1).mean()


def _refuse_one_passage(passages_per_query: int) -> None:
    if passages_per_query < 2:
        raise ValueError(
            f"passages_per_query: expected at least 2, got {passages_per_query}. Without a negative there is "
            "nothing to learn: raise it in the recipe of the system."
        )
