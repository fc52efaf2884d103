"""A model's folder as an encoder of sentences by sentence-transformers, whose losses train it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers.utils import logging as transformers_logging

from condenser.model.folder import load_backbone, write_backbone
from condenser.model.text_vector import folder_projection
from condenser.model.weights import fill
from condenser.papers.lstm import is_lstm


def load_sentence_encoder(
    folder: str | Path, *, max_tokens: int, device: torch.device
) -> SentenceTransformer:
    """The encoder of a Hugging Face folder, or an LSTM's, with the vector of a text that `modules.json` says.

    Texts are cut to `max_tokens`, specials included. The pooler is frozen, as no loss reads it. What makes a
    vector of the last layer's states computes in float32, also within autocast: 16 bits would round a mean.
    So does an LSTM: cuDNN's would be float16, also where autocast asks for bfloat16.
    """
    transformers_logging.disable_progress_bar()
    encoder = SentenceTransformer(str(folder), device=str(device), local_files_only=True)
    encoder.max_seq_length = max_tokens
    pooler = getattr(getattr(encoder[0], "auto_model", None), "pooler", None)
    if pooler is not None:
        pooler.requires_grad_(False)
    modules: list[Any] = list(encoder)
    states = modules[[isinstance(module, Pooling) for module in modules].index(True) - 1]
    states.register_forward_hook(_in_float32)
    if is_lstm(Path(folder)):
        states.forward = torch.autocast(device.type, enabled=False)(states.forward)
    return encoder


def save_sentence_encoder(encoder: SentenceTransformer, initial: str | Path, folder: str | Path) -> None:
    """Write a folder as `initial`, with what that has on tokens and on the text's vector."""
    if is_lstm(Path(initial)):
        encoder.save(str(folder), create_model_card=False)
        return
    transformer: Any = encoder[0]
    backbone, projection = load_backbone(initial, dropout=None), folder_projection(Path(initial))
    weights = transformer.auto_model.state_dict()
    rename = backbone.config.our_name
    fill(backbone, {rename(name): value for name, value in weights.items()}, origin=initial)
    if projection is not None:
        fill(projection, encoder[2].state_dict(), origin=initial)
    write_backbone(backbone, initial, folder, projection=projection)


def _in_float32(module: Any, inputs: Any, features: Any) -> Any:
    features["token_embeddings"] = features["token_embeddings"].float()
    return features
