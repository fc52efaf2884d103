"""Scaled dot-product attention of rows laid out in groups, with dropout that is fast on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from condenser.model.operations import dropped_signs, is_drawn_here, kept_scale
from condenser.model.rows import Layout


def attention(
    queries: Float[Tensor, "query dim"],
    keys_values: Float[Tensor, "token two_dim"],
    *,
    of: Layout,
    over: Layout,
    num_heads: int,
    probability: float,
    bias: list[Tensor] | None = None,
) -> Float[Tensor, "query dim"]:
    """What each query gathers from the tokens of its row.

    Args:
        keys_values: the keys, and behind them the values.
        of, over: where queries and tokens lie.
        probability: of dropout of the shares.
        bias: for each group, what is added to the scores [row or 1, head or 1, query, token].
    """
    gathered = []
    groups = zip(
        *(of.by_group(queries), over.by_group(keys_values), over.shown, _each(bias, over)),
        strict=True,
    )
    for group_queries, group_keys_values, mask, group_bias in groups:
        keys, values = group_keys_values.chunk(2, dim=-1)
        of_group = _of_group(
            by_head(group_queries, num_heads),
            by_head(keys, num_heads),
            by_head(values, num_heads),
            mask,
            group_bias,
            probability,
        )
        gathered.append(of_group.transpose(1, 2).flatten(2))
    return of.together(gathered)


def _each(bias: Sequence[Tensor] | None, layout: Layout) -> Sequence[Tensor | None]:
    """What is added in each group."""
    return [None] * len(layout.groups) if bias is None else bias


def scores(
    queries: Float[Tensor, "query dim"],
    keys: Float[Tensor, "token dim"],
    *,
    of: Layout,
    over: Layout,
    num_heads: int,
    bias: list[Tensor] | None,
) -> list[Float[Tensor, "_ _ _ _"]]:
    """For each group, what a softmax makes shares of, [row, head, query, place]; -inf at padding."""
    by_group = []
    for group_queries, group_keys, mask, group_bias in zip(
        *(of.by_group(queries), over.by_group(keys), over.shown, _each(bias, over)),
        strict=True,
    ):
        product = by_head(group_queries, num_heads) @ by_head(group_keys, num_heads).transpose(-1, -2)
        product = product * (queries.shape[-1] // num_heads) ** -0.5
        product = product if group_bias is None else product + group_bias
        by_group.append(product if mask is None else product.masked_fill(~mask, -torch.inf))
    return by_group


def by_head(
    states: Float[Tensor, "row place dim"], num_heads: int
) -> Float[Tensor, "row {num_heads} place size"]:
    """What each head sees of queries, keys or values."""
    return states.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def _of_group(
    queries: Float[Tensor, "row head query size"],
    keys: Float[Tensor, "row head token size"],
    values: Float[Tensor, "row head token size"],
    shown: Bool[Tensor, "row 1 1 token"] | None,
    bias: Float[Tensor, "_ _ query token"] | None,
    probability: float,
) -> Float[Tensor, "row head query size"]:
    if bias is not None:
        bias = bias.to(queries.dtype)
        bias = bias if shown is None else bias.masked_fill(~shown, -torch.inf)
    if bias is not None and torch.compiler.is_compiling():  # the exporter takes no attention with a bias
        shares = queries @ keys.transpose(-1, -2) * queries.shape[-1] ** -0.5 + bias
        return torch.softmax(shares, dim=-1) @ values
    if not is_drawn_here(queries, probability):
        mask = shown if bias is None else bias.expand(-1, queries.shape[1], -1, -1)
        return functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, dropout_p=probability
        )
    if bias is None and shown is not None:
        bias = torch.zeros(shown.shape, dtype=queries.dtype).masked_fill_(~shown, -torch.inf)
    gathered: Tensor = _DroppedAttention.apply(queries, keys, values, bias, probability)
    return gathered


class _DroppedAttention(torch.autograd.Function):
    """softmax(q k / sqrt(size)) with dropout, times v: few passes over [row, head, query, token].

    A share is not negative. So its sign, set where it is dropped, holds the dropout for the backward pass.
    """

    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, probability: float
    ) -> Tensor:
        num_rows, num_heads = queries.shape[:2]
        ctx.scale, ctx.kept_scale = queries.shape[-1] ** -0.5, kept_scale(probability)
        queries, keys, values = ((part.flatten(0, 1)) for part in (queries * ctx.scale, keys, values))
        shares = torch.bmm(queries, keys.transpose(1, 2))
        if bias is not None:
            shares.unflatten(0, (num_rows, num_heads)).add_(bias)
            ctx.bias_shape = bias.shape
        torch.softmax(shares, dim=-1, out=shares)
        _set_signs(shares, dropped_signs(shares.numel(), probability))
        ctx.save_for_backward(queries, keys, values, shares)
        return torch.bmm(shares.relu(), values).mul_(ctx.kept_scale).unflatten(0, (num_rows, num_heads))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, values, shares = ctx.saved_tensors
        rows = gradient.shape[:2]
        gradient = (gradient * ctx.kept_scale).flatten(0, 1)
        of_values = torch.bmm(shares.relu().transpose(1, 2), gradient)
        of_shares = torch.bmm(gradient, values.transpose(1, 2))
        of_shares = torch.ops.aten.threshold_backward(of_shares, shares, 0)
        of_scores = torch._softmax_backward_data(of_shares, shares.abs(), -1, shares.dtype)
        of_queries = torch.bmm(of_scores, keys).mul_(ctx.scale)
        of_keys = torch.bmm(of_scores.transpose(1, 2), queries)
        of_bias = (
            of_scores.unflatten(0, rows).sum_to_size(ctx.bias_shape) if ctx.needs_input_grad[3] else None
        )
        return *(part.unflatten(0, rows) for part in (of_queries, of_keys, of_values)), of_bias, None


def _set_signs(shares: Tensor, dropped: Tensor) -> None:
    """Make the shares negative where `dropped`, int16 numbers of which only the sign counts, is."""
    if shares.dtype in (torch.bfloat16, torch.float16):
        shares.view(torch.int16).view(-1).bitwise_or_(dropped)
    else:
        shares.view(-1).copysign_(dropped)
