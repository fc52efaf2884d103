"""Linear layers in other precisions are PyTorch's, with gradients, the weights converted once; dropout."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from condenser.model import operations
from condenser.model.operations import add_dropped, dropout, linear, weights_unchanged

SIZE = 256
TYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
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
        monkeypatch.setattr(operations, "has_onednn", lambda dtype: False)
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
        (weight, bias), *others = (operations._copies.get() or {}).values()
    assert not others
    assert weight.data_ptr() == layer.weight.data_ptr() and bias.data_ptr() == layer.bias.data_ptr()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_the_asked_share_is_zeroed_and_the_mean_is_kept(probability: float, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    out = dropout(torch.ones(301, 1003, dtype=dtype), probability)
    share = (out == 0).double().mean().item()
    deviation = (probability * (1 - probability) / out.numel()) ** 0.5
    assert abs(share - probability) < 5 * deviation + 2**-16
    kept = out[out != 0].double()
    assert kept.unique().numel() == 1
    tolerance = {torch.bfloat16: 5e-3, torch.float16: 1e-3}.get(dtype, 2e-4)
    assert kept[0].item() == pytest.approx(1 / (1 - probability), rel=tolerance)


def test_draws_are_independent_of_one_another() -> None:
    """Four values share one draw of 64 bits: neighbours must be independent."""
    torch.manual_seed(2)
    zeroed = (dropout(torch.ones(400_000), 0.5) == 0).double()
    for distance in (1, 2, 3, 4, 8):
        both = (zeroed[:-distance] * zeroed[distance:]).mean().item()
        assert both == pytest.approx(0.25, abs=0.004), distance
    for place in range(4):
        assert zeroed[place::4].mean().item() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (2, 3, 1, 11), (0, 4)])
def test_every_shape_works_and_the_result_depends_on_the_seed_alone(shape: tuple[int, ...]) -> None:
    def draw(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return dropout(torch.ones(shape), 0.5)

    assert draw(3).shape == shape
    assert torch.equal(draw(3), draw(3))
    if shape == (2, 3, 1, 11):
        assert not torch.equal(draw(3), draw(4))


def test_the_gradient_is_zero_where_the_output_is_dropped() -> None:
    values = torch.randn(40, 30, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(5)
    out = dropout(values, 0.3)
    weights = torch.randn_like(out)
    (out * weights).sum().backward()
    factors = out.detach() / values.detach()
    assert values.grad is not None
    torch.testing.assert_close(values.grad, weights * factors)
    assert {round(value, 3) for value in factors.unique().tolist()} == {0.0, 1.429}


@pytest.mark.parametrize("dtype", TYPES)
def test_what_is_added_is_dropped_as_by_dropout(dtype: torch.dtype) -> None:
    kept_in = torch.float64 if dtype == torch.float64 else torch.float32
    states = torch.randn(40, 30, dtype=kept_in, requires_grad=True)
    values = torch.randn(40, 30, dtype=dtype, requires_grad=True)
    weights, tolerance = (
        torch.randn_like(states),
        {torch.bfloat16: 1e-2, torch.float16: 1e-3}.get(dtype, 1e-6),
    )
    found = []
    for way in (add_dropped, lambda states, values, probability: states + dropout(values, probability)):
        torch.manual_seed(5)
        total = way(states, values, 0.3)
        assert total.dtype == kept_in
        found.append((total, *torch.autograd.grad((total * weights).sum(), [states, values])))
    torch.testing.assert_close(found[0], found[1], rtol=tolerance, atol=tolerance)
    assert 0.2 < (found[0][2] == 0).double().mean() < 0.4


def test_without_dropout_no_random_numbers_are_drawn() -> None:
    values = torch.randn(10)
    before = torch.get_rng_state()
    assert torch.equal(dropout(values, 0.0), values)
    assert torch.equal(add_dropped(values, values, 0.0), 2 * values)
    assert torch.equal(torch.get_rng_state(), before)
