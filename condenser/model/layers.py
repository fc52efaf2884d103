"""Run a BERT over texts of different lengths: its layers compute tokens alone, without padding.

The tokens of all rows lie one behind the other, [token, dim]. They are laid out in rows of one width only
inside attention, whose products are less than a twentieth of a layer's at 128 tokens.

A layer can also run at some tokens alone. A masked language model needs the last layer at the masked tokens
(15 % of them), a retriever whose vector is [CLS] at [CLS]. Attention still looks at every token. Its output
projection and the feed-forward layer are computed at the needed tokens only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers.models.bert.modeling_bert import BertEmbeddings, BertLayer

from condenser.model.dropout import attention

Wanted = Literal["cls", "all"] | Int[Tensor, " some"]


def padding_mask(lengths: Int[Tensor, " row"], *, width: int) -> Bool[Tensor, "row place"] | None:
    """True at the tokens of each row, False at its padding; None when no row is padded.

    Without a mask, attention uses its fastest kernel. `lengths` should be on the CPU: the test for
    padding would make the program wait for a GPU.
    """
    if bool((lengths >= width).all()):
        return None
    return torch.arange(width, device=lengths.device)[None, :] < lengths[:, None]


class Rows:
    """Where the tokens of a forward pass lie: each in a place of its row, and one behind the other.

    A place is counted through all rows: row * width + column. What torch.compile and torch.export trace
    keeps its padding as if it were tokens, because its shapes must not depend on a mask's content.
    """

    def __init__(self, input_ids: Int[Tensor, "row place"], mask: Bool[Tensor, "row place"] | None) -> None:
        """
        Args:
            mask: True at tokens, of which the first place of every row is one; None if no row is padded.
        """
        self._shape = input_ids.shape
        self.mask = mask
        self._places: Tensor | None = None  # of each token; None: places are tokens
        if mask is not None and not torch.compiler.is_compiling():
            is_token = mask.flatten()
            self._places = is_token.nonzero()[:, 0]
            self._tokens = is_token.cumsum(0) - 1  # at each place; at padding the token before it
            self._is_token = is_token[:, None]
        num_rows, width = self._shape
        self.first_tokens = self.tokens_at(torch.arange(0, num_rows * width, width, device=input_ids.device))
        """The first token of every row, [CLS]."""

    @property
    def attended(self) -> Bool[Tensor, "row 1 1 place"] | None:
        """The mask in attention's shape: the same keys for every head and every query."""
        return None if self.mask is None else self.mask[:, None, None, :]

    def tokens_at(self, places: Int[Tensor, " some"]) -> Int[Tensor, " some"]:
        """The tokens in these places."""
        return places if self._places is None else self._tokens.index_select(0, places)

    def packed(self, laid_out: Shaped[Tensor, "row place ..."]) -> Shaped[Tensor, "token ..."]:
        """What is in the places of tokens; the gradient of padding is zero."""
        values = laid_out.flatten(0, 1)
        if self._places is None:
            return values
        kept: Tensor = _WithoutPadding.apply(values, self._places, self._tokens, self._is_token)
        return kept

    def laid_out(self, values: Float[Tensor, "token dim"]) -> Float[Tensor, "row place dim"]:
        """The values in the places of their tokens. Padding has those of a token, and no gradient."""
        if self._places is not None:
            values = _WithPadding.apply(values, self._places, self._tokens)
        return values.unflatten(0, self._shape)


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


def embed(
    embeddings: BertEmbeddings,
    input_ids: Int[Tensor, "row place"],
    rows: Rows,
    *,
    token_types: Int[Tensor, "row place"] | None = None,
) -> Float[Tensor, "token dim"]:
    """The input of the first layer. Without `token_types` all are 0."""
    columns = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
    ids, positions, types = (
        rows.packed(each)[None]
        for each in (input_ids, columns, torch.zeros_like(input_ids) if token_types is None else token_types)
    )
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
