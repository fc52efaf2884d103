"""The settings of an encoder, the config.json of a Hugging Face folder, and the names of its weights there.

An architecture is one class here: its settings with their names and defaults in transformers, and how the
names of its weights become those of our modules. Nothing in a file can choose code to run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from condenser.files import read_json, write_json

CONFIG_FILE = "config.json"

_RUNS_CODE = ("auto_map", "trust_remote_code", "custom_pipelines")
"""Settings that ask for Python files of the model's folder."""

_PLAIN: dict[str, Any] = {
    "is_decoder": False,
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
    "quantization_config": None,
}
"""Settings of a plain encoder. Another value would give other vectors, so it is refused."""

Size = Annotated[int, Field(ge=1, lt=2**31)]
Layers = Annotated[int, Field(ge=1, le=1000)]
Probability = Annotated[float, Field(ge=0, le=0.99)]
Activation = Literal["gelu", "gelu_new", "relu"]
Names = Mapping[str, str]


class Layout(NamedTuple):
    """What architectures do differently, by their settings.

    Attributes:
        word_size: the width of the word embeddings; a layer projects them to `hidden_size`.
        first_position: of a text's first token.
        num_buckets: of relative positions in attention; 0: none.
        has_segments: whether the second text of a pair has token type 1.
        head_act: the activation in the masked language model's head.
        head_bias: whether the first linear layer of that head, and of a cross-encoder's layers, has a bias.
        layer_norm_bias: whether LayerNorms have a bias.
        attention_output_dropout: the dropout probability after attention.
        scorer_act: the activation in a cross-encoder's layer for scores.
        scorer_dropouts: dropout probabilities of a cross-encoder: of [CLS], and after the first layer for
            scores.
    """

    word_size: int
    head_act: Activation
    attention_output_dropout: float
    scorer_dropouts: tuple[float, float]
    first_position: int = 0
    num_buckets: int = 0
    has_segments: bool = False
    head_bias: bool = True
    layer_norm_bias: bool = True
    scorer_act: str = "tanh"


class EncoderConfig(BaseModel):
    """The settings of every architecture, with BERT's names.

    Class attributes (names of weights are beginnings or middles, of theirs in place of ours):
        model_type: as in config.json.
        encoder_class, scorer_class: the classes of transformers that load an encoder and a cross-encoder.
        prefix: what the names of the encoder's weights begin with in a model with a head.
        weights: names of the encoder's weights.
        head: names of the masked language model's head.
        decoder: the projection of that head, which is tied to the word embeddings.
        scorer: names of the cross-encoder's layers above the encoder.
        has_pooler: whether `encoder_class` has one.
    """

    model_config = ConfigDict(strict=True, extra="ignore", populate_by_name=True)

    model_type: ClassVar[str]
    encoder_class: ClassVar[str]
    scorer_class: ClassVar[str]
    prefix: ClassVar[str]
    weights: ClassVar[Names] = {}
    head: ClassVar[Names]
    decoder: ClassVar[str]
    scorer: ClassVar[Names] = {"dense": "classifier.dense", "out": "classifier.out_proj"}
    has_pooler: ClassVar[bool] = True

    vocab_size: Size = 30522
    hidden_size: Size = 768
    num_hidden_layers: Layers = 12
    num_attention_heads: Size = 12
    intermediate_size: Size = 3072
    max_position_embeddings: Size = 512
    type_vocab_size: Annotated[int, Field(ge=0, lt=2**31)] = 2
    hidden_act: Activation = "gelu"
    layer_norm_eps: Annotated[float, Field(gt=0)] = 1e-12
    initializer_range: Annotated[float, Field(gt=0)] = 0.02
    hidden_dropout_prob: Probability = 0.1
    attention_probs_dropout_prob: Probability = 0.1
    pad_token_id: Annotated[int, Field(ge=0)] | None = 0

    @model_validator(mode="after")
    def _sizes_fit(self) -> EncoderConfig:
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is no multiple of num_attention_heads "
                f"{self.num_attention_heads}"
            )
        if self.pad_token_id is not None and self.pad_token_id >= self.vocab_size:
            raise ValueError(f"pad_token_id {self.pad_token_id} is not below vocab_size {self.vocab_size}")
        return self

    def differences(self) -> dict[str, Any]:
        """What `layout` has otherwise than BERT's family by default."""
        return {}

    @property
    def layout(self) -> Layout:
        """How the encoder is put together."""
        dropout = self.hidden_dropout_prob
        family: dict[str, Any] = {
            **{"word_size": self.hidden_size, "head_act": self.hidden_act},
            **{"attention_output_dropout": dropout, "scorer_dropouts": (dropout, dropout)},
        }
        return Layout(**(family | self.differences()))

    @property
    def num_positions(self) -> int:
        """Tokens of the longest text, with specials."""
        return self.max_position_embeddings - self.layout.first_position

    def with_dropout(self, probability: float) -> EncoderConfig:
        """A copy in which every dropout has this probability."""
        names = [name for name in type(self).model_fields if "dropout" in name]
        return self.model_copy(update=dict.fromkeys(names, probability))

    def our_name(self, name: str) -> str:
        """The name of one of the encoder's weights in our modules."""
        for theirs, ours in self.weights.items():
            name = name.replace(theirs, ours)
        return name

    def their_name(self, name: str) -> str:
        """The name of one of our weights in a folder."""
        for theirs, ours in self.weights.items():
            name = name.replace(ours, theirs)
        return name


