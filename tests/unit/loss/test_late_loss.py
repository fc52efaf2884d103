"""MaxSim of a batch and its contrast, against loops over pairs of tokens in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from condenser.loss.late import maxsim_loss, maxsim_scores

QUERIES, PASSAGES, SCALE = [2, 4, 1], [3, 1, 5, 2, 2, 4], 1.7


def texts(counts: list[int], *, seed: int) -> list[Tensor]:
    """The token states of some texts, of length 1."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(sum(counts), 5, dtype=torch.float64, generator=generator)
    return [part.requires_grad_(True) for part in torch.nn.functional.normalize(states, dim=1).split(counts)]


def maxsim_by_loops(query: Tensor, passage: Tensor) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for word in query:
        largest = passage[0] @ word
        for other in passage[1:]:
            if other @ word > largest:
                largest = other @ word
        total = total + largest
    return total


def loss_by_loops(queries: list[Tensor], passages: list[Tensor]) -> Tensor:
    group, total = len(passages) // len(queries), torch.zeros((), dtype=torch.float64)
    for number, query in enumerate(queries):
        odds = [(SCALE * maxsim_by_loops(query, passage)).exp() for passage in passages]
        total = total - (odds[number * group] / torch.stack(odds).sum()).log()
    return total / len(queries)


def counts() -> dict[str, Tensor]:
    return {"query_counts": torch.tensor(QUERIES), "passage_counts": torch.tensor(PASSAGES)}


def test_scores_loss_and_gradients_are_those_of_loops_over_tokens() -> None:
    queries, passages = texts(QUERIES, seed=1), texts(PASSAGES, seed=2)
    expected = torch.stack([torch.stack([maxsim_by_loops(q, p) for p in passages]) for q in queries])
    together = torch.cat(queries), torch.cat(passages)
    torch.testing.assert_close(maxsim_scores(*together, **counts()), expected)
    loss = maxsim_loss(*together, **counts(), scale=SCALE)
    by_loops = loss_by_loops(queries, passages)
    torch.testing.assert_close(loss, by_loops)
    ours = torch.autograd.grad(loss, [*queries, *passages])
    theirs = torch.autograd.grad(by_loops, [*queries, *passages])
    torch.testing.assert_close(ours, theirs)
    assert all(gradient.abs().max() > 0 for gradient in ours[: len(queries)])


def test_a_best_cosine_below_zero_counts_as_it_is() -> None:
    query, passage = torch.tensor([[1.0, 0.0]]), torch.tensor([[-1.0, 0.0], [-0.6, 0.8]])
    one, two = torch.tensor([1]), torch.tensor([2])
    assert maxsim_scores(query, passage, query_counts=one, passage_counts=two).item() == pytest.approx(-0.6)


def test_each_of_two_equal_passages_is_a_guess_of_one_in_two() -> None:
    query, passages = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.6, 0.8], [0.6, 0.8]])
    given = {"query_counts": torch.tensor([1]), "passage_counts": torch.tensor([1, 1])}
    assert maxsim_loss(query, passages, **given, scale=9.0).item() == pytest.approx(math.log(2))


def test_passages_that_do_not_divide_among_the_queries_are_refused() -> None:
    given = {"query_counts": torch.tensor([1, 1]), "passage_counts": torch.tensor([1, 1, 1])}
    with pytest.raises(ValueError, match="the same number for each of 2 queries, got 3"):
        maxsim_loss(torch.eye(2), torch.eye(3, 2), **given, scale=1.0)
