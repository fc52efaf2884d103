"""Linear layers in other precisions are PyTorch's, with gradients; the weights are converted once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from condenser.model import products
from condenser.model.products import linear, weights_unchanged

SIZE = 256
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 3e-2}


def layers() -> list[nn.Linear]:
    torch.manual_seed(0)
    return [nn.Linear(SIZE, size) for size in (2 * SIZE, SIZE)]


def autocast(dtype: torch.dtype) -> torch.autocast:
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("num_rows", [17, 0])
@pytest.mark.parametrize("has_onednn", [True, False])
def test_outputs_and_gradients_are_those_of_the_layers_side_by_side(
    dtype: torch.dtype, num_rows: int, has_onednn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_onednn:
        monkeypatch.setattr(products, "has_onednn", lambda dtype: False)
    exact, tolerance = torch.float64, TOLERANCES[dtype]
    kept = torch.float32 if dtype == torch.bfloat16 else dtype
    ours, theirs = ([layer.to(of) for layer in layers()] for of in (kept, exact))
    states = torch.randn(num_rows, SIZE, dtype=kept, requires_grad=True)
    same = states.detach().to(exact).requires_grad_()
    weights = torch.randn(num_rows, 3 * SIZE, dtype=exact)
    with autocast(dtype):
        found = linear(states, *ours)
    expected = torch.cat([layer(same) for layer in theirs], dim=1)
    assert found.dtype == dtype
    torch.testing.assert_close(found.to(exact), expected, rtol=tolerance, atol=tolerance)
    (found * weights.to(dtype)).sum().backward()
    (expected * weights).sum().backward()
    for one, other in (
        (states, same),
        *((of.weight, to.weight) for of, to in zip(ours, theirs, strict=True)),
    ):
        compare(one.grad, other.grad, kept, tolerance)
    for of, to in zip(ours, theirs, strict=True):
        compare(of.bias.grad, to.bias.grad, kept, tolerance)


def compare(found: Tensor | None, expected: Tensor | None, kept: torch.dtype, tolerance: float) -> None:
    assert found is not None and expected is not None and found.dtype == kept
    scale = max(1.0, expected.abs().max().item() if len(expected) else 1.0)
    torch.testing.assert_close(found.to(expected), expected, rtol=tolerance, atol=tolerance * scale)


def test_weights_are_converted_once_while_they_do_not_change() -> None:
    layer, states = layers()[0], torch.ones(1, SIZE)
    with autocast(torch.bfloat16):
        with weights_unchanged():
            first = linear(states, layer)
            with torch.no_grad():
                layer.weight.zero_()  # as nobody does within
            assert torch.equal(linear(states, layer), first)
        assert torch.equal(linear(states, layer)[0], layer.bias.bfloat16())


def test_in_a_precision_of_its_own_a_weight_is_not_copied() -> None:
    layer = layers()[0]
    with weights_unchanged():
        linear(torch.ones(1, SIZE), layer)
        (weight, bias), *others = (products._copies.get() or {}).values()
    assert not others
    assert weight.data_ptr() == layer.weight.data_ptr() and bias.data_ptr() == layer.bias.data_ptr()
