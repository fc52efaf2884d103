"""The loss of a reranker against a slow version of its equation."""

from __future__ import annotations

import math

import pytest
import torch

from condenser.loss.listwise import localised_contrastive_loss


def test_loss_and_gradient_are_those_of_a_softmax_over_each_querys_own_passages() -> None:
    scores = torch.randn(6, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    values = scores.flatten().tolist()
    loss, gradient = 0.0, []
    for first in (0, 3):  # two queries of three passages
        total = sum(math.exp(value) for value in values[first : first + 3])
        loss -= math.log(math.exp(values[first]) / total) / 2
        for place in range(first, first + 3):
            gradient.append((math.exp(values[place]) / total - (place == first)) / 2)
    scores.requires_grad_(True)
    ours = localised_contrastive_loss(scores, passages_per_query=3)
    ours.backward()
    assert ours.item() == pytest.approx(loss, rel=1e-14)
    assert scores.grad is not None
    assert scores.grad.flatten().tolist() == pytest.approx(gradient, rel=1e-13)


def test_another_querys_passages_change_nothing() -> None:
    scores = torch.tensor([[1.0], [0.5], [2.0], [7.0]])
    alone = [localised_contrastive_loss(scores[rows], passages_per_query=2) for rows in ([0, 1], [2, 3])]
    together = localised_contrastive_loss(scores, passages_per_query=2)
    assert together.item() == pytest.approx(sum(alone).item() / 2)


@pytest.mark.parametrize("num_scores", [0, 5])
def test_scores_that_do_not_divide_among_queries_are_refused(num_scores: int) -> None:
    with pytest.raises(ValueError, match=f"expected 2 of each query, got {num_scores} in all"):
        localised_contrastive_loss(torch.zeros(num_scores, 1), passages_per_query=2)


def test_scores_are_compared_in_float32_also_under_autocast() -> None:
    scores = torch.randn(8, 1, generator=torch.Generator().manual_seed(0)).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = localised_contrastive_loss(scores, passages_per_query=4)
    outside = localised_contrastive_loss(scores, passages_per_query=4)
    exact = localised_contrastive_loss(scores.float(), passages_per_query=4)
    assert torch.equal(inside, exact) and torch.equal(outside, exact)
