from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer

from condenser.model.layers import broadcast_mask, full_layer, layer_at, padding_mask

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


def states() -> Tensor:
    return torch.randn(3, 8, 12, generator=torch.Generator().manual_seed(1)).double().requires_grad_(True)


def gradients(layer: BertLayer, loss: Tensor, inputs: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, [inputs, *layer.parameters()]))


@pytest.mark.parametrize("lengths", [[8, 8, 8], [8, 3, 5]])
def test_a_layer_at_some_positions_is_the_plain_layer_there(lengths: list[int]) -> None:
    layer, inputs = small_layer(), states()
    mask = broadcast_mask(padding_mask(torch.tensor(lengths), width=8))
    flat = torch.tensor([2, 1, 9, 17, 20, 20])  # in any order, also twice
    weights = torch.randn(9, 12, generator=torch.Generator().manual_seed(2)).double()

    cls, chosen = layer_at(layer, inputs, mask, ["cls", flat])
    ours = gradients(layer, (torch.cat([cls, chosen]) * weights).sum(), inputs)

    whole = full_layer(layer, inputs, mask, recompute=False)
    expected = torch.cat([whole[:, 0], whole.reshape(24, 12)[flat]])
    theirs = gradients(layer, (expected * weights).sum(), inputs)

    torch.testing.assert_close(torch.cat([cls, chosen]), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_the_first_entry_has_the_same_dropout_whatever_follows() -> None:
    layer, inputs = small_layer(dropout=0.4).train(), states()
    torch.manual_seed(5)
    (alone,) = layer_at(layer, inputs, None, ["cls"])
    torch.manual_seed(5)
    first, _ = layer_at(layer, inputs, None, ["cls", torch.tensor([3, 4])])
    assert torch.equal(alone, first)
    assert not torch.allclose(alone, layer_at(layer, inputs, None, ["cls"])[0])


def test_evaluation_draws_no_dropout() -> None:
    layer, inputs = small_layer(dropout=0.4).eval(), states()
    torch.testing.assert_close(layer_at(layer, inputs, None, ["cls"])[0], layer(inputs)[:, 0])


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