class BertConfig(EncoderConfig):
    """Devlin et al. 2019."""

    model_type, prefix = "bert", "bert."
    encoder_class, scorer_class = "BertModel", "BertForSequenceClassification"
    head: ClassVar[Names] = {
        "transform.dense": "cls.predictions.transform.dense",
        "transform.LayerNorm": "cls.predictions.transform.LayerNorm",
        "bias": "cls.predictions.bias",
    }
    decoder = "cls.predictions.decoder"
    scorer: ClassVar[Names] = {"dense": "bert.pooler.dense", "out": "classifier"}

    def differences(self) -> dict[str, Any]:
        return {  # its pre-training has two segments; no dropout before its pooler
            "has_segments": self.type_vocab_size > 1,
            "scorer_dropouts": (0.0, self.hidden_dropout_prob),
        }


class RobertaConfig(EncoderConfig):
    """Liu et al. 2019: the positions of a text begin after the position of padding."""

    model_type, prefix = "roberta", "roberta."
    encoder_class, scorer_class = "RobertaModel", "RobertaForSequenceClassification"
    head: ClassVar[Names] = {
        "transform.dense": "lm_head.dense",
        "transform.LayerNorm": "lm_head.layer_norm",
        "bias": "lm_head.bias",
    }
    decoder = "lm_head.decoder"

    vocab_size: Size = 50265
    pad_token_id: Annotated[int, Field(ge=0)] = 1

    def differences(self) -> dict[str, Any]:
        return {"head_act": "gelu", "first_position": self.pad_token_id + 1}  # gelu is fixed in transformers


class XlmRobertaConfig(RobertaConfig):
    """Conneau et al. 2020: a RoBERTa of a hundred languages."""

    model_type = "xlm-roberta"
    encoder_class, scorer_class = "XLMRobertaModel", "XLMRobertaForSequenceClassification"
    vocab_size: Size = 30522


class ElectraConfig(EncoderConfig):
    """Clark et al. 2020: word embeddings may be narrower than the layers; only generators have a head."""

    model_type, prefix = "electra", "electra."
    encoder_class, scorer_class = "ElectraModel", "ElectraForSequenceClassification"
    head: ClassVar[Names] = {
        "transform.dense": "generator_predictions.dense",
        "transform.LayerNorm": "generator_predictions.LayerNorm",
        "bias": "generator_lm_head.bias",
    }
    decoder = "generator_lm_head"
    has_pooler = False

    embedding_size: Size = 128
    hidden_size: Size = 256
    num_attention_heads: Size = 4
    intermediate_size: Size = 1024

    def differences(self) -> dict[str, Any]:
        return {
            **{"head_act": "gelu", "scorer_act": "gelu"},  # both are fixed in transformers
            **{"word_size": self.embedding_size, "has_segments": self.type_vocab_size > 1},
        }


class DistilBertConfig(EncoderConfig):
    """Sanh et al. 2019: a BERT without token types and pooler."""

    model_type, prefix = "distilbert", "distilbert."
    encoder_class, scorer_class = "DistilBertModel", "DistilBertForSequenceClassification"
    weights: ClassVar[Names] = {
        "transformer.layer.": "encoder.layer.",
        ".attention.q_lin.": ".attention.self.query.",
        ".attention.k_lin.": ".attention.self.key.",
        ".attention.v_lin.": ".attention.self.value.",
        ".attention.out_lin.": ".attention.output.dense.",
        ".sa_layer_norm.": ".attention.output.LayerNorm.",
        ".ffn.lin1.": ".intermediate.dense.",
        ".ffn.lin2.": ".output.dense.",
        ".output_layer_norm.": ".output.LayerNorm.",
    }
    head: ClassVar[Names] = {
        "transform.dense": "vocab_transform",
        "transform.LayerNorm": "vocab_layer_norm",
        "bias": "vocab_projector.bias",
    }
    decoder = "vocab_projector"
    scorer: ClassVar[Names] = {"dense": "pre_classifier", "out": "classifier"}
    has_pooler = False

    hidden_size: Size = Field(768, alias="dim")
    num_hidden_layers: Layers = Field(6, alias="n_layers")
    num_attention_heads: Size = Field(12, alias="n_heads")
    intermediate_size: Size = Field(3072, alias="hidden_dim")
    type_vocab_size: Literal[0] = Field(0, exclude=True)
    hidden_act: Activation = Field("gelu", alias="activation")
    layer_norm_eps: float = Field(1e-12, exclude=True)
    hidden_dropout_prob: Probability = Field(0.1, alias="dropout")
    attention_probs_dropout_prob: Probability = Field(0.1, alias="attention_dropout")
    seq_classif_dropout: Probability = 0.2

    def differences(self) -> dict[str, Any]:
        return {
            **{"attention_output_dropout": 0.0, "scorer_act": "relu"},  # both are fixed in transformers
            "scorer_dropouts": (0.0, self.seq_classif_dropout),
        }


