from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer

from condenser.model.layers import Rows, full_layer, layer_at, padding_mask

torch.set_num_threads(1)


def small_layer(*, dropout: float = 0.0) -> BertLayer:
    config = BertConfig(
        hidden_size=12,
        num_attention_heads=3,
        intermediate_size=20,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    config._attn_implementation = "sdpa"
    torch.manual_seed(0)
    return BertLayer(config).double()


def in_rows(lengths: list[int]) -> tuple[Tensor, Rows]:
    """Places with random states, padding included, and where their tokens lie."""
    width = 8
    inputs = torch.randn(len(lengths), width, 12, generator=torch.Generator().manual_seed(1)).double()
    ids = torch.zeros(len(lengths), width, dtype=torch.int64)
    return inputs.requires_grad_(True), Rows(ids, padding_mask(torch.tensor(lengths), width=width))


def gradients(layer: BertLayer, loss: Tensor, inputs: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, [inputs, *layer.parameters()]))


@pytest.mark.parametrize("lengths", [[8, 8, 8], [8, 3, 5], [1, 1, 2]])
def test_a_layer_without_padding_is_the_plain_layer_at_the_tokens(lengths: list[int]) -> None:
    layer, (inputs, rows) = small_layer(), in_rows(lengths)
    places = torch.cat([row * 8 + torch.arange(length) for row, length in enumerate(lengths)])
    weights = torch.randn(len(places), 12, generator=torch.Generator().manual_seed(2)).double()

    whole = full_layer(layer, rows.packed(inputs), rows, recompute=False)
    ours = gradients(layer, (whole * weights).sum(), inputs)
    plain = layer(inputs, rows.attended).reshape(-1, 12)[places]
    theirs = gradients(layer, (plain * weights).sum(), inputs)

    assert whole.shape == (sum(lengths), 12)
    torch.testing.assert_close(whole, plain, rtol=0, atol=1e-12)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("lengths", [[8, 8, 8], [8, 3, 5]])
def test_a_layer_at_some_tokens_is_the_whole_layer_there(lengths: list[int]) -> None:
    layer, (inputs, rows) = small_layer(), in_rows(lengths)
    places = torch.tensor([2, 1, 9, 17, 20, 20])  # in any order, also twice
    weights = torch.randn(9, 12, generator=torch.Generator().manual_seed(2)).double()
    states = rows.packed(inputs)

    cls, chosen = layer_at(layer, states, rows, ["cls", rows.tokens_at(places)])
    ours = gradients(layer, (torch.cat([cls, chosen]) * weights).sum(), inputs)

    states = rows.packed(inputs)
    whole = rows.laid_out(full_layer(layer, states, rows, recompute=False))
    expected = torch.cat([whole[:, 0], whole.reshape(24, 12)[places]])
    theirs = gradients(layer, (expected * weights).sum(), inputs)

    torch.testing.assert_close(torch.cat([cls, chosen]), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@given(st.lists(st.integers(1, 8), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_tokens_return_to_their_places_and_padding_has_no_gradient(lengths: list[int]) -> None:
    inputs, rows = in_rows(lengths)
    is_token = torch.arange(8) < torch.tensor(lengths)[:, None]
    tokens = rows.packed(inputs)
    assert torch.equal(tokens, inputs[is_token])
    assert torch.equal(rows.laid_out(tokens)[is_token], tokens)
    assert torch.equal(tokens[rows.first_tokens], inputs[:, 0])
    (gradient,) = torch.autograd.grad((rows.laid_out(tokens)[is_token] ** 2).sum(), inputs)
    torch.testing.assert_close(gradient, 2 * inputs * is_token[:, :, None])


def test_what_is_traced_keeps_its_padding() -> None:
    class Length(torch.nn.Module):
        def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
            return Rows(mask.long(), mask).packed(inputs)

    inputs, mask = torch.randn(2, 3, 1), torch.tensor([[True, True, True], [True, False, False]])
    assert len(Length()(inputs, mask)) == 4
    assert len(torch.export.export(Length(), (inputs, mask)).module()(inputs, mask)) == 6


def test_the_first_entry_has_the_same_dropout_whatever_follows() -> None:
    layer, (inputs, rows) = small_layer(dropout=0.4).train(), in_rows([8, 3, 5])
    states = rows.packed(inputs)
    torch.manual_seed(5)
    (alone,) = layer_at(layer, states, rows, ["cls"])
    torch.manual_seed(5)
    first, _ = layer_at(layer, states, rows, ["cls", torch.tensor([3, 4])])
    assert torch.equal(alone, first)
    assert not torch.allclose(alone, layer_at(layer, states, rows, ["cls"])[0])


def test_evaluation_draws_no_dropout() -> None:
    layer, (inputs, rows) = small_layer(dropout=0.4).eval(), in_rows([8, 8, 8])
    (first,) = layer_at(layer, rows.packed(inputs), rows, ["cls"])
    torch.testing.assert_close(first, layer(inputs)[:, 0])


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(0, 4))
@settings(max_examples=40, deadline=None)
def test_padding_mask_counts_the_tokens_of_each_row(lengths: list[int], spare: int) -> None:
    width = max(lengths) + spare
    mask = padding_mask(torch.tensor(lengths), width=width)
    if mask is None:
        assert lengths == [width] * len(lengths)
    else:
        assert mask.tolist() == [[True] * n + [False] * (width - n) for n in lengths]
        assert min(lengths) < width
