"""The loss of single pairs, against its equation and PyTorch's."""

from __future__ import annotations

import math

import pytest
import torch

from condenser.loss.pointwise import pointwise_loss


def test_loss_and_gradient_are_those_of_the_equation_and_of_pytorch() -> None:
    scores = torch.randn(6, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    is_positive = [True, False, False] * 2
    probabilities = [1 / (1 + math.exp(-score)) for score in scores.flatten().tolist()]
    pairs = list(zip(probabilities, is_positive, strict=True))
    loss = -sum(math.log(p if relevant else 1 - p) for p, relevant in pairs) / 6
    gradient = [(p - relevant) / 6 for p, relevant in pairs]
    ours = scores.clone().requires_grad_(True)
    value = pointwise_loss(ours, passages_per_query=3)
    value.backward()
    assert value.item() == pytest.approx(loss, rel=1e-14)
    assert ours.grad is not None
    assert ours.grad.flatten().tolist() == pytest.approx(gradient, rel=1e-13)

    theirs = scores.clone().requires_grad_(True)
    labels = torch.tensor([[float(relevant)] for relevant in is_positive], dtype=torch.float64)
    torch.nn.BCELoss()(torch.sigmoid(theirs), labels).backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-12, atol=1e-15)


def test_two_outputs_and_a_softmax_are_the_sigmoid_of_their_difference() -> None:
    """RocketQA's and Nogueira and Cho's form."""
    two = torch.randn(4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    theirs = torch.nn.functional.cross_entropy(two, torch.tensor([1, 0, 1, 0]))
    ours = pointwise_loss((two[:, 1] - two[:, 0])[:, None], passages_per_query=2)
    torch.testing.assert_close(ours, theirs, rtol=1e-14, atol=0)


def test_the_best_constant_score_is_the_share_of_positives() -> None:
    """So thresholds are on probabilities among as many negatives as the training has."""
    scores = torch.full((10, 1), math.log(0.2 / 0.8), dtype=torch.float64, requires_grad=True)
    pointwise_loss(scores, passages_per_query=5).backward()
    assert scores.grad is not None
    assert scores.grad.sum().item() == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("num_scores", [0, 5])
def test_scores_that_do_not_divide_among_queries_are_refused(num_scores: int) -> None:
    with pytest.raises(ValueError, match=f"expected 2 of each query, got {num_scores} in all"):
        pointwise_loss(torch.zeros(num_scores, 1), passages_per_query=2)


def test_positives_alone_are_refused() -> None:
    with pytest.raises(ValueError, match=r"passages_per_query: expected at least 2, got 1\. Without a neg"):
        pointwise_loss(torch.zeros(3, 1), passages_per_query=1)


def test_scores_are_in_float32_also_under_autocast() -> None:
    scores = torch.randn(8, 1, generator=torch.Generator().manual_seed(0)).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = pointwise_loss(scores, passages_per_query=4)
    exact = pointwise_loss(scores.float(), passages_per_query=4)
    assert torch.equal(inside, exact) and torch.equal(pointwise_loss(scores, passages_per_query=4), exact)
