"""Rows without their padding: tokens in their places and back, on the CPU where they are made."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import small_condenser
from torch import Tensor

from condenser.model.rows import Rows

torch.set_num_threads(1)
some_lengths = st.lists(st.integers(1, 12), min_size=1, max_size=6)


def in_rows(lengths: list[int], width: int) -> Rows:
    ids = np.arange(len(lengths) * width).reshape(len(lengths), width)
    return Rows.of(ids, np.array(lengths), token_types=ids % 2)


@given(some_lengths, st.integers(0, 4))
@settings(max_examples=40, deadline=None)
def test_a_mask_is_there_where_a_row_is_padded(lengths: list[int], spare: int) -> None:
    width = max(lengths) + spare
    rows = in_rows(lengths, width)
    assert rows.num_tokens == sum(lengths)
    if rows.mask is None:
        assert lengths == [width] * len(lengths)
    else:
        assert rows.mask.tolist() == [[True] * n + [False] * (width - n) for n in lengths]
        assert min(lengths) < width


@given(some_lengths, st.integers(0, 4))
@settings(max_examples=40, deadline=None)
def test_tokens_return_to_their_places_and_padding_has_no_gradient(lengths: list[int], spare: int) -> None:
    width = max(lengths) + spare
    rows = in_rows(lengths, width)
    inputs = torch.randn(len(lengths), width, 3, dtype=torch.float64, requires_grad=True)
    is_token = torch.arange(width) < torch.tensor(lengths)[:, None]
    tokens = rows.packed(inputs)
    assert torch.equal(tokens, inputs[is_token])
    assert torch.equal(rows.laid_out(tokens)[is_token], tokens)
    assert torch.equal(tokens[rows.first_tokens], inputs[:, 0])
    assert torch.equal(rows.tokens_at(torch.nonzero(is_token.flatten())[:, 0]), torch.arange(len(tokens)))
    (gradient,) = torch.autograd.grad((rows.laid_out(tokens)[is_token] ** 2).sum(), inputs)
    torch.testing.assert_close(gradient, 2 * inputs * is_token[:, :, None])


def test_rows_are_sent_as_a_whole() -> None:
    sent = in_rows([3, 1], 4).to(torch.device("meta"))
    tensors = [value for value in vars(sent).values() if value is not None]
    assert len(tensors) == 5 and all(value.device.type == "meta" for value in tensors)
    # nothing asks a device how many tokens there are: a meta tensor has no content to ask for
    assert sent.laid_out(sent.packed(sent.ids[:, :, None].double())).shape == (2, 4, 1)
    assert sent.num_tokens == 4 and sent.first_tokens.shape == (2,)


@pytest.mark.parametrize("is_traced", [False, True])
def test_what_is_traced_keeps_its_padding(is_traced: bool) -> None:
    class Packed(torch.nn.Module):
        def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
            return Rows.with_padding(mask.long(), mask).packed(inputs)

    inputs, mask = torch.randn(2, 3, 1), torch.tensor([[True, True, True], [True, False, False]])
    module = torch.export.export(Packed(), (inputs, mask)).module() if is_traced else Packed()
    assert torch.equal(module(inputs, mask), inputs.flatten(0, 1))


@pytest.mark.parametrize("num_masked", [0, 3])
def test_a_step_asks_the_device_for_nothing(num_masked: int) -> None:
    """A number that the host needs makes it wait for a GPU; PyTorch's device `meta` has none to give."""
    model = small_condenser(dropout=0.1).to("meta").train()
    rows = in_rows([8, 5, 2], 8).to(torch.device("meta"))
    output = model(rows, torch.empty(num_masked, dtype=torch.int64, device="meta"))
    assert output.late_logits is not None
    (output.vector.sum() + output.head_logits.sum() + output.late_logits.sum()).backward()
    assert model.represent(rows).shape == output.vector.shape == (3, 12)
    assert model.backbone.embeddings.word_embeddings.weight.grad is not None
