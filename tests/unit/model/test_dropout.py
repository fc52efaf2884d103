from __future__ import annotations

import pytest
import torch
from small_models import small_condenser
from torch import Tensor, nn
from torch.nn import functional

from condenser.model.dropout import Dropout, attention, dropout


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_the_asked_share_is_zeroed_and_the_mean_is_kept(probability: float, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    out = dropout(torch.ones(301, 1003, dtype=dtype), probability)
    share = (out == 0).double().mean().item()
    deviation = (probability * (1 - probability) / out.numel()) ** 0.5
    assert abs(share - probability) < 5 * deviation + 2**-16
    kept = out[out != 0].double()
    assert kept.unique().numel() == 1
    assert kept[0].item() == pytest.approx(
        1 / (1 - probability), rel=5e-3 if dtype == torch.bfloat16 else 2e-4
    )


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


def test_without_dropout_no_random_numbers_are_drawn() -> None:
    values = torch.randn(10)
    before = torch.get_rng_state()
    assert dropout(values, 0.0) is values
    assert torch.equal(Dropout(0.5).eval()(values), values)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("probability", [1.0, 1e-7])
def test_a_probability_that_16_bits_cannot_hold_is_pytorchs_own(probability: float) -> None:
    torch.manual_seed(1)
    ours = dropout(torch.ones(1000), probability)
    torch.manual_seed(1)
    assert torch.equal(ours, functional.dropout(torch.ones(1000), probability))


@pytest.mark.parametrize("masked", [True, False])
def test_attention_with_tiny_dropout_equals_pytorchs(masked: bool) -> None:
    """With a probability so small that nothing is dropped, both must be equal."""
    shape = (2, 3, 7, 4)
    torch.manual_seed(0)
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    mask = (torch.arange(7) < torch.tensor([7, 4])[:, None])[:, None, None, :] if masked else None
    torch.manual_seed(7)
    ours = attention(*inputs, mask, scale=0.5, probability=2**-16)
    theirs = functional.scaled_dot_product_attention(*inputs, attn_mask=mask, scale=0.5)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    ours_back = torch.autograd.grad(ours.sin().sum(), inputs)
    theirs_back = torch.autograd.grad(theirs.sin().sum(), inputs)
    for one, other in zip(ours_back, theirs_back, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_the_mean_over_many_draws_of_attention_is_attention_without_dropout() -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(1, 1, 5, 4) for _ in range(3)]
    plain = attention(*inputs, None, scale=0.5, probability=0.0)
    mean = torch.stack([attention(*inputs, None, scale=0.5, probability=0.2) for _ in range(4000)]).mean(0)
    torch.testing.assert_close(mean, plain, rtol=0.0, atol=0.06)


def test_every_dropout_of_a_condenser_is_ours() -> None:
    model = small_condenser(dropout=0.1)
    kinds = {type(module) for module in model.modules() if isinstance(module, nn.Dropout)}
    assert kinds == {Dropout}
