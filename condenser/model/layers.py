"""Run the layers of a BERT over texts of different lengths, without their padding (`condenser.model.rows`).

A layer can also run at some tokens alone. A masked language model needs the last layer at the masked tokens
(15 % of them), a retriever whose vector is [CLS] at [CLS]. Attention still looks at every token. Its output
projection and the feed-forward layer are computed at the needed tokens only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import BertModel
from transformers.models.bert.modeling_bert import BertEmbeddings, BertLayer

from condenser.model.dropout import attention
from condenser.model.rows import Rows

Wanted = Literal["cls", "all"] | Int[Tensor, " some"]


def embed(embeddings: BertEmbeddings, rows: Rows) -> Float[Tensor, "token dim"]:
    """The input of the first layer."""
    columns = torch.arange(rows.ids.shape[1], device=rows.ids.device).expand_as(rows.ids)
    types = torch.zeros_like(rows.ids) if rows.token_types is None else rows.token_types
    ids, positions, types = (rows.packed(each)[None] for each in (rows.ids, columns, types))
    states: Tensor = embeddings(ids, types, positions)
    return states[0]


def full_layer(
    layer: BertLayer, states: Float[Tensor, "token dim"], rows: Rows, *, recompute: bool
) -> Float[Tensor, "token dim"]:
    """Output of a layer at every token.

    `recompute` turns activation checkpointing on: the backward pass computes the layer again, with the
    same dropout. That is a quarter more work, and holds one layer's activations instead of all layers'.
    """
    if recompute and torch.is_grad_enabled():
        (output,) = checkpoint(layer_at, layer, states, rows, ["all"], use_reentrant=False)
    else:
        (output,) = layer_at(layer, states, rows, ["all"])
    return output


def before_last_layer(
    backbone: BertModel, rows: Rows, *, recompute: bool, skip_from: int = 0
) -> tuple[Float[Tensor, "token dim"], Float[Tensor, "token dim"]]:
    """The output of layer `skip_from` (0: the embeddings), and the input of the last layer."""
    states = early = embed(backbone.embeddings, rows)
    for number, layer in enumerate(backbone.encoder.layer[:-1], start=1):
        states = full_layer(layer, states, rows, recompute=recompute)
        if number == skip_from:
            early = states
    return early, states


def layer_at(
    layer: BertLayer, states: Float[Tensor, "token dim"], rows: Rows, wanted: Sequence[Wanted]
) -> list[Float[Tensor, "_ dim"]]:
    """Output of a layer at some tokens only, one tensor for each entry of `wanted`.

    An entry is "cls" (the first token of every row), "all", or which tokens. Keys and values are computed
    once. Entries are computed in order and each draws its own dropout, so the dropout of an entry never
    depends on the entries after it. The gradient cache relies on this: its first pass asks for "cls", its
    second for "cls" and more.

    Without dropout, values and gradients are those of the plain layer at these tokens.
    """
    module = layer.attention.self
    keys, values = (by_head(layer, rows.laid_out(project(states))) for project in (module.key, module.value))
    outputs = []
    for entry in wanted:
        is_cls = isinstance(entry, str) and entry == "cls"
        read = states.index_select(0, rows.first_tokens) if is_cls else states
        queries = module.query(read)
        context = attention(
            by_head(layer, queries[:, None] if is_cls else rows.laid_out(queries)),
            keys,
            values,
            rows.attended,
            scale=module.scaling,
            probability=module.dropout.p if layer.training else 0.0,
        )
        context = context.transpose(1, 2).flatten(2)
        context = context[:, 0] if is_cls else rows.packed(context)
        if not isinstance(entry, str):
            context, read = context.index_select(0, entry), read.index_select(0, entry)
        outputs.append(layer.feed_forward_chunk(layer.attention.output(context, read)))
    return outputs


def by_head(
    layer: BertLayer, laid_out: Float[Tensor, "row place dim"]
) -> Float[Tensor, "row head place size"]:
    """What each head of a layer's attention sees of queries, keys or values."""
    module = layer.attention.self
    return laid_out.unflatten(-1, (module.num_attention_heads, module.attention_head_size)).transpose(1, 2)
