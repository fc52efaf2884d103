"""Our BERT is transformers', at all tokens and at some."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import (
    meant,
    padded,
    small_backbone,
    small_config,
    transformers_bert,
    transformers_layer,
)
from torch import Tensor, nn

from condenser.encoders import BertConfig
from condenser.model.bert import Bert, Layer
from condenser.model.projection import new_projection
from condenser.model.rows import Rows
from condenser.model.weights import initialise

torch.set_num_threads(1)


def small_layer(*, dropout: float = 0.0) -> Layer:
    torch.manual_seed(0)
    return Layer(small_config(dropout=dropout)).double()


def some_rows(lengths: list[int], device: str = "cpu") -> Rows:
    ids = torch.randint(5, 40, (len(lengths), 16), generator=torch.Generator().manual_seed(1)).numpy()
    types = (np.arange(16) > 2).astype(np.int64) * np.ones_like(ids)
    return Rows.of(ids, np.array(lengths), token_types=types, device=torch.device(device))


def some_states(rows: Rows) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(len(rows.ids), 12, generator=generator, dtype=torch.float64).requires_grad_()


def compare_gradients(ours: nn.Module, theirs: nn.Module) -> None:
    for name, value in ours.named_parameters():
        other = theirs.get_parameter(name).grad
        if value.grad is None:
            assert name.startswith("pooler."), name
        else:
            torch.testing.assert_close(value.grad, other, rtol=1e-10, atol=1e-11, msg=name)


@pytest.mark.parametrize(
    ("lengths", "device"),
    [([16, 9, 5, 5], "cpu"), ([1, 1, 2], "meta"), ([8, 8, 8], "meta")],
    ids=["in groups, as on a CPU", "together, as on a GPU", "without padding"],
)
def test_every_layer_and_gradient_is_that_of_transformers(lengths: list[int], device: str) -> None:
    bert, rows = small_backbone(), some_rows(lengths, device)
    theirs, (ids, mask) = transformers_bert(bert), padded(rows)
    types = torch.zeros_like(ids)
    assert rows.token_types is not None
    types[mask] = meant(rows.token_types, rows.layout)
    states = theirs(
        ids, attention_mask=mask.long(), token_type_ids=types, output_hidden_states=True
    ).hidden_states
    early, before_last = bert.before_last_layer(rows, recompute=False, skip_from=2)
    (last,) = bert.layers[-1](before_last, rows, [None])
    for found, expected in ((early, states[2]), (before_last, states[3]), (last, states[4])):
        torch.testing.assert_close(meant(found, rows.layout), expected[mask], rtol=1e-12, atol=1e-12)
    last, early = (meant(each, rows.layout) for each in (last, early))
    weights = torch.randn(last.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    (last * weights + early).sum().backward()
    (states[4][mask] * weights + states[2][mask]).sum().backward()
    compare_gradients(bert, theirs)


def test_the_activation_is_that_of_the_settings() -> None:
    config = BertConfig(**{**small_config(num_layers=1).model_dump(), "hidden_act": "relu"})
    torch.manual_seed(0)
    bert, rows = Bert(config).double(), some_rows([9, 4])
    ids, mask = padded(rows)
    types = (torch.arange(ids.shape[1]) > 2).long().expand_as(ids)
    theirs = transformers_bert(bert)(ids, attention_mask=mask.long(), token_type_ids=types)
    _, states = bert.before_last_layer(rows, recompute=False)
    (first,) = bert.layers[-1](states, rows, [rows.first])
    torch.testing.assert_close(first, theirs.last_hidden_state[:, 0], rtol=1e-12, atol=1e-12)


def test_a_layer_is_transformers_layer_whatever_its_padding_holds() -> None:
    layer, rows = small_layer(), some_rows([9, 4, 1])
    states, (_, mask) = some_states(rows), padded(rows)
    laid_out = torch.full((*mask.shape, 12), 7.0, dtype=torch.float64)
    laid_out[mask] = meant(states.detach(), rows.layout)
    theirs = transformers_layer(layer, small_config())
    hidden = torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -torch.inf)
    expected = theirs(laid_out, hidden[:, None, None, :])
    found = layer.at_all(states, rows, recompute=False)
    torch.testing.assert_close(meant(found, rows.layout), expected[mask], rtol=0, atol=1e-12)


def test_the_first_entry_has_the_same_dropout_whatever_follows() -> None:
    layer, rows = small_layer(dropout=0.4).train(), some_rows([8, 3, 5])
    states = some_states(rows)
    torch.manual_seed(5)
    (alone,) = layer(states, rows, [rows.first])
    torch.manual_seed(5)
    first, _ = layer(states, rows, [rows.first, rows.chosen(np.array([0, 1]), np.array([3, 2]))])
    assert torch.equal(alone, first)
    assert not torch.allclose(alone, layer(states, rows, [rows.first])[0])


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_a_layer_computed_again_in_the_backward_pass_gives_the_same_bits(precision: torch.dtype) -> None:
    rows, found = some_rows([8, 8, 3]), []
    for recompute in (False, True):
        layer = small_layer(dropout=0.2).float().train()
        states = some_states(rows).detach().float().requires_grad_()
        torch.manual_seed(3)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == torch.bfloat16):
            output = layer.at_all(states, rows, recompute=recompute)
        output.square().sum().backward()
        found.append([output.detach(), states.grad, *(value.grad for value in layer.parameters())])
    for one, other in zip(*found, strict=True):
        assert one is not None and other is not None and torch.equal(one, other)


def test_new_weights_are_berts() -> None:
    """N(0, sd) within 5 standard errors; the embedding of padding, biases and LayerNorms are constants."""
    config = small_config()
    model = nn.ModuleDict({"bert": Bert(config), "projection": new_projection(Bert(config), 500, seed=5)})
    initialise(model["bert"], standard_deviation=config.initializer_range, seed=3)
    for name, module in model.named_modules():
        if isinstance(module, nn.LayerNorm):
            assert (module.weight == 1).all() and (module.bias == 0).all(), name
        elif isinstance(module, nn.Linear | nn.Embedding):
            weight = module.weight.detach()
            if isinstance(module, nn.Embedding) and module.padding_idx is not None:
                assert (weight[module.padding_idx] == 0).all()
                weight = weight[module.padding_idx + 1 :]
            error = config.initializer_range / weight.numel() ** 0.5
            assert weight.mean().abs() < 5 * error, name
            assert abs(weight.std() - config.initializer_range) < 5 * error, name
            assert getattr(module, "bias", None) is None or (module.bias == 0).all(), name
    assert model["projection"].linear.weight.shape == (500, config.hidden_size)
    assert model["projection"].linear.bias is None
