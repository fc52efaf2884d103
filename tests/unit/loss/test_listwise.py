"""Losses over the passages of a query, against slow versions of their equations and PyTorch's."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import zscore

from condenser.loss.listwise import listwise_kl, localised_contrastive_loss, pointwise_loss


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


def test_a_divergence_worked_by_hand() -> None:
    """Standard scores of (3, 1): (1, -1); over 2: (0.5, -0.5); the student says 1/2 and 1/2."""
    first = math.exp(0.5) / (math.exp(0.5) + math.exp(-0.5))
    expected = first * math.log(2 * first) + (1 - first) * math.log(2 * (1 - first))
    ours = listwise_kl(torch.zeros(1, 2), torch.tensor([[3.0, 1.0]]), temperature=2.0)
    assert ours.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_the_divergence_is_that_of_pytorch_from_standard_scores(temperature: float) -> None:
    random = torch.Generator().manual_seed(3)
    student = torch.randn(5, 8, dtype=torch.float64, generator=random, requires_grad=True)
    teacher = 7 + 3 * torch.randn(5, 8, dtype=torch.float64, generator=random)
    standard = torch.from_numpy(zscore(teacher.numpy(), axis=1)) / temperature
    theirs = torch.nn.KLDivLoss(reduction="batchmean", log_target=True)(
        torch.log_softmax(student, dim=1), torch.log_softmax(standard, dim=1)
    )
    ours = listwise_kl(student, teacher, temperature=temperature)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-12)
    (gradient,) = torch.autograd.grad(ours, student)
    expected = (torch.softmax(student, dim=1) - torch.softmax(standard, dim=1)) / 5
    torch.testing.assert_close(gradient, expected.detach(), rtol=1e-10, atol=1e-14)


def test_a_teacher_of_another_scale_teaches_the_same_and_one_of_equal_scores_an_even_spread() -> None:
    student, teacher = torch.tensor([[0.3, 2.0, -1.0]]), torch.tensor([[0.9, 0.5, 0.1]])
    ours = listwise_kl(student, teacher, temperature=1.0)
    for scaled in (50 * teacher - 8, 0.001 * teacher):
        torch.testing.assert_close(listwise_kl(student, scaled, temperature=1.0), ours)
    assert listwise_kl(torch.zeros(1, 3), torch.full((1, 3), 4.0), temperature=1.0).item() == 0.0
    assert listwise_kl(student, torch.full((1, 3), 4.0), temperature=1.0).item() > 0.1
