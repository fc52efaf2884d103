"""Run one layer of BERT, at every position or only at the positions whose output is needed.

A masked language model needs the last layer at the masked positions (15 % of them), a retriever whose
vector is [CLS] at [CLS] alone. Attention still looks at every token. Its output projection and the
feed-forward layer are computed at the needed positions only.
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

Positions = Literal["cls", "all"] | Int[Tensor, " position"]


def padding_mask(lengths: Int[Tensor, " row"], *, width: int) -> Bool[Tensor, "row token"] | None:
    """True at the tokens of each row, False at its padding; None when no row is padded.

    Without a mask, attention uses its fastest kernel. `lengths` should be on the CPU: the test for
    padding would make the program wait for a GPU.
    """
    if bool((lengths >= width).all()):
        return None
    return torch.arange(width, device=lengths.device)[None, :] < lengths[:, None]


def broadcast_mask(mask: Bool[Tensor, "row token"] | None) -> Bool[Tensor, "row 1 1 token"] | None:
    """The padding mask in attention's shape: the same keys for every head and every query."""
    return None if mask is None else mask[:, None, None, :]


def full_layer(
    layer: BertLayer,
    states: Float[Tensor, "row token dim"],
    mask: Bool[Tensor, "row 1 1 token"] | None,
    *,
    recompute: bool,
) -> Float[Tensor, "row token dim"]:
    """Output of a layer at every position.

    `recompute` turns activation checkpointing on: the backward pass computes the layer again, with the
    same dropout. That is a quarter more work, and holds one layer's activations instead of all layers'.
    """
    if recompute and torch.is_grad_enabled():
        output = checkpoint(layer, states, mask, use_reentrant=False)
    else:
        output = layer(states, mask)
    # older versions of transformers return a tuple here
    assert isinstance(output, Tensor) and output.shape == states.shape, type(output)
    return output


def layer_at(
    layer: BertLayer,
    states: Float[Tensor, "row token dim"],
    mask: Bool[Tensor, "row 1 1 token"] | None,
    positions: Sequence[Positions],
) -> list[Float[Tensor, "_ dim"]]:
    """Output of a layer at some positions only, one tensor for each entry of `positions`.

    An entry is "cls" (the first token of every row: [row, dim]), "all" ([row * token, dim]) or flat
    positions into row * token ([position, dim]). Keys and values are computed once. Entries are computed
    in order and each draws its own dropout, so the dropout of an entry never depends on the entries after
    it. The gradient cache relies on this: its first pass asks for "cls", its second for "cls" and more.

    Without dropout, values and gradients are those of the plain layer at these positions.
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
        read = states[:, :1] if isinstance(entry, str) and entry == "cls" else states
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
