from __future__ import annotations

import doctest
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from condenser.loss import contrastive, listwise, mlm
from condenser.loss.contrastive import in_batch_loss, span_contrastive_loss


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


def test_positive_of_a_query_is_the_first_passage_of_its_group() -> None:
    queries = 30 * torch.eye(3)
    # passages in groups of two: positive, negative
    passages = torch.stack(
        [torch.eye(3)[i] if first else torch.zeros(3) for i in range(3) for first in (1, 0)]
    )
    assert in_batch_loss(queries, passages).item() < 1e-6
    assert in_batch_loss(queries, passages.roll(1, dims=0)).item() > 10


def test_swapping_the_spans_of_all_documents_changes_nothing() -> None:
    spans = torch.randn(8, 5, generator=torch.Generator().manual_seed(0))
    swapped = spans.view(4, 2, 5).flip(1).reshape(8, 5)
    torch.testing.assert_close(span_contrastive_loss(spans), span_contrastive_loss(swapped))


@pytest.mark.parametrize("num_spans", [0, 1, 7])
def test_an_odd_span_is_refused(num_spans: int) -> None:
    with pytest.raises(ValueError, match=f"two of each document, got {num_spans}"):
        span_contrastive_loss(torch.zeros(num_spans, 2))


def test_uneven_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="each of 2 queries, got 5"):
        in_batch_loss(torch.zeros(2, 3), torch.zeros(5, 3))
    with pytest.raises(ValueError, match="each of 2 queries, got 0"):
        in_batch_loss(torch.zeros(2, 3), torch.zeros(0, 3))


def test_scores_are_not_rounded_under_autocast() -> None:
    generator = torch.Generator().manual_seed(0)
    queries, passages = torch.randn(4, 64, generator=generator), torch.randn(8, 64, generator=generator)
    exact = in_batch_loss(queries, passages), span_contrastive_loss(passages)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = in_batch_loss(queries, passages), span_contrastive_loss(passages)
    assert torch.equal(exact[0], inside[0]) and torch.equal(exact[1], inside[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_vectors_of_16_bits_are_compared_in_float32(dtype: torch.dtype) -> None:
    vectors = torch.randn(8, 64, generator=torch.Generator().manual_seed(0)).to(dtype)
    assert torch.equal(
        in_batch_loss(vectors[:4], vectors), in_batch_loss(vectors[:4].float(), vectors.float())
    )
    assert torch.equal(span_contrastive_loss(vectors), span_contrastive_loss(vectors.float()))


@pytest.mark.parametrize("module", [contrastive, listwise, mlm])
def test_examples_in_the_docstrings_are_true(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 0 and result.failed == 0
