"""Losses over the passages of a query, against slow versions of their equations and PyTorch's."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import zscore

from condenser.loss.listwise import listwise_kl, localised_contrastive_loss


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


def test_one_passage_of_a_query_is_refused_because_it_would_teach_nothing() -> None:
    for loss in (
        lambda: localised_contrastive_loss(torch.zeros(3, 1), passages_per_query=1),
        lambda: listwise_kl(torch.zeros(3, 1), torch.zeros(3, 1), temperature=1.0),
    ):
        with pytest.raises(ValueError, match=r"passages_per_query: expected at least 2, got 1\. A softmax"):
            loss()


def test_scores_are_compared_in_float32_also_under_autocast() -> None:
    scores = torch.randn(8, 1, generator=torch.Generator().manual_seed(0)).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = localised_contrastive_loss(scores, passages_per_query=4)
    outside = localised_contrastive_loss(scores, passages_per_query=4)
    exact = localised_contrastive_loss(scores.float(), passages_per_query=4)
    assert torch.equal(inside, exact) and torch.equal(outside, exact)


def test_a_divergence_of_scores_in_16_bits_is_computed_in_float32_also_under_autocast() -> None:
    generator = torch.Generator().manual_seed(5)
    student, teacher = (torch.randn(2, 6, generator=generator).bfloat16() for _ in range(2))
    exact = listwise_kl(student.float(), teacher.float(), temperature=0.7)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = listwise_kl(student, teacher, temperature=0.7)
    assert torch.equal(inside, exact)
    for scores in ((student, teacher.float()), (student.float(), teacher)):
        assert torch.equal(listwise_kl(*scores, temperature=0.7), exact)


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
