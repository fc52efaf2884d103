"""Rows without their padding: tokens in their places and back, on the CPU where they are made."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import meant, padded, small_condenser
from torch import Tensor

from condenser.model.rows import Layout, Rows

torch.set_num_threads(1)
CPU, META = torch.device("cpu"), torch.device("meta")
some_lengths = st.lists(st.integers(1, 40), min_size=1, max_size=6)
devices = st.sampled_from([CPU, META])


def in_rows(lengths: list[int], width: int, device: torch.device = CPU) -> Rows:
    ids = np.arange(len(lengths) * width).reshape(len(lengths), width)
    return Rows.of(ids, np.array(lengths), token_types=ids % 2, device=device)


def by_row(layout: Layout, values: Tensor) -> list[Tensor]:
    """The places of each row, padding included."""
    return [row for part in layout.by_group(values) for row in part]


@given(some_lengths, st.integers(0, 4), devices)
@settings(max_examples=60, deadline=None)
def test_ids_columns_and_types_are_those_of_the_tokens(
    lengths: list[int], spare: int, device: torch.device
) -> None:
    width = max(lengths) + spare
    rows = in_rows(lengths, width, device)
    places = [(row, column) for row, length in enumerate(lengths) for column in range(length)]
    multiple = 128 if len(places) >= 128 else 16  # few tokens, as of a query, are filled up less
    assert len(rows.ids) == len(rows.columns) == -(-len(places) // multiple) * multiple
    ids, columns = (meant(each, rows.layout) for each in (rows.ids, rows.columns))
    assert ids.tolist() == [row * width + column for row, column in places]
    assert columns.tolist() == [column for _, column in places]
    assert rows.token_types is not None and torch.equal(meant(rows.token_types, rows.layout), ids % 2)
    assert rows.first.tokens.tolist() == [place for place, (_, column) in enumerate(places) if column == 0]
    in_places, mask = padded(rows)
    assert mask.sum(dim=1).tolist() == lengths and torch.equal(in_places[mask], ids)


@given(some_lengths)
@settings(max_examples=60, deadline=None)
def test_on_a_cpu_rows_of_one_width_stand_together_and_on_a_gpu_all(lengths: list[int]) -> None:
    groups = in_rows(lengths, max(lengths)).layout.groups
    widths = [group.width for group in groups for _ in range(group.num_rows)]
    assert widths == [-(-length // 16) * 16 for length in lengths]
    assert all(one.width != other.width for one, other in pairwise(groups))
    (whole,) = in_rows(lengths, max(lengths), META).layout.groups
    assert (whole.num_rows, whole.width) == (len(lengths), -(-max(lengths) // 8) * 8)
    assert whole.is_padded == any(length < whole.width for length in lengths)


@given(some_lengths, devices)
@settings(max_examples=60, deadline=None)
def test_tokens_return_to_their_places_and_padding_has_no_gradient(
    lengths: list[int], device: torch.device
) -> None:
    rows = in_rows(lengths, max(lengths), device)
    layout = rows.layout
    values = torch.randn(len(rows.ids), 3, dtype=torch.float64, requires_grad=True)
    of_rows, parts = meant(values, layout), layout.by_group(values)
    for row, (places, tokens) in enumerate(zip(by_row(layout, values), of_rows.split(lengths), strict=True)):
        assert torch.equal(places[: lengths[row]], tokens), row
    shown = [
        torch.ones(group.num_rows, group.width, dtype=torch.bool) if mask is None else mask[:, 0, 0]
        for group, mask in zip(layout.groups, layout.shown, strict=True)
    ]
    assert [row.sum().item() for part in shown for row in part] == lengths
    together = layout.together(parts)
    assert together.shape == values.shape and torch.equal(meant(together, layout), of_rows)
    weights = torch.randn_like(values)
    weights[layout.num_tokens :] = 0  # nothing reads what is computed for no row
    leaves = [part.detach().requires_grad_() for part in parts]
    (layout.together(leaves) * weights).sum().backward()
    for leaf, mask in zip(leaves, shown, strict=True):
        assert leaf.grad is not None and (leaf.grad[~mask] == 0).all()
    (gradient,) = torch.autograd.grad((together * weights).sum(), values)
    torch.testing.assert_close(gradient, weights)


@given(some_lengths, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_some_tokens_stand_in_the_groups_of_their_rows(lengths: list[int], draw: Any) -> None:
    rows = in_rows(lengths, max(lengths))
    wanted = [
        (row, column) for row, length in enumerate(lengths) for column in range(length) if draw.random() < 0.3
    ]
    row_numbers, columns = np.array(wanted, dtype=np.int64).reshape(-1, 2).T
    chosen = rows.chosen(row_numbers, columns)
    assert len(chosen.tokens) == -(-len(wanted) // 32) * 32
    meant_ids = rows.ids[meant(chosen.tokens, chosen.layout)]
    assert meant_ids.tolist() == [row * max(lengths) + column for row, column in wanted]
    sizes = [group.num_rows for group in chosen.layout.groups]
    assert sizes == [group.num_rows for group in rows.layout.groups]
    values = torch.arange(float(len(chosen.tokens)))[:, None]
    together = chosen.layout.together(chosen.layout.by_group(values))
    assert torch.equal(meant(together, chosen.layout), meant(values, chosen.layout))
    for row, places in enumerate(by_row(chosen.layout, values)):
        own = [float(place) for place, (of_row, _) in enumerate(wanted) if of_row == row]
        assert places[: len(own), 0].tolist() == own


def test_rows_are_sent_as_a_whole() -> None:
    rows = in_rows([3, 1], 4, META)
    sent = rows.to(META)
    assert (
        sent.token_types is not None and sent.layout.places is not None and sent.layout.is_token is not None
    )
    for tensor in (sent.ids, sent.columns, sent.token_types, sent.first.tokens, sent.layout.places):
        assert tensor.device == META
    # nothing asks a device how many tokens there are: a meta tensor has no content to ask for
    values = sent.ids[:, None].double()
    assert sent.layout.together(sent.layout.by_group(values)).shape == (16, 1)


@pytest.mark.parametrize("is_traced", [False, True])
def test_what_is_traced_keeps_its_padding(is_traced: bool) -> None:
    class Packed(torch.nn.Module):
        def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
            layout = Rows.traced(mask.long(), mask).layout
            return layout.together(layout.by_group(inputs.flatten(0, 1)))

    inputs, mask = torch.randn(2, 3, 1), torch.tensor([[True, True, True], [True, False, False]])
    module = torch.export.export(Packed(), (inputs, mask)).module() if is_traced else Packed()
    assert torch.equal(module(inputs, mask), inputs.flatten(0, 1))


@pytest.mark.parametrize("num_masked", [0, 3])
def test_a_step_asks_the_device_for_nothing(num_masked: int) -> None:
    """A number that the host needs makes it wait for a GPU; PyTorch's device `meta` has none to give."""
    model = small_condenser(dropout=0.1).to("meta").train()
    rows = in_rows([8, 5, 2], 8, META)
    masked = rows.chosen(np.zeros(num_masked, np.int64), np.arange(num_masked)).to(META)
    rows = rows.to(META)
    output = model(rows, masked)
    assert output.late_logits is not None
    (output.vector.sum() + output.head_logits.sum() + output.late_logits.sum()).backward()
    assert model.represent(rows).shape == output.vector.shape == (3, 12)
    assert model.backbone.embeddings.word_embeddings.weight.grad is not None
