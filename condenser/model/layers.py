"""BERT's layers run one by one, in whole or only at the positions whose output somebody reads.

A masked language model reads its last layer at the masked positions (15 % of them), a retriever
at [CLS] alone. Attention still looks at every token; queries, output projection and feed-forward
are spared elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers.models.bert.modeling_bert import BertLayer

from condenser.model.dropout import attention

Positions = Literal["cls"] | Int[Tensor, " position"]


def padding_mask(lengths: Int[Tensor, " row"], *, width: int) -> Bool[Tensor, "row token"] | None:
    """True at the tokens of each row, False at its padding; None when no row is padded.

    Give it lengths that lie on the CPU: asking whether all rows are full would make a GPU wait.
    None lets attention use its quickest kernel.
    """
    if bool((lengths >= width).all()):
        return None
    return torch.arange(width, device=lengths.device)[None, :] < lengths[:, None]


def broadcast_mask(mask: Bool[Tensor, "row token"] | None) -> Bool[Tensor, "row 1 1 token"] | None:
    """A padding mask in the shape attention wants: every head and every query sees the same keys."""
    return None if mask is None else mask[:, None, None, :]


def full_layer(
    layer: BertLayer,
    states: Float[Tensor, "row token dim"],
    mask: Bool[Tensor, "row 1 1 token"] | None,
    *,
    recompute: bool,
) -> Float[Tensor, "row token dim"]:
    """Output of a layer at every position.

    With `recompute` what happens inside is not kept for the way back but computed again there, with the
    same dropout: a quarter more work and a layer's memory in place of all layers'.
    """
    if recompute and torch.is_grad_enabled():
        output = checkpoint(layer, states, mask, use_reentrant=False)
    else:
        output = layer(states, mask)
    # transformers once returned a tuple here; taking [0] of a tensor would be the first row
    assert isinstance(output, Tensor) and output.shape == states.shape, type(output)
    return output


def layer_at(
    layer: BertLayer,
    states: Float[Tensor, "row token dim"],
    mask: Bool[Tensor, "row 1 1 token"] | None,
    positions: Sequence[Positions],
) -> list[Float[Tensor, "_ dim"]]:
    """Output of a layer at some positions only, one tensor for each entry of `positions`.

    An entry is "cls" (the first token of every row: [row, dim]) or flat positions into
    row * token ([position, dim]). Keys and values are computed once. Entries are computed in order
    and each draws its own dropout, so what an entry gives depends on the entries before it and
    never on those behind it: the gradient cache's first pass asks for "cls" alone, its second for
    "cls" and more, and both see the same dropout masks.

    With dropout off the values and gradients are the plain layer's at those positions.
    """
    module = layer.attention.self
    num_rows, _, dim = states.shape

    def by_head(projected: Tensor) -> Tensor:
        return projected.view(num_rows, -1, module.num_attention_heads, module.attention_head_size).transpose(
            1, 2
        )

    keys, values = by_head(module.key(states)), by_head(module.value(states))
    outputs = []
    for entry in positions:
        read = states[:, :1] if isinstance(entry, str) else states
        context = attention(
            by_head(module.query(read)),
            keys,
            values,
            mask,
            scale=module.scaling,
            probability=module.dropout.p if layer.training else 0.0,
        )
        context, read = context.transpose(1, 2).reshape(-1, dim), read.reshape(-1, dim)
        if not isinstance(entry, str):
            context, read = context.index_select(0, entry), read.index_select(0, entry)
        outputs.append(layer.feed_forward_chunk(layer.attention.output(context, read)))
    return outputs
