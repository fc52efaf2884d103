"""The contrasts against their equations; and what holds for every loss."""

from __future__ import annotations

import doctest
import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from condenser.loss import contrastive, late, listwise, mlm
from condenser.loss.contrastive import in_batch_loss, span_contrastive_loss
from condenser.loss.late import maxsim_loss
from condenser.loss.listwise import listwise_kl, localised_contrastive_loss, pointwise_loss
from condenser.loss.mlm import masked_cross_entropy_sum


def _slow_cross_entropy(scores: list[float], target: int) -> float:
    return math.log(sum(math.exp(score) for score in scores)) - scores[target]


def _dot(left: Tensor, right: Tensor) -> float:
    return sum(a * b for a, b in zip(left.tolist(), right.tolist(), strict=True))


def test_hand_worked_span_loss() -> None:
    # span 0 scores its twin 2, the others 0 and 0; twin 1 likewise; 2 and 3 score their twins 1
    spans = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    expected = (2 * math.log(1 + 2 * math.exp(-2)) + 2 * math.log(1 + 2 * math.exp(-1))) / 4
    assert math.isclose(span_contrastive_loss(spans).item(), expected, rel_tol=1e-6)


SCALES = st.sampled_from([1.0, 0.5, 20.0])


@given(st.integers(1, 5), st.integers(1, 4), SCALES, st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_span_loss_is_equation_6(documents: int, dim: int, scale: float, seed: int) -> None:
    spans = torch.randn(2 * documents, dim, generator=torch.Generator().manual_seed(seed)).double()
    total = 0.0
    for i in range(2 * documents):
        twin = i + 1 if i % 2 == 0 else i - 1
        others = [k for k in range(2 * documents) if k != i]
        scores = [scale * _dot(spans[i], spans[k]) for k in others]
        total += _slow_cross_entropy(scores, others.index(twin))
    assert math.isclose(
        span_contrastive_loss(spans, scale=scale).item(), total / (2 * documents), rel_tol=1e-9, abs_tol=1e-9
    )


@given(st.integers(1, 4), st.integers(1, 4), SCALES, st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_in_batch_loss_takes_every_passage_of_the_batch(
    num_queries: int, group: int, scale: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    queries = torch.randn(num_queries, 3, generator=generator).double()
    passages = torch.randn(num_queries * group, 3, generator=generator).double()
    total = sum(
        _slow_cross_entropy([scale * _dot(query, passage) for passage in passages], i * group)
        for i, query in enumerate(queries)
    )
    assert math.isclose(
        in_batch_loss(queries, passages, scale=scale).item(), total / num_queries, rel_tol=1e-9, abs_tol=1e-9
    )


def _maxsim(queries: Tensor, passages: Tensor) -> Tensor:
    counts = {"query_counts": torch.tensor([3, 1]), "passage_counts": torch.tensor([1, 2, 3, 2])}
    return maxsim_loss(queries, passages, **counts, scale=1.0)


LOSSES = {  # every loss, and the shapes of what it compares
    span_contrastive_loss: [(8, 64)],
    in_batch_loss: [(4, 64), (8, 64)],
    _maxsim: [(4, 64), (8, 64)],
    partial(localised_contrastive_loss, passages_per_query=4): [(8, 1)],
    partial(pointwise_loss, passages_per_query=4): [(8, 1)],
    partial(listwise_kl, temperature=0.7): [(2, 6), (2, 6)],
    partial(masked_cross_entropy_sum, labels=torch.arange(20) % 9): [(20, 9)],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_is_computed_in_float32_also_under_autocast(
    loss: Callable[..., Tensor], dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(shape, generator=generator).to(dtype) for shape in LOSSES[loss]]
    exact = loss(*(values.float() for values in inputs))
    assert exact.dtype == torch.float32 and torch.equal(loss(*inputs), exact)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(loss(*inputs), exact)


@pytest.mark.parametrize(
    ("loss", "shapes", "message"),
    [
        *((span_contrastive_loss, [(n, 2)], f"two of each document, got {n}") for n in (0, 1, 7)),
        *((in_batch_loss, [(2, 3), (n, 3)], f"each of 2 queries, got {n}") for n in (5, 0)),
        *(
            (partial(loss, passages_per_query=size), [(num_scores, 1)], message)
            for loss in (localised_contrastive_loss, pointwise_loss)
            for size, num_scores, message in (
                (2, 0, "expected 2 of each query, got 0 in all"),
                (2, 5, "expected 2 of each query, got 5 in all"),
                (1, 3, r"passages_per_query: expected at least 2, got 1\. Without a negative"),
            )
        ),
        (partial(listwise_kl, temperature=1.0), [(3, 1), (3, 1)], "expected at least 2, got 1"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    loss: Callable[..., Tensor], shapes: list[tuple[int, int]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        loss(*map(torch.zeros, shapes))


@pytest.mark.parametrize("module", [contrastive, late, listwise, mlm])
def test_examples_in_the_docstrings_are_true(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 0 and result.failed == 0
