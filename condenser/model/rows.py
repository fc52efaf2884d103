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

CPU = torch.device("cpu")
TOKENS_MULTIPLE, CHOSEN_MULTIPLE = 128, 32  # of all tokens of a chunk; of those that a last layer computes
_FEW_MULTIPLE = 16  # of the tokens of a chunk with fewer than TOKENS_MULTIPLE, as a query has
_GPU_MULTIPLE = 8  # of a row, in which matrices are multiplied fastest
_CPU_MULTIPLE = 16  # of others, PyTorch's softmax of bfloat16 takes up to three times as long on a CPU
Part = TypeVar("Part", bound="OnDevice")


@dataclass(frozen=True)
class OnDevice:
    """Tensors that go to a device together. They are made on the CPU, where sizes are known at once."""

    def to(self: Part, device: torch.device) -> Part:
        """A copy on a device."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        there = {
            name: copy_to(value, device) if isinstance(value, Tensor) else value.to(device)
            for name, value in held.items()
            if isinstance(value, Tensor | OnDevice)
        }
        return replace(self, **there)


def copy_to(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy of a CPU tensor on a device. From pinned memory, the CPU does not wait for the GPU."""
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
        cls,
        lengths: Int[np.ndarray, " row"],
        widths: Int[np.ndarray, " row"],
        sizes: Int[np.ndarray, " group"],
        *,
        num_computed: int,
    ) -> Layout:
        """Rows of these lengths and widths, `sizes` of them in each group; `num_computed` tokens in all."""
        num_tokens, begins = int(lengths.sum()), (np.cumsum(sizes) - sizes).tolist()
        is_padded = np.logical_or.reduceat(lengths < widths, begins).tolist()
        groups = tuple(map(Group, sizes.tolist(), widths[begins].tolist(), is_padded))
        if num_computed == num_tokens and not any(is_padded):
            return cls(groups, num_tokens)
        places = np.zeros(num_computed, dtype=np.int64)
        places[:num_tokens] = _of_row(np.cumsum(widths) - widths, lengths)
        is_token = np.zeros(int(widths.sum()), dtype=bool)
        is_token[places[:num_tokens]] = True
        tokens = np.maximum(np.cumsum(is_token) - 1, 0)
        return cls(groups, num_tokens, *map(torch.from_numpy, (places, tokens, is_token)))

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

    def numbers_by_group(self, numbers: Int[Tensor, " token"]) -> list[Int[Tensor, "_ _"]]:
        """The numbers of tokens in their places; padding has that of a token."""
        placed = numbers if self.tokens is None else numbers.index_select(0, self.tokens)
        return [
            part.unflatten(0, (group.num_rows, group.width))
            for part, group in zip(self._split(placed), self.groups, strict=True)
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

    Entries after `layout.num_tokens` are padding.
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
        num_tokens, firsts = int(lengths.sum()), np.cumsum(lengths) - lengths
        is_short = num_tokens < TOKENS_MULTIPLE
        num_computed = padded_count(num_tokens, multiple=_FEW_MULTIPLE if is_short else TOKENS_MULTIPLE)
        places = _of_row(np.arange(0, ids.size, ids.shape[1]), lengths)
        widths = row_widths(lengths, on_cpu=device.type == "cpu")
        sizes = np.diff(np.flatnonzero(np.diff(widths, prepend=0, append=0)))
        layout = Layout.of(lengths, widths, sizes, num_computed=num_computed)

        def of_tokens(values: np.ndarray) -> Tensor:
            padded = np.zeros(num_computed, dtype=np.int64)
            padded[:num_tokens] = values
            return torch.from_numpy(padded)

        return cls(
            of_tokens(ids.ravel()[places]),
            of_tokens(_of_row(np.zeros_like(lengths), lengths)),
            None if token_types is None else of_tokens(token_types.ravel()[places]),
            Chosen(torch.from_numpy(firsts), layout.of_one_each()),
            layout,
            lengths,
        )

    def last(self) -> Chosen:
        """The last token of every row, [SEP]."""
        if len(self.lengths):
            lengths = torch.from_numpy(self.lengths).to(self.ids.device)
            return Chosen(self.first.tokens + lengths - 1, self.first.layout)
        assert self.layout.is_token is not None  # an export: see `traced`
        of_rows = self.layout.is_token.unflatten(0, (self.layout.groups[0].num_rows, -1))
        return Chosen(self.first.tokens + of_rows.sum(dim=1) - 1, self.first.layout)

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
        widths = np.repeat(np.maximum.reduceat(counts, np.cumsum(sizes) - sizes), sizes)
        tokens = np.zeros(padded_count(len(rows), multiple=CHOSEN_MULTIPLE), dtype=np.int64)
        tokens[: len(rows)] = (np.cumsum(self.lengths) - self.lengths)[rows] + columns
        layout = Layout.of(counts, widths, sizes, num_computed=len(tokens))
        return Chosen(torch.from_numpy(tokens), layout)


def _of_row(begins: Int[np.ndarray, " row"], lengths: Int[np.ndarray, " row"]) -> Int[np.ndarray, " token"]:
    """Numbers that count on from a row's first one, `lengths` of them.

    >>> _of_row(np.array([10, 20]), np.array([3, 2]))
    array([10, 11, 12, 20, 21])
    """
    return np.arange(int(lengths.sum())) + np.repeat(begins - np.cumsum(lengths) + lengths, lengths)


def padded_count(count: int, *, multiple: int) -> int:
    """Tokens that are computed for so many: some more, so that few different numbers occur.

    oneDNN compiles a product for every number of tokens, which takes 2 to 4 ms.

    >>> padded_count(130, multiple=128), padded_count(0, multiple=128)
    (256, 0)
    """
    return -(-count // multiple) * multiple


def row_widths(lengths: Int[np.ndarray, " row"], *, on_cpu: bool) -> Int[np.ndarray, " row"]:
    """How wide attention lays out rows of these lengths; consecutive ones of one width are computed together.

    On a GPU all rows have one width. On a CPU, where large products are no faster, little is padded.

    >>> row_widths(np.array([40, 33, 5]), on_cpu=True), row_widths(np.array([40, 33, 5]), on_cpu=False)
    (array([48, 48, 16]), array([40, 40, 40]))
    """
    if on_cpu:
        return -(-lengths // _CPU_MULTIPLE) * _CPU_MULTIPLE
    return np.full_like(lengths, padded_count(int(lengths.max()), multiple=_GPU_MULTIPLE))


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
