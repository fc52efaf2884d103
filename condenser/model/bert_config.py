"""The settings of a BERT, read from the config.json of a Hugging Face folder.

Only the settings named in `_TAKEN` are read. transformers makes an attribute of every other key, and
some of those choose code to download and run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertModel

from condenser.files import read_json

ATTENTION = "sdpa"

_RUNS_CODE = ("auto_map", "trust_remote_code", "custom_pipelines")
"""Settings that make transformers run Python files of the model's folder."""

_TAKEN = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("max_position_embeddings", "type_vocab_size", "initializer_range", "layer_norm_eps", "hidden_act"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "position_embedding_type"),
    *("pad_token_id", "use_cache", "tokenizer_class"),
)

_PLAIN: dict[str, Any] = {
    "is_decoder": False,
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
    "quantization_config": None,
}
"""Settings of a plain encoder. Another value would give other vectors, so it is refused."""


def read_bert_config(folder: str | Path) -> BertConfig:
    """The settings of the BERT in `folder`.

    Raises:
        ValueError: there is no config.json, the model is not a plain BERT encoder, or its settings
            ask to run code.
    """
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise ValueError(f"{path}: no such file. Expected a Hugging Face BERT folder.")
    for file in (path, path.with_name("tokenizer_config.json")):
        asked = set(_RUNS_CODE).intersection(read_json(file) if file.is_file() else {})
        if asked:
            raise ValueError(
                f"{file}: {min(asked)} asks to run code that comes with the model, which is refused. "
                "Choose a plain BERT."
            )
    settings = read_json(path)
    if settings.get("model_type") != "bert":
        raise ValueError(f"{path}: expected model_type bert, got {settings.get('model_type')!r:.60}.")
    for name, plain in _PLAIN.items():
        if settings.get(name, plain) not in (None, plain):
            raise ValueError(
                f"{path}: expected {name} {plain}, got {settings[name]!r:.60}. Choose a plain BERT encoder."
            )
    taken = {name: settings[name] for name in _TAKEN if name in settings}
    if settings.get("gradient_checkpointing") is False:
        taken["gradient_checkpointing"] = False  # MiniLM's config.json has it, and keeps its bytes
    try:
        config = BertConfig(**taken, attn_implementation=ATTENTION)
        with torch.device("meta"):
            BertModel(config)
    except Exception as error:  # transformers and torch raise many kinds for wrong values
        raise ValueError(
            f"{path}: expected the settings of a BERT ({one_line(error)}). Fetch the model again."
        ) from error
    return config


def one_line(error: Exception) -> str:
    """An error of another library, short enough for a message of ours."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
