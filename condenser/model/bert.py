"""BERT and its family over texts without their padding (`condenser.model.rows`).

RoBERTa, XLM-R, ELECTRA, DistilBERT and MPNet have its layer; their embeddings, names and dropout differ
(`condenser.encoders`), and MPNet's attention reads relative positions. The modules are named as
those of transformers' `BertModel`. That one computes padding, and takes two seconds to import, in each of
some twenty programs of a table.

Source: Devlin et al. 2019, with the arithmetic of transformers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from condenser.encoders import EncoderConfig
from condenser.model.attention import attention, scores
from condenser.model.encoder import ACTIVATIONS, Encoder, EncoderLayer
from condenser.model.operations import add_dropped, dropout, linear, product_dtype
from condenser.model.relative_positions import RelativeBias
from condenser.model.rows import Chosen, Layout, Rows


class Bert(Encoder):
    """The encoder, with a frozen pooler where its architecture has one.

    No objective reads the pooler. It is kept so that `AutoModel` finds every weight of a saved model.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        if config.layout.word_size != config.hidden_size:
            self.embeddings_project = nn.Linear(config.layout.word_size, config.hidden_size)
        self.encoder = Layers(config)
        self.pooler = Pooler(config).requires_grad_(False) if config.has_pooler else None

    @property
    def layers(self) -> list[EncoderLayer]:
        """The layers, in order."""
        return cast("list[EncoderLayer]", [*self.encoder.layer])

    @property
    def word_embeddings(self) -> nn.Parameter:
        """Those of the input."""
        return cast("nn.Parameter", self.embeddings.word_embeddings.weight)

    def embedded(self, rows: Rows) -> Float[Tensor, "token dim"]:
        """The input of the first layer."""
        states = self.embeddings(rows)
        return linear(states, self.embeddings_project) if hasattr(self, "embeddings_project") else states

    def new_layers(self, count: int) -> nn.ModuleList:
        """More layers, which share the encoder's relative positions."""
        return nn.ModuleList(Layer(self.config, self.encoder.relative_bias) for _ in range(count))


class Embeddings(nn.Module):
    """The input of the first layer: words, positions and token types."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        dim = config.layout.word_size
        self.word_embeddings = nn.Embedding(config.vocab_size, dim, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, dim)
        if config.type_vocab_size:
            self.token_type_embeddings = nn.Embedding(config.type_vocab_size, dim)
        self.LayerNorm = nn.LayerNorm(dim, eps=config.layer_norm_eps)
        self._dropout, self._first_position = config.hidden_dropout_prob, config.layout.first_position

    def forward(self, rows: Rows) -> Float[Tensor, "token size"]:
        """The state of each token."""
        states = self.word_embeddings(rows.ids)
        if hasattr(self, "token_type_embeddings"):
            types = self.token_type_embeddings
            states = states + (types.weight[0] if rows.token_types is None else types(rows.token_types))
        columns = rows.columns + self._first_position if self._first_position else rows.columns
        states = states + self.position_embeddings(columns)
        return dropout(self.LayerNorm(states), self._dropout if self.training else 0.0)


class Layers(nn.Module):
    """Holds the layers, and what they share."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.relative_bias = None
        if config.layout.num_buckets:
            self.relative_attention_bias = nn.Embedding(config.layout.num_buckets, config.num_attention_heads)
            self.relative_bias = RelativeBias(self.relative_attention_bias)
        self.layer = nn.ModuleList(Layer(config, self.relative_bias) for _ in range(config.num_hidden_layers))


class Layer(EncoderLayer):
    """Attention and a feed-forward network, each with a residual connection and LayerNorm behind it."""

    def __init__(self, config: EncoderConfig, relative_bias: RelativeBias | None = None) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.intermediate = Intermediate(config)
        self.output = Output(config, config.intermediate_size, config.hidden_dropout_prob)
        self._bias = relative_bias  # no module: it belongs to all layers

    def forward(
        self, states: Float[Tensor, "token dim"], rows: Rows, wanted: Sequence[Chosen | None]
    ) -> list[Float[Tensor, "_ dim"]]:
        """See `EncoderLayer`."""
        low = states.to(product_dtype(states))  # once, for keys, values and queries
        attend = self.attention.self
        keys_values, outputs = attend.keys_values(low), []
        for chosen in wanted:
            read, asked, of = states, low, rows.layout
            if chosen is not None:
                read, asked = (each.index_select(0, chosen.tokens) for each in (states, low))
                of = chosen.layout
            bias = self._bias.of(rows, chosen) if self._bias else None
            gathered = attend(asked, keys_values, of=of, over=rows.layout, bias=bias)
            attended = self.attention.output(gathered, read)
            outputs.append(self.output(self.intermediate(attended), attended))
        return outputs

    def first_row_scores(
        self, states: Float[Tensor, "token dim"], rows: Rows
    ) -> list[Float[Tensor, "_ _ 1 _"]]:
        """See `EncoderLayer`."""
        attend, first = self.attention.self, rows.first
        return scores(
            linear(states.index_select(0, first.tokens), attend.query),
            linear(states, attend.key),
            of=first.layout,
            over=rows.layout,
            num_heads=attend.num_heads,
            bias=self._bias.of(rows, first) if self._bias else None,
        )


class Attention(nn.Module):
    """Self-attention, and what closes it."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.self = SelfAttention(config)
        self.output = Output(config, config.hidden_size, config.layout.attention_output_dropout)


class SelfAttention(nn.Module):
    """What tokens gather from the tokens of their row."""

    def __init__(self, config: EncoderConfig) -> None:
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
        bias: list[Tensor] | None,
    ) -> Float[Tensor, "query dim"]:
        """Attention of the tokens laid out by `of` over those laid out by `over`."""
        return attention(
            linear(states, self.query),
            keys_values,
            of=of,
            over=over,
            num_heads=self.num_heads,
            probability=self._dropout if self.training else 0.0,
            bias=bias,
        )


class Intermediate(nn.Module):
    """The wide half of the feed-forward network."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self._activation = ACTIVATIONS[config.hidden_act]

    def forward(self, states: Float[Tensor, "token dim"]) -> Float[Tensor, "token wide"]:
        """Linear layer and activation."""
        wide: Tensor = self._activation(linear(states, self.dense))
        return wide


class Output(nn.Module):
    """Linear layer, dropout, residual connection and LayerNorm."""

    def __init__(self, config: EncoderConfig, size: int, dropout: float) -> None:
        super().__init__()
        self.dense = nn.Linear(size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self._dropout = dropout

    def forward(
        self, values: Float[Tensor, "token size"], states: Float[Tensor, "token dim"]
    ) -> Float[Tensor, "token dim"]:
        """The values on top of `states`."""
        probability = self._dropout if self.training else 0.0
        output: Tensor = self.LayerNorm(add_dropped(states, linear(values, self.dense), probability))
        return output


class Pooler(nn.Module):
    """A linear layer over [CLS], which a cross-encoder begins its layers for scores with."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
