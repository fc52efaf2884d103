"""A BERT over texts without their padding (`condenser.model.rows`); its layers can run at some tokens alone.

Its modules are named as those of transformers' `BertModel`, so that weights go both ways by name. That one
computes padding, and takes two seconds to import, in each of some twenty programs of a table.

Source: Devlin et al. 2019, with the arithmetic of transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from condenser.model.attention import attention
from condenser.model.bert_config import BertConfig
from condenser.model.dropout import add_dropped, dropout
from condenser.model.products import linear, product_dtype
from condenser.model.rows import Chosen, Layout, Rows

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_new": partial(functional.gelu, approximate="tanh"),
    "relu": functional.relu,
}


class Bert(nn.Module):
    """The encoder, with a frozen pooler.

    No objective reads the pooler. It is kept so that `AutoModel` finds every weight of a saved model.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.pooler = Pooler(config)
        self.pooler.requires_grad_(False)

    @property
    def layers(self) -> list[Layer]:
        """The layers, in order."""
        return [*self.encoder.layer]

    def before_last_layer(
        self, rows: Rows, *, recompute: bool, skip_from: int = 0
    ) -> tuple[Float[Tensor, "token dim"], Float[Tensor, "token dim"]]:
        """The output of layer `skip_from` (0: the embeddings), and the input of the last layer."""
        states = early = self.embeddings(rows)
        for number, layer in enumerate(self.layers[:-1], start=1):
            states = layer.at_all(states, rows, recompute=recompute)
            if number == skip_from:
                early = states
        return early, states


class Embeddings(nn.Module):
    """The input of the first layer: words, positions and token types."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        dim = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, dim, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, dim)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, dim)
        self.LayerNorm = nn.LayerNorm(dim, eps=config.layer_norm_eps)
        self._dropout = config.hidden_dropout_prob

    def forward(self, rows: Rows) -> Float[Tensor, "token dim"]:
        """The state of each token."""
        types = self.token_type_embeddings
        of_types = types.weight[0] if rows.token_types is None else types(rows.token_types)
        states = self.word_embeddings(rows.ids) + of_types + self.position_embeddings(rows.columns)
        return dropout(self.LayerNorm(states), self._dropout if self.training else 0.0)


class Encoder(nn.Module):
    """Holds the layers."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))


class Layer(nn.Module):
    """Attention and a feed-forward network, each with a residual connection and LayerNorm behind it."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.intermediate = Intermediate(config)
        self.output = Output(config, config.intermediate_size)

    def forward(
        self, states: Float[Tensor, "token dim"], rows: Rows, wanted: Sequence[Chosen | None]
    ) -> list[Float[Tensor, "_ dim"]]:
        """The layer's output at some tokens, one tensor for each entry of `wanted`; None means all tokens.

        A masked language model needs the last layer at the masked tokens (15 % of them), a retriever whose
        vector is [CLS] at [CLS]. For the other tokens only keys and values are computed, once.
        Entries are computed in order and each draws its own dropout, so the dropout of an entry never
        depends on the entries after it. The gradient cache relies on this: its first pass asks for [CLS],
        its second for [CLS] and more.
        """
        low = states.to(product_dtype(states))  # once, for keys, values and queries
        attend = self.attention.self
        keys_values, outputs = attend.keys_values(low), []
        for chosen in wanted:
            read, asked, of = states, low, rows.layout
            if chosen is not None:
                read, asked = (each.index_select(0, chosen.tokens) for each in (states, low))
                of = chosen.layout
            attended = self.attention.output(attend(asked, keys_values, of=of, over=rows.layout), read)
            outputs.append(self.output(self.intermediate(attended), attended))
        return outputs

    def at_all(
        self, states: Float[Tensor, "token dim"], rows: Rows, *, recompute: bool
    ) -> Float[Tensor, "token dim"]:
        """The layer's output at every token.

        `recompute` turns activation checkpointing on: the backward pass computes the layer again, with the
        same dropout. That is a quarter more work, and holds one layer's activations instead of all layers'.
        """
        if recompute and torch.is_grad_enabled():
            (output,) = checkpoint(self, states, rows, [None], use_reentrant=False)
        else:
            (output,) = self(states, rows, [None])
        return output


class Attention(nn.Module):
    """Self-attention, and what closes it."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.self = SelfAttention(config)
        self.output = Output(config, config.hidden_size)


class SelfAttention(nn.Module):
    """What tokens gather from the tokens of their row."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        dim = config.hidden_size
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))
        self.num_heads, self._dropout = config.num_attention_heads, config.attention_probs_dropout_prob

    def keys_values(self, states: Float[Tensor, "token dim"]) -> Float[Tensor, "token two_dim"]:
        """Keys, and values behind them."""
        return linear(states, self.key, self.value)

    def forward(
        self,
        states: Float[Tensor, "query dim"],
        keys_values: Float[Tensor, "token two_dim"],
        *,
        of: Layout,
        over: Layout,
    ) -> Float[Tensor, "query dim"]:
        """Attention of the tokens laid out by `of` over those laid out by `over`."""
        return attention(
            linear(states, self.query),
            keys_values,
            of=of,
            over=over,
            num_heads=self.num_heads,
            probability=self._dropout if self.training else 0.0,
        )


class Intermediate(nn.Module):
    """The wide half of the feed-forward network."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self._activation = ACTIVATIONS[config.hidden_act]

    def forward(self, states: Float[Tensor, "token dim"]) -> Float[Tensor, "token wide"]:
        """Linear layer and activation."""
        wide: Tensor = self._activation(linear(states, self.dense))
        return wide


class Output(nn.Module):
    """Linear layer, dropout, residual connection and LayerNorm."""

    def __init__(self, config: BertConfig, size: int) -> None:
        super().__init__()
        self.dense = nn.Linear(size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self._dropout = config.hidden_dropout_prob

    def forward(
        self, values: Float[Tensor, "token size"], states: Float[Tensor, "token dim"]
    ) -> Float[Tensor, "token dim"]:
        """The values on top of `states`."""
        probability = self._dropout if self.training else 0.0
        output: Tensor = self.LayerNorm(add_dropped(states, linear(values, self.dense), probability))
        return output


class Pooler(nn.Module):
    """A linear layer over [CLS], trained in a cross-encoder alone."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, first: Float[Tensor, "row dim"]) -> Float[Tensor, "row dim"]:
        """tanh of the linear layer, of the state of each row's first token."""
        return torch.tanh(linear(first, self.dense))