class MPNetConfig(EncoderConfig):
    """Song et al. 2020: attention also reads how far two tokens stand apart; no token types."""

    model_type, prefix = "mpnet", "mpnet."
    encoder_class, scorer_class = "MPNetModel", "MPNetForSequenceClassification"
    weights: ClassVar[Names] = {
        ".attention.attn.q.": ".attention.self.query.",
        ".attention.attn.k.": ".attention.self.key.",
        ".attention.attn.v.": ".attention.self.value.",
        ".attention.attn.o.": ".attention.output.dense.",
        ".attention.LayerNorm.": ".attention.output.LayerNorm.",
    }
    head: ClassVar[Names] = RobertaConfig.head
    decoder = "lm_head.decoder"

    vocab_size: Size = 30527
    type_vocab_size: Literal[0] = Field(0, exclude=True)
    relative_attention_num_buckets: Literal[32] = 32  # transformers computes with no other number
    pad_token_id: Literal[1] = 1  # likewise

    def differences(self) -> dict[str, Any]:
        return {
            **{"head_act": "gelu", "first_position": self.pad_token_id + 1},  # as RoBERTa's
            "num_buckets": self.relative_attention_num_buckets,
        }


class Rotation(BaseModel):
    """The rotary positions of one kind of attention."""

    model_config = ConfigDict(strict=True, extra="forbid")
    rope_type: Literal["default"] = "default"
    rope_theta: Annotated[float, Field(gt=0)]


class Rotations(BaseModel):
    """The rotary positions of both kinds of attention."""

    model_config = ConfigDict(strict=True, extra="forbid")
    full_attention: Rotation
    sliding_attention: Rotation


class ModernBertConfig(EncoderConfig):
    """Warner et al. 2024: rotated positions, gated feed-forward, most layers with attention in a window."""

    model_type, prefix = "modernbert", "model."
    encoder_class, scorer_class = "ModernBertModel", "ModernBertForSequenceClassification"
    weights: ClassVar[Names] = {"layers.": "encoder.layer."}
    head: ClassVar[Names] = {
        "transform.dense": "head.dense",
        "transform.LayerNorm": "head.norm",
        "bias": "decoder.bias",
    }
    decoder = "decoder"
    scorer: ClassVar[Names] = {"dense": "head.dense", "norm": "head.norm", "out": "classifier"}
    has_pooler = False

    vocab_size: Size = 50368
    intermediate_size: Size = 1152
    num_hidden_layers: Layers = 22
    max_position_embeddings: Size = 8192
    type_vocab_size: Literal[0] = Field(0, exclude=True)
    hidden_act: Activation = Field("gelu", alias="hidden_activation")
    layer_norm_eps: Annotated[float, Field(gt=0)] = Field(1e-5, alias="norm_eps")
    hidden_dropout_prob: Probability = Field(0.0, alias="mlp_dropout")
    attention_probs_dropout_prob: Probability = Field(0.0, alias="attention_dropout")
    embedding_dropout: Probability = 0.0
    classifier_dropout: Probability = 0.0
    pad_token_id: Annotated[int, Field(ge=0)] | None = 50283
    norm_bias: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    decoder_bias: Literal[True] = True
    classifier_bias: bool = False
    classifier_activation: Activation = "gelu"
    local_attention: Size = 128
    layer_types: list[Literal["full_attention", "sliding_attention"]]
    rope_parameters: Rotations

    @model_validator(mode="before")
    @classmethod
    def _of_earlier_versions(cls, settings: Any) -> Any:
        """Version 4 of transformers gives one number of layers, and one theta for each kind of attention."""
        if not isinstance(settings, Mapping):
            return settings
        settings = dict(settings)
        rotations = dict(settings.get("rope_parameters") or {})
        for kind, key, theta in (
            ("full_attention", "global_rope_theta", 160_000.0),
            ("sliding_attention", "local_rope_theta", 10_000.0),
        ):
            given = rotations.get(kind) or {}
            if isinstance(given, Mapping) and "rope_theta" not in given:
                given = {**given, "rope_theta": float(settings.get(key) or theta)}
            rotations[kind] = given
        settings["rope_parameters"] = rotations
        every, layers = settings.get("global_attn_every_n_layers") or 3, settings.get("num_hidden_layers", 22)
        if (
            not settings.get("layer_types")
            and isinstance(every, int)
            and isinstance(layers, int)
            and layers <= 1000
        ):
            kinds = ("full_attention", "sliding_attention")
            settings["layer_types"] = [kinds[number % every > 0] for number in range(layers)]
        return settings

    @model_validator(mode="after")
    def _each_layer_has_a_kind(self) -> ModernBertConfig:
        if len(self.layer_types) != self.num_hidden_layers:
            raise ValueError(
                f"layer_types has {len(self.layer_types)} entries for {self.num_hidden_layers} layers"
            )
        return self

    def differences(self) -> dict[str, Any]:
        activation = self.classifier_activation
        return {
            **{"head_act": activation, "scorer_act": activation, "head_bias": self.classifier_bias},
            **{"layer_norm_bias": self.norm_bias, "scorer_dropouts": (0.0, self.classifier_dropout)},
        }

    def our_name(self, name: str) -> str:
        """In our modules the norm after the last layer is a part of that layer."""
        last = f"layers.{self.num_hidden_layers - 1}.final_norm."
        return super().our_name(name.replace("final_norm.", last) if name.startswith("final_norm.") else name)

    def their_name(self, name: str) -> str:
        """The reverse of `our_name`."""
        return name[name.index("final_norm.") :] if ".final_norm." in name else super().their_name(name)


