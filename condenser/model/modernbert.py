"""ModernBERT over texts without their padding: LayerNorms before, rotated positions, windows of attention.

Within a layer the modules are named as in transformers' `ModernBertModel`. The norm behind the last layer is
part of that layer here. Source: Warner et al. 2024, with the arithmetic of transformers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from condenser.encoders import ModernBertConfig
from condenser.model.attention import attention, scores
from condenser.model.encoder import ACTIVATIONS, Encoder, EncoderLayer
from condenser.model.operations import add_dropped, dropout, linear, product, product_dtype
from condenser.model.relative_positions import window_bias
from condenser.model.rows import Chosen, Rows


class ModernBert(Encoder):
    """The encoder, which has no pooler."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        self.config: ModernBertConfig = config
        self.pooler = None
        self.embeddings = Embeddings(config)
        self.encoder = Layers(config)

    @property
    def layers(self) -> list[EncoderLayer]:
        """The layers, in order."""
        return cast("list[EncoderLayer]", [*self.encoder.layer])

    @property
    def word_embeddings(self) -> nn.Parameter:
        """Those of the input."""
        return cast("nn.Parameter", self.embeddings.tok_embeddings.weight)

    def embedded(self, rows: Rows) -> Float[Tensor, "token dim"]:
        """The input of the first layer."""
        states: Tensor = self.embeddings(rows)
        return states

    def new_layers(self, count: int) -> nn.ModuleList:
        """More layers, with attention to the whole text; a norm is behind the last, as in the encoder."""
        return nn.ModuleList(
            Layer(self.config, "full_attention", is_first=False, is_last=number == count - 1)
            for number in range(count)
        )


class Embeddings(nn.Module):
    """The input of the first layer: words alone."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        dim = config.hidden_size
        self.tok_embeddings = nn.Embedding(config.vocab_size, dim, padding_idx=config.pad_token_id)
        self.norm = _norm(config)
        self._dropout = config.embedding_dropout

    def forward(self, rows: Rows) -> Float[Tensor, "token dim"]:
        """The state of each token."""
        states = self.norm(self.tok_embeddings(rows.ids))
        return dropout(states, self._dropout if self.training else 0.0)


class Layers(nn.Module):
    """Holds the layers."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        last = config.num_hidden_layers - 1
        self.layer = nn.ModuleList(
            Layer(config, kind, is_first=number == 0, is_last=number == last)
            for number, kind in enumerate(config.layer_types)
        )


class Layer(EncoderLayer):
    """Attention and a feed-forward network, each with LayerNorm before it and a residual connection."""

    def __init__(self, config: ModernBertConfig, kind: str, *, is_first: bool, is_last: bool) -> None:
        super().__init__()
        self.attn_norm = nn.Identity() if is_first else _norm(config)
        self.attn = Attention(config, kind)
        self.mlp_norm = _norm(config)
        self.mlp = FeedForward(config)
        self.final_norm = _norm(config) if is_last else nn.Identity()
        self._dropout = config.attention_probs_dropout_prob

    def forward(
        self, states: Float[Tensor, "token dim"], rows: Rows, wanted: Sequence[Chosen | None]
    ) -> list[Float[Tensor, "_ dim"]]:
        """See `EncoderLayer`."""
        normed = self.attn_norm(states)
        normed = normed.to(product_dtype(normed))
        keys_values, outputs = self.attn.keys_values(normed, rows), []
        for chosen in wanted:
            read, asked = states, normed
            if chosen is not None:
                read, asked = (each.index_select(0, chosen.tokens) for each in (states, normed))
            attended = add_dropped(
                read, self.attn(asked, keys_values, rows, chosen), self._dropout if self.training else 0.0
            )
            outputs.append(self.final_norm(attended + self.mlp(self.mlp_norm(attended))))
        return outputs

    def first_row_scores(
        self, states: Float[Tensor, "token dim"], rows: Rows
    ) -> list[Float[Tensor, "_ _ 1 _"]]:
        """See `EncoderLayer`."""
        normed, first = self.attn_norm(states), rows.first
        return scores(
            self.attn.queries(normed.index_select(0, first.tokens), rows, first),
            self.attn.keys_values(normed, rows).chunk(2, dim=-1)[0],
            of=first.layout,
            over=rows.layout,
            num_heads=self.attn.num_heads,
            bias=self.attn.bias(rows, first, dtype=states.dtype),
        )


