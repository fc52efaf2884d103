from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from condenser.loss.mlm import masked_cross_entropy_sum


def test_hand_worked_sum() -> None:
    # softmax of (0, ln 3) is (1/4, 3/4)
    logits = torch.tensor([[0.0, math.log(3)], [0.0, math.log(3)]])
    loss = masked_cross_entropy_sum(logits, torch.tensor([0, 1]))
    assert math.isclose(loss.item(), math.log(4) + math.log(4 / 3), rel_tol=1e-6)


@given(st.integers(0, 12), st.integers(2, 9), st.integers(0, 12), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_chunks_add_up_to_the_whole_and_to_a_slow_loop(rows: int, vocab: int, cut: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, vocab, generator=generator, dtype=torch.float64)
    labels = torch.randint(vocab, (rows,), generator=generator)
    slow = 0.0
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        slow += math.log(sum(math.exp(score) for score in row)) - row[label]
    whole = masked_cross_entropy_sum(logits, labels)
    parts = masked_cross_entropy_sum(logits[:cut], labels[:cut]) + masked_cross_entropy_sum(
        logits[cut:], labels[cut:]
    )
    assert math.isclose(whole.item(), slow, rel_tol=1e-12, abs_tol=1e-12)
    assert math.isclose(parts.item(), slow, rel_tol=1e-12, abs_tol=1e-12)


class OnGpu(torch.Tensor):
    """Says that it is on a GPU."""

    device = torch.device("cuda")  # type: ignore[assignment]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [0, 7, 50])
@pytest.mark.parametrize("kind", [torch.Tensor, OnGpu], ids=["on a CPU", "as on a GPU"])
def test_the_gradient_is_pytorchs_and_that_of_logits_behind_the_labels_zero(
    rows: int, dtype: torch.dtype, kind: type[torch.Tensor]
) -> None:
    generator = torch.Generator().manual_seed(rows)
    logits = (3 * torch.randn(rows + 3, 11, generator=generator)).to(dtype).requires_grad_()
    labels = torch.randint(11, (rows,), generator=generator)
    loss = masked_cross_entropy_sum(logits.as_subclass(kind), labels).as_subclass(torch.Tensor)
    assert loss.dtype == (dtype if dtype == torch.float64 else torch.float32)
    (0.25 * loss).backward()
    exact = logits.detach().double().requires_grad_()
    expected = functional.cross_entropy(exact[:rows], labels, reduction="sum")
    (0.25 * expected).backward()
    assert logits.grad is not None and exact.grad is not None
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5}.get(dtype, 5e-3)
    torch.testing.assert_close(loss.double(), expected, rtol=max(tolerance, 1e-5) / 10, atol=0)
    torch.testing.assert_close(logits.grad.double(), exact.grad, rtol=tolerance, atol=tolerance / 10)
