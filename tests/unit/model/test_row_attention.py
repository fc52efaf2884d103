"""Attention of rows in groups is PyTorch's of each row alone, and its dropout that of the shares."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import meant
from torch import Tensor
from torch.nn import functional

from condenser.model import attention as module
from condenser.model.attention import attention
from condenser.model.rows import Layout, Rows

LENGTHS = [33, 20, 17, 4, 4, 1]
HEADS, DIM = 3, 12
torch.set_num_threads(1)


def rows() -> Rows:
    return Rows.of(np.zeros((len(LENGTHS), max(LENGTHS)), np.int64), np.array(LENGTHS))


def inputs(of: Layout, over: Layout) -> tuple[Tensor, Tensor]:
    """Of all tokens that are computed; those of no row must not matter."""
    torch.manual_seed(0)
    num_tokens = (len(each.places) if each.places is not None else each.num_tokens for each in (of, over))
    return tuple(
        torch.randn(count, dim, dtype=torch.float64).requires_grad_()
        for count, dim in zip(num_tokens, (DIM, 2 * DIM), strict=True)
    )


def row_by_row(queries: Tensor, keys_values: Tensor, counts: list[int]) -> Tensor:
    """Each row alone, by PyTorch."""
    found = []
    for asked, both in zip(queries.split(counts), keys_values.split(LENGTHS), strict=True):
        parts = (part.unflatten(1, (HEADS, -1)).transpose(0, 1) for part in (asked, *both.chunk(2, dim=1)))
        found.append(functional.scaled_dot_product_attention(*parts).transpose(0, 1).flatten(1))
    return torch.cat(found)


@pytest.mark.parametrize("probability", [0.0, 0.25])
@pytest.mark.parametrize("wanted", ["all", "first", "some", "none"])
def test_it_is_pytorchs_attention_of_each_row_alone(
    wanted: str, probability: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on the way of dropout, where nothing is dropped here; what stays is still scaled up."""
    monkeypatch.setattr(module, "dropped_signs", lambda count, _: torch.zeros(count, dtype=torch.int16))
    of_all = rows()
    columns = {"all": LENGTHS, "first": [1] * 6, "some": [5, 0, 2, 4, 1, 0], "none": [0] * 6}[wanted]
    numbers = np.repeat(np.arange(6), columns)
    chosen = of_all.chosen(numbers, np.concatenate([np.arange(count) for count in columns]))
    layout = {"all": of_all.layout, "first": of_all.first.layout}.get(wanted, chosen.layout)
    queries, keys_values = inputs(layout, of_all.layout)
    found = attention(
        queries, keys_values, of=layout, over=of_all.layout, num_heads=HEADS, probability=probability
    )
    ours = meant(found, layout)
    theirs = row_by_row(meant(queries, layout), meant(keys_values, of_all.layout), columns)
    theirs = theirs / (1 - probability)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    weights = torch.randn(theirs.shape, dtype=torch.float64)
    gradients = [
        torch.autograd.grad((found * weights).sum(), [queries, keys_values]) for found in (ours, theirs)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_dropout_drops_shares_and_its_gradient_those_of_the_same_shares(dtype: torch.dtype) -> None:
    """Values that are unit vectors show the shares, and so which were dropped."""
    length, probability = 32, 0.25
    one = Rows.of(np.zeros((1, length), np.int64), np.array([length]))
    torch.manual_seed(0)
    queries, keys = (torch.randn(length, length, dtype=torch.float64).to(dtype) for _ in range(2))
    leaves = [part.requires_grad_() for part in (queries, keys, torch.eye(length, dtype=dtype))]
    torch.manual_seed(4)
    padding = len(one.ids) - length
    asked, both = leaves[0], torch.cat(leaves[1:], dim=1)
    found = attention(
        functional.pad(asked, (0, 0, 0, padding)),
        functional.pad(both, (0, 0, 0, padding)),
        of=one.layout,
        over=one.layout,
        num_heads=1,
        probability=probability,
    )[:length]
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    shares = torch.softmax(exact[0] @ exact[1].T * length**-0.5, dim=-1)
    kept = found.detach().double() != 0
    assert 0.15 < 1 - kept.double().mean().item() < 0.35
    expected = shares * kept / (1 - probability) @ exact[2]
    tolerance = {torch.bfloat16: 3e-2, torch.float32: 1e-5}.get(dtype, 1e-12)
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)
    weights = torch.randn(length, length, dtype=torch.float64)
    ours = torch.autograd.grad((found * weights.to(dtype)).sum(), leaves)
    theirs = torch.autograd.grad((expected * weights).sum(), exact)
    for one_gradient, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one_gradient.double(), other, rtol=tolerance, atol=3 * tolerance)


def test_a_padded_place_has_no_share_and_gives_no_gradient() -> None:
    of_all = rows()
    queries, keys_values = inputs(of_all.layout, of_all.layout)
    torch.manual_seed(1)
    settings = {"of": of_all.layout, "over": of_all.layout, "num_heads": HEADS, "probability": 0.3}
    found = attention(queries, keys_values, **settings)
    last = slice(sum(LENGTHS[:-1]), sum(LENGTHS))  # a row of one token, which attends to itself alone
    ratio = (found[last] / keys_values[last, DIM:]).unflatten(1, (HEADS, -1))
    assert torch.allclose(ratio * (ratio - 1 / 0.7), torch.zeros_like(ratio), atol=1e-3)
    (gradient,) = torch.autograd.grad(found[:33].sum(), keys_values)
    assert (gradient[33:] == 0).all() and (gradient[:33, DIM:] != 0).any()
