"""Texts of different lengths that are computed together, without their padding.

The tokens of all rows lie one behind the other, [token, dim]. Attention alone needs rows of one width. A
`Layout` says where their tokens lie then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from condenser.widths import CHOSEN_MULTIPLE, TOKENS_MULTIPLE, padded_count, width_groups

CPU = torch.device("cpu")
Part = TypeVar("Part", bound="OnDevice")


@dataclass(frozen=True)
class OnDevice:
    """Tensors that go to a device together. They are made on the CPU, where sizes are known at once."""

    def to(self: Part, device: torch.device) -> Part:
        """The same on a device."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        there = {
            name: sent(value, device) if isinstance(value, Tensor) else value.to(device)
            for name, value in held.items()
            if isinstance(value, Tensor | OnDevice)
        }
        return replace(self, **there)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the CPU on a device. From pinned memory, nobody waits until a GPU has come to the copy."""
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)


@dataclass(frozen=True)
class Group:
    """Consecutive rows that are laid out in one width."""

    num_rows: int
    width: int
    is_padded: bool


@dataclass(frozen=True)
class Layout(OnDevice):
    """Places of tokens in rows, group by group; a place is counted through all of them.

    Attributes:
        groups: on a CPU by width, so that little is padded; on a GPU one.
        num_tokens: those of all rows. More may stand behind them, so that products have few shapes.
        places: of each token; None if tokens are places.
        tokens: at each place; at padding the last token of its row.
        is_token: False at padding.
    """

    groups: tuple[Group, ...]
    num_tokens: int
    places: Int[Tensor, " token"] | None = None
    tokens: Int[Tensor, " place"] | None = None
    is_token: Bool[Tensor, " place"] | None = None

    @classmethod
    def of(
        cls, lengths: Int[np.ndarray, " row"], widths: Sequence[tuple[int, int]], *, num_computed: int
    ) -> Layout:
        """Rows of these lengths in groups of so many rows of a width; `num_computed` tokens in all."""
        num_tokens, firsts, begin = int(lengths.sum()), np.cumsum(lengths) - lengths, 0
        groups, tokens, is_token = [], [], []
        last = max(num_tokens - 1, 0)
        for num_rows, width in widths:
            end, columns = begin + num_rows, np.arange(width)
            of_group = lengths[begin:end, None]
            inside = columns < of_group
            at_places = firsts[begin:end, None] + np.minimum(columns, np.maximum(of_group - 1, 0))
            groups.append(Group(num_rows, width, not inside.all()))
            tokens.append(np.minimum(at_places, last).ravel())  # a row without tokens has some of another
            is_token.append(inside.ravel())
            begin = end
        all_inside = np.concatenate(is_token)
        if num_computed == num_tokens and all_inside.all():
            return cls(tuple(groups), num_tokens)
        places = np.pad(np.flatnonzero(all_inside), (0, num_computed - num_tokens))
        arrays = (places, np.concatenate(tokens), all_inside)
        return cls(tuple(groups), num_tokens, *map(torch.from_numpy, arrays))

    def of_one_each(self) -> Layout:
        """The layout of one token of each row, in the same groups."""
        groups = tuple(Group(group.num_rows, 1, False) for group in self.groups)
        return Layout(groups, sum(group.num_rows for group in groups))

    def by_group(self, values: Float[Tensor, "token dim"]) -> list[Float[Tensor, "_ _ dim"]]:
        """The values in the places of their tokens. Padding has those of a token, and no gradient."""
        if self.places is not None:
            values = _WithPadding.apply(values, self.places, self.tokens, self.num_tokens)
        return [
            part.unflatten(0, (group.num_rows, group.width))
            for part, group in zip(self._split(values), self.groups, strict=True)
        ]

    def together(self, by_group: list[Float[Tensor, "_ _ dim"]]) -> Float[Tensor, "token dim"]:
        """What is in the places of tokens; the gradient of padding is zero."""
        parts = [part.flatten(0, 1) for part in by_group]
        values = parts[0] if len(parts) == 1 else torch.cat(parts)
        if self.places is None:
            return values
        kept: Tensor = _WithoutPadding.apply(values, self.places, self.tokens, self.is_token)
        return kept

    @cached_property
    def shown(self) -> list[Bool[Tensor, "_ 1 1 _"] | None]:
        """For each group, True at its tokens; None if it is not padded. In the shape of attention's mask."""
        if self.is_token is None:
            return [None] * len(self.groups)
        return [
            part.view(group.num_rows, 1, 1, group.width) if group.is_padded else None
            for part, group in zip(self._split(self.is_token), self.groups, strict=True)
        ]

    def _split(self, places: Tensor) -> Sequence[Tensor]:
        """The places of each group."""
        if len(self.groups) == 1:  # in an export, whose sizes are no numbers
            return [places]
        return places.split([group.num_rows * group.width for group in self.groups])


