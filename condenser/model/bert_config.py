"""The settings of a BERT: the config.json of a Hugging Face folder.

Only the settings that a plain encoder needs are read. Nothing in the file can choose code to run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

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
Probability = Annotated[float, Field(ge=0, le=0.99)]


class BertConfig(BaseModel):
    """Named as in config.json; the defaults are those of transformers."""

    model_config = ConfigDict(strict=True, extra="ignore")

    vocab_size: Size = 30522
    hidden_size: Size = 768
    num_hidden_layers: Size = 12
    num_attention_heads: Size = 12
    intermediate_size: Size = 3072
    max_position_embeddings: Size = 512
    type_vocab_size: Size = 2
    hidden_act: Literal["gelu", "gelu_new", "relu"] = "gelu"
    layer_norm_eps: Annotated[float, Field(gt=0)] = 1e-12
    initializer_range: Annotated[float, Field(gt=0)] = 0.02
    hidden_dropout_prob: Probability = 0.1
    attention_probs_dropout_prob: Probability = 0.1
    pad_token_id: Annotated[int, Field(ge=0)] | None = 0

    @model_validator(mode="after")
    def _sizes_fit(self) -> BertConfig:
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is no multiple of num_attention_heads "
                f"{self.num_attention_heads}"
            )
        if self.pad_token_id is not None and self.pad_token_id >= self.vocab_size:
            raise ValueError(f"pad_token_id {self.pad_token_id} is not below vocab_size {self.vocab_size}")
        return self


def read_bert_config(folder: str | Path) -> BertConfig:
    """The settings of the BERT in `folder`.

    Raises:
        ValueError: there is no config.json, the model is not a plain BERT encoder, or its settings
            ask to run code.
    """
    path = Path(folder) / CONFIG_FILE
    if not path.is_file():
        raise ValueError(f"{path}: no such file. Expected a Hugging Face BERT folder.")
    for file in (path, path.with_name("tokenizer_config.json")):
        asked = set(_RUNS_CODE).intersection(_read_object(file) if file.is_file() else {})
        if asked:
            raise ValueError(
                f"{file}: {min(asked)} asks to run code that comes with the model, which is refused. "
                "Choose a plain BERT."
            )
    settings = _read_object(path)
    if settings.get("model_type") != "bert":
        raise ValueError(f"{path}: expected model_type bert, got {settings.get('model_type')!r:.60}.")
    for name, plain in _PLAIN.items():
        if settings.get(name, plain) not in (None, plain):
            raise ValueError(
                f"{path}: expected {name} {plain}, got {settings[name]!r:.60}. Choose a plain BERT encoder."
            )
    try:
        return BertConfig.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        said = f"{where}: {first['msg']}, got {first['input']!r:.60}" if where else first["msg"]
        raise ValueError(
            f"{path}: expected the settings of a BERT ({said}). Fetch the model again."
        ) from error


def _read_object(file: Path) -> dict[str, Any]:
    settings = read_json(file)
    if not isinstance(settings, dict):
        raise ValueError(f"{file}: expected a JSON object, got {settings!r:.60}. Fetch the model again.")
    return settings


def write_bert_config(
    config: BertConfig, folder: str | Path, *, architecture: str = "BertModel", **others: Any
) -> None:
    """Write config.json; `architecture` is the class of transformers that loads the folder."""
    settings = {"architectures": [architecture], "model_type": "bert", **config.model_dump(), **others}
    write_json(Path(folder) / CONFIG_FILE, settings)