ARCHITECTURES: dict[str, type[EncoderConfig]] = {
    config.model_type: config
    for config in (
        BertConfig,
        RobertaConfig,
        XlmRobertaConfig,
        ElectraConfig,
        DistilBertConfig,
        MPNetConfig,
        ModernBertConfig,
    )
}


def read_encoder_config(folder: str | Path) -> EncoderConfig:
    """The settings of the encoder in `folder`.

    Raises:
        ValueError: there is no config.json, the model is no plain encoder of `ARCHITECTURES`, or its settings
            ask to run code.
    """
    path = Path(folder) / CONFIG_FILE
    if not path.is_file():
        raise ValueError(f"{path}: no such file. Expected a Hugging Face folder of an encoder.")
    for file in (path, path.with_name("tokenizer_config.json")):
        asked = set(_RUNS_CODE).intersection(_read_object(file) if file.is_file() else {})
        if asked:
            raise ValueError(
                f"{file}: {min(asked)} asks to run code that comes with the model, which is refused. "
                f"Choose a plain encoder: {', '.join(ARCHITECTURES)}."
            )
    return encoder_config(_read_object(path), origin=path)


def encoder_config(settings: Mapping[str, Any], *, origin: str | Path) -> EncoderConfig:
    """The settings of an encoder as config.json has them; `origin` is for the error.

    Raises:
        ValueError: the model is no plain encoder of `ARCHITECTURES`.
    """
    architecture = ARCHITECTURES.get(str(settings.get("model_type")))
    if architecture is None:
        raise ValueError(
            f"{origin}: expected as model_type one of {', '.join(ARCHITECTURES)}, "
            f"got {settings.get('model_type')!r:.60}. Choose one of these encoders."
        )
    for name, plain in _PLAIN.items():
        if settings.get(name, plain) not in (None, plain):
            raise ValueError(
                f"{origin}: expected {name} {plain}, got {settings[name]!r:.60}. Choose a plain encoder."
            )
    try:
        return architecture.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        said = f"{where}: {first['msg']}, got {first['input']!r:.60}" if where else first["msg"]
        raise ValueError(
            f"{origin}: expected the settings of an encoder of type {architecture.model_type} ({said}). "
            "Fetch the model again."
        ) from error


def _read_object(file: Path) -> dict[str, Any]:
    settings = read_json(file)
    if not isinstance(settings, dict):
        raise ValueError(f"{file}: expected a JSON object, got {settings!r:.60}. Fetch the model again.")
    return settings


def write_encoder_config(
    config: EncoderConfig, folder: str | Path, *, architecture: str | None = None, **others: Any
) -> None:
    """Write config.json; `architecture` is the class of transformers that loads the folder."""
    settings = {
        "architectures": [architecture or config.encoder_class],
        "model_type": config.model_type,
        **config.model_dump(by_alias=True),
        **others,
    }
    write_json(Path(folder) / CONFIG_FILE, settings)


def named(tensors: Mapping[str, Any], names: Names) -> Iterator[tuple[str, Any]]:
    """Weights whose names begin with a value of `names`, under its key."""
    for name, value in tensors.items():
        for ours, theirs in names.items():
            if name == theirs or name.startswith(f"{theirs}."):
                yield ours + name.removeprefix(theirs), value