@dataclass(frozen=True)
class Chosen(OnDevice):
    """Some tokens of rows, in their order, and their layout in the same groups of rows.

    Behind the `layout.num_tokens` that are meant, others may follow.
    """

    tokens: Int[Tensor, " chosen"]
    layout: Layout


@dataclass(frozen=True)
class Rows(OnDevice):
    """Token ids of texts.

    Attributes:
        ids: token ids. Behind those of the rows others may follow, of no row.
        columns: the place of each token in its row.
        token_types: of each token; None if all are 0.
        first: the first token of every row, [CLS].
        layout: of all tokens.
        lengths: tokens of each row.
    """

    ids: Int[Tensor, " token"]
    columns: Int[Tensor, " token"]
    token_types: Int[Tensor, " token"] | None
    first: Chosen
    layout: Layout
    lengths: Int[np.ndarray, " row"]

    @classmethod
    def of(
        cls,
        ids: Int[np.ndarray, "row place"],
        lengths: Int[np.ndarray, " row"],
        *,
        token_types: Int[np.ndarray, "row place"] | None = None,
        device: torch.device = CPU,
    ) -> Rows:
        """Rows on the CPU, laid out as suits `device`; `lengths` (1 or more) tell tokens from padding.

        They take least time if rows of similar length stand together.
        """
        places = np.arange(ids.shape[1])
        inside = places < lengths[:, None]
        num_computed = padded_count(int(lengths.sum()), multiple=TOKENS_MULTIPLE)
        widths = width_groups(lengths, on_cpu=device.type == "cpu")
        layout = Layout.of(lengths, widths, num_computed=num_computed)

        def of_tokens(values: np.ndarray) -> Tensor:
            kept = values[inside]
            return torch.from_numpy(np.pad(kept, (0, num_computed - len(kept))))

        return cls(
            of_tokens(ids),
            of_tokens(np.broadcast_to(places, ids.shape)),
            None if token_types is None else of_tokens(token_types),
            Chosen(torch.from_numpy(np.cumsum(lengths) - lengths), layout.of_one_each()),
            layout,
            lengths,
        )

    @classmethod
    def traced(cls, ids: Int[Tensor, "row place"], mask: Bool[Tensor, "row place"]) -> Rows:
        """Rows for an export, whose shapes must not depend on the mask: padding is computed like tokens."""
        num_rows, width = ids.shape
        columns = torch.arange(width, device=ids.device)
        firsts = torch.arange(num_rows, device=ids.device) * width
        layout = Layout((Group(num_rows, width, True),), num_rows * width, is_token=mask.flatten())
        return cls(
            ids.flatten(),
            columns.expand(num_rows, width).flatten(),
            None,
            Chosen(firsts, layout.of_one_each()),
            layout,
            np.empty(0, np.int64),
        )

    def chosen(self, rows: Int[np.ndarray, " chosen"], columns: Int[np.ndarray, " chosen"]) -> Chosen:
        """The tokens at these columns of these rows, in ascending order, on the CPU."""
        counts = np.bincount(rows, minlength=len(self.lengths))
        sizes = np.array([group.num_rows for group in self.layout.groups])
        widths = np.maximum.reduceat(counts, np.cumsum(sizes) - sizes)
        firsts = np.cumsum(self.lengths) - self.lengths
        num_computed = padded_count(len(rows), multiple=CHOSEN_MULTIPLE)
        groups = [*zip(sizes.tolist(), widths.tolist(), strict=True)]
        layout = Layout.of(counts, groups, num_computed=num_computed)
        return Chosen(torch.from_numpy(np.pad(firsts[rows] + columns, (0, num_computed - len(rows)))), layout)


# Each is the gradient of the other. PyTorch's own gradient of index_select adds up, token by token, what went
# to the same place: slower, and on a GPU in no fixed order.
class _WithoutPadding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, places: Tensor, tokens: Tensor, is_token: Tensor) -> Tensor:
        ctx.save_for_backward(tokens, is_token)
        return values.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        tokens, is_token = ctx.saved_tensors
        # on a CPU, masked_fill takes five times as long
        return gradient.index_select(0, tokens).mul_(is_token[:, None].to(gradient.dtype)), None, None, None


class _WithPadding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, places: Tensor, tokens: Tensor, num_tokens: int) -> Tensor:
        ctx.save_for_backward(places)
        ctx.num_tokens = num_tokens
        return values.index_select(0, tokens)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (places,) = ctx.saved_tensors
        of_values = gradient.index_select(0, places)
        of_values[ctx.num_tokens :].zero_()
        return of_values, None, None, None
