"""Texts of different lengths that are computed together, without their padding.

The tokens of all rows lie one behind the other, [token, dim]. They are laid out in rows of one width only
inside attention, whose products are less than a twentieth of a layer's at 128 tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor


@dataclass(frozen=True)
class Rows:
    """Token ids of texts, and where their tokens lie: each in a place of its row, and one behind the other.

    A place is counted through all rows: row * width + column. Rows are made on the CPU, where the number of
    tokens is known at once, and sent to a GPU, which nobody then has to wait for.

    Attributes:
        ids: token ids, padded to one width.
        mask: True at tokens; None if no row is padded, for which attention has its fastest kernel.
        token_types: of each id; None if all are 0.
    """

    ids: Int[Tensor, "row place"]
    mask: Bool[Tensor, "row place"] | None
    token_types: Int[Tensor, "row place"] | None = None
    _places: Int[Tensor, " token"] | None = None  # of each token; None: places are tokens
    _tokens: Int[Tensor, " all"] | None = None  # at each place; at padding the token before it

    @classmethod
    def of(
        cls,
        ids: Int[np.ndarray, "row place"],
        lengths: Int[np.ndarray, " row"],
        *,
        token_types: Int[np.ndarray, "row place"] | None = None,
    ) -> Rows:
        """Rows on the CPU; `lengths` (1 or more) tell the tokens of each row from the padding behind them."""
        width = ids.shape[1]
        types = None if token_types is None else torch.from_numpy(token_types)
        if (lengths >= width).all():
            return cls(torch.from_numpy(ids), None, types)
        is_token = np.arange(width) < lengths[:, None]
        places, tokens = np.flatnonzero(is_token), np.cumsum(is_token) - 1
        arrays = map(torch.from_numpy, (places, tokens))
        return cls(torch.from_numpy(ids), torch.from_numpy(is_token), types, *arrays)

    @classmethod
    def with_padding(cls, ids: Int[Tensor, "row place"], mask: Bool[Tensor, "row place"]) -> Rows:
        """Rows whose padding is computed like tokens: for a trace, whose shapes must not depend on a mask."""
        return cls(ids, mask)

    def to(self, device: torch.device) -> Rows:
        """The same rows on a device."""
        tensors = {field.name: getattr(self, field.name) for field in fields(self)}
        there = {name: sent(one, device) for name, one in tensors.items() if one is not None}
        return replace(self, **there)

    @property
    def num_tokens(self) -> int:
        """Tokens of all rows, without padding."""
        return self.ids.numel() if self._places is None else len(self._places)

    @property
    def first_tokens(self) -> Int[Tensor, " row"]:
        """The first token of every row, [CLS]."""
        num_rows, width = self.ids.shape
        return self.tokens_at(torch.arange(0, num_rows * width, width, device=self.ids.device))

    @property
    def attended(self) -> Bool[Tensor, "row 1 1 place"] | None:
        """The mask in attention's shape: the same keys for every head and every query."""
        return None if self.mask is None else self.mask[:, None, None, :]

    def tokens_at(self, places: Int[Tensor, " some"]) -> Int[Tensor, " some"]:
        """The tokens in these places."""
        return places if self._tokens is None else self._tokens.index_select(0, places)

    def packed(self, laid_out: Shaped[Tensor, "row place ..."]) -> Shaped[Tensor, "token ..."]:
        """What is in the places of tokens; the gradient of padding is zero."""
        values = laid_out.flatten(0, 1)
        if self.mask is None or self._places is None:
            return values
        kept: Tensor = _WithoutPadding.apply(values, self._places, self._tokens, self.mask.view(-1, 1))
        return kept

    def laid_out(self, values: Float[Tensor, "token dim"]) -> Float[Tensor, "row place dim"]:
        """The values in the places of their tokens. Padding has those of a token, and no gradient."""
        if self._places is not None:
            values = _WithPadding.apply(values, self._places, self._tokens)
        return values.unflatten(0, self.ids.shape)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the CPU on a device. From pinned memory, nobody waits until a GPU has come to the copy."""
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)


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
        return gradient.index_select(0, tokens).mul_(is_token.to(gradient.dtype)), None, None, None


class _WithPadding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, places: Tensor, tokens: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        return values.index_select(0, tokens)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (places,) = ctx.saved_tensors
        return gradient.index_select(0, places), None, None
