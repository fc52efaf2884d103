"""MaxSim of a batch and its contrast, against loops over pairs of tokens in float64."""

from __future__ import annotations

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


def score_by_loops(query: Tensor, passage: Tensor, asked: list[int], words: list[int]) -> Tensor:
    """Only equal words meet."""
    total = torch.zeros((), dtype=torch.float64)
    for state, word in zip(query, asked, strict=True):
        met = [other @ state for other, theirs in zip(passage, words, strict=True) if theirs == word]
        if met:
            largest = met[0]
            for product in met[1:]:
                if product > largest:
                    largest = product
            total = total + largest
    return total


def loss_by_loops(scores: Tensor) -> Tensor:
    """Of the scores of each query and each passage."""
    (num_queries, num_passages), total = scores.shape, torch.zeros((), dtype=torch.float64)
    for number, of_query in enumerate(scores):
        odds = (SCALE * of_query).exp()
        total = total - (odds[number * num_passages // num_queries] / odds.sum()).log()
    return total / num_queries


@pytest.mark.parametrize("is_exact", [False, True])
def test_scores_loss_and_gradients_are_those_of_loops_over_tokens(is_exact: bool) -> None:
    """Where equal words alone meet, the last query has one of no passage: it adds and learns nothing.

    The states are of length 3: products below 0 count, too.
    """
    asked = [[1, 3], [3, 2, 2, 4], [9]] if is_exact else [[0] * count for count in QUERIES]
    words = (
        [[1, 2, 1], [3], [4, 2, 3, 3, 1], [2, 2], [5, 1], [1, 1, 1, 3]]
        if is_exact
        else [[0] * count for count in PASSAGES]
    )
    queries, passages = (
        [(3 * text).detach().requires_grad_(True) for text in texts(counts, seed=seed)]
        for counts, seed in ((QUERIES, 3), (PASSAGES, 4))
    )
    expected = torch.stack(
        [
            torch.stack([score_by_loops(q, p, a, w) for p, w in zip(passages, words, strict=True)])
            for q, a in zip(queries, asked, strict=True)
        ]
    )
    ids, asked_ids = (torch.tensor([word for text in of for word in text]) for of in (words, asked))
    given = {
        "query_counts": torch.tensor(QUERIES),
        "passage_counts": torch.tensor(PASSAGES),
        "meets": ids[:, None] == asked_ids if is_exact else None,
    }
    together = torch.cat(queries), torch.cat(passages)
    torch.testing.assert_close(maxsim_scores(*together, **given), expected)
    loss, by_loops = maxsim_loss(*together, **given, scale=SCALE), loss_by_loops(expected)
    torch.testing.assert_close(loss, by_loops)
    ours = torch.autograd.grad(loss, [*queries, *passages])
    theirs = torch.autograd.grad(by_loops, [*queries, *passages], allow_unused=True)
    for gradient, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient) if other is None else other)
    if is_exact:
        assert expected.min() < 0 and (expected[2] == 0).all()
    assert ours[2].any() != is_exact and all(gradient.any() for gradient in ours[:2])


def test_a_best_cosine_below_zero_counts_as_it_is() -> None:
    query, passage = torch.tensor([[1.0, 0.0]]), torch.tensor([[-1.0, 0.0], [-0.6, 0.8]])
    one, two = torch.tensor([1]), torch.tensor([2])
    assert maxsim_scores(query, passage, query_counts=one, passage_counts=two).item() == pytest.approx(-0.6)
