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


def exact_by_loops(query: Tensor, passage: Tensor, asked: list[int], words: list[int]) -> Tensor:
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


def first_by_loops(query: Tensor, passage: Tensor) -> Tensor:
    """The query's first state and the passage's first two."""
    products = [passage[0] @ query[0], *(state @ query[0] for state in passage[1:2])]
    return products[-1] if products[-1] > products[0] else products[0]


def loss_by_loops(scores: Tensor) -> Tensor:
    """Of the scores of each query and each passage."""
    (num_queries, num_passages), total = scores.shape, torch.zeros((), dtype=torch.float64)
    for number, of_query in enumerate(scores):
        odds = (SCALE * of_query).exp()
        total = total - (odds[number * num_passages // num_queries] / odds.sum()).log()
    return total / num_queries


def counts() -> dict[str, Tensor]:
    return {"query_counts": torch.tensor(QUERIES), "passage_counts": torch.tensor(PASSAGES)}


def test_scores_loss_and_gradients_are_those_of_loops_over_tokens() -> None:
    queries, passages = texts(QUERIES, seed=1), texts(PASSAGES, seed=2)
    expected = torch.stack([torch.stack([maxsim_by_loops(q, p) for p in passages]) for q in queries])
    together = torch.cat(queries), torch.cat(passages)
    torch.testing.assert_close(maxsim_scores(*together, **counts()), expected)
    loss = maxsim_loss(*together, **counts(), scale=SCALE)
    by_loops = loss_by_loops(expected)
    torch.testing.assert_close(loss, by_loops)
    ours = torch.autograd.grad(loss, [*queries, *passages])
    theirs = torch.autograd.grad(by_loops, [*queries, *passages])
    torch.testing.assert_close(ours, theirs)
    assert all(gradient.abs().max() > 0 for gradient in ours[: len(queries)])


def test_only_equal_words_meet_and_a_word_that_meets_none_adds_and_learns_nothing() -> None:
    """The last query has the word 9 of no passage; of lengths other than 1, products below 0 count too."""
    asked, words = (
        [[1, 3], [3, 2, 2, 4], [9]],
        [[1, 2, 1], [3], [4, 2, 3, 3, 1], [2, 2], [5, 1], [1, 1, 1, 3]],
    )
    queries, passages = (
        [(3 * text).detach().requires_grad_(True) for text in texts(of_group, seed=seed)]
        for of_group, seed in ((QUERIES, 3), (PASSAGES, 4))
    )
    expected = torch.stack(
        [
            torch.stack([exact_by_loops(q, p, a, w) for p, w in zip(passages, words, strict=True)])
            for q, a in zip(queries, asked, strict=True)
        ]
    )
    ids, asked_ids = (torch.tensor([word for text in of for word in text]) for of in (words, asked))
    meets = ids[:, None] == asked_ids
    together = torch.cat(queries), torch.cat(passages)
    torch.testing.assert_close(maxsim_scores(*together, **counts(), meets=meets), expected)
    assert expected.min() < 0 and (expected[2] == 0).all()
    loss, by_loops = maxsim_loss(*together, **counts(), scale=SCALE, meets=meets), loss_by_loops(expected)
    torch.testing.assert_close(loss, by_loops)
    ours = torch.autograd.grad(loss, [*queries, *passages])
    theirs = torch.autograd.grad(by_loops, [*queries, *passages], allow_unused=True)
    for gradient, one in zip(ours, theirs, strict=True):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient) if one is None else one)
    assert not ours[2].any() and all(gradient.any() for gradient in ours[:2])


def test_of_one_query_state_and_few_passage_states_it_is_the_contrast_of_first_states() -> None:
    """The second passage has one state."""
    queries, passages = texts(QUERIES, seed=5), texts(PASSAGES, seed=6)
    expected = torch.stack([torch.stack([first_by_loops(q, p) for p in passages]) for q in queries])
    together = torch.stack([query[0] for query in queries]), torch.cat([passage[:2] for passage in passages])
    given = {
        "query_counts": torch.ones(3, dtype=torch.int64),
        "passage_counts": torch.tensor([2, 1, 2, 2, 2, 2]),
    }
    torch.testing.assert_close(maxsim_scores(*together, **given), expected)
    loss, by_loops = maxsim_loss(*together, **given, scale=SCALE), loss_by_loops(expected)
    torch.testing.assert_close(loss, by_loops)
    torch.testing.assert_close(
        torch.autograd.grad(loss, [*queries, *passages]), torch.autograd.grad(by_loops, [*queries, *passages])
    )


def test_products_are_not_rounded_under_autocast() -> None:
    queries, passages = (torch.cat(texts(of, seed=7)).detach().float() for of in (QUERIES, PASSAGES))
    exact = maxsim_scores(queries, passages, **counts())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(maxsim_scores(queries, passages, **counts()), exact)


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
