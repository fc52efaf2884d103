from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer

from condenser.model.layers import full_layer, layer_at
from condenser.model.rows import Rows

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
    ids = np.zeros((len(lengths), width), dtype=np.int64)
    return inputs.requires_grad_(True), Rows.of(ids, np.array(lengths))


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