class Attention(nn.Module):
    """Self-attention with rotated queries and keys, in a window or not."""

    def __init__(self, config: ModernBertConfig, kind: str) -> None:
        super().__init__()
        dim = config.hidden_size
        self.Wqkv = nn.Linear(dim, 3 * dim, bias=config.attention_bias)
        self.Wo = nn.Linear(dim, dim, bias=config.attention_bias)
        self.num_heads, self._dropout = config.num_attention_heads, config.attention_probs_dropout_prob
        self._theta = getattr(config.rope_parameters, kind).rope_theta
        self._reach = config.local_attention // 2 if kind == "sliding_attention" else None

    def queries(
        self, normed: Float[Tensor, "query dim"], rows: Rows, chosen: Chosen | None
    ) -> Float[Tensor, "query dim"]:
        """The rotated queries of the chosen tokens, None for all."""
        columns = rows.columns if chosen is None else rows.columns.index_select(0, chosen.tokens)
        return self._rotated(self._linear(normed, 0, 1), columns)

    def keys_values(self, normed: Float[Tensor, "token dim"], rows: Rows) -> Float[Tensor, "token two_dim"]:
        """Rotated keys, and values behind them."""
        keys, values = self._linear(normed, 1, 3).chunk(2, dim=-1)
        return torch.cat([self._rotated(keys, rows.columns), values], dim=-1)

    def bias(self, rows: Rows, chosen: Chosen | None, *, dtype: torch.dtype) -> list[Tensor] | None:
        """What hides tokens outside of the window; None without one, or if every text fits into it."""
        if self._reach is None:
            return None
        reach, groups = self._reach, rows.layout.groups
        # an export is for texts of every width
        if not torch.compiler.is_compiling() and all(group.width <= reach + 1 for group in groups):
            return None
        return window_bias(rows, chosen, reach=self._reach, dtype=dtype)

    def forward(
        self,
        normed: Float[Tensor, "query dim"],
        keys_values: Float[Tensor, "token two_dim"],
        rows: Rows,
        chosen: Chosen | None,
    ) -> Float[Tensor, "query dim"]:
        """What the chosen tokens, None for all, gather from their rows."""
        gathered = attention(
            self.queries(normed, rows, chosen),
            keys_values,
            of=rows.layout if chosen is None else chosen.layout,
            over=rows.layout,
            num_heads=self.num_heads,
            probability=self._dropout if self.training else 0.0,
            bias=self.bias(rows, chosen, dtype=normed.dtype),
        )
        return linear(gathered, self.Wo)

    def _linear(self, normed: Float[Tensor, "token dim"], first: int, end: int) -> Float[Tensor, "token out"]:
        """A part of the layer that makes queries, keys and values."""
        dim = normed.shape[-1]
        part = slice(first * dim, end * dim)
        bias = None if self.Wqkv.bias is None else self.Wqkv.bias[part]
        return product(normed, [self.Wqkv.weight[part]], [bias])

    def _rotated(
        self, states: Float[Tensor, "token dim"], columns: Int[Tensor, " token"]
    ) -> Float[Tensor, "token dim"]:
        """Each head's halves, as pairs, turned by an angle for each column (RoPE). Angles are in float32."""
        by_head = states.unflatten(-1, (self.num_heads, -1))
        by_head = by_head if by_head.dtype == torch.float64 else by_head.float()
        size = by_head.shape[-1]
        evens = torch.arange(0, size, 2, device=columns.device, dtype=torch.float32)
        angles = columns[:, None].float() * (1.0 / self._theta ** (evens / size))
        cosines, sines = (turn.to(by_head.dtype)[:, None, :] for turn in (angles.cos(), angles.sin()))
        one, other = by_head.chunk(2, dim=-1)
        turned = torch.cat([one * cosines - other * sines, other * cosines + one * sines], dim=-1)
        return turned.flatten(1).to(states.dtype)


class FeedForward(nn.Module):
    """A gated linear unit."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        self.Wi = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=config.mlp_bias)
        self.Wo = nn.Linear(config.intermediate_size, config.hidden_size, bias=config.mlp_bias)
        self._activation = ACTIVATIONS[config.hidden_act]
        self._dropout = config.hidden_dropout_prob

    def forward(self, states: Float[Tensor, "token dim"]) -> Float[Tensor, "token dim"]:
        """The activation of one half times the other, with dropout, in a linear layer."""
        wide, gate = linear(states, self.Wi).chunk(2, dim=-1)
        return linear(
            dropout(self._activation(wide) * gate, self._dropout if self.training else 0.0), self.Wo
        )


def _norm(config: ModernBertConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps, bias=config.norm_bias)
