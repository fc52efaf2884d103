"""The weights of a BERT checkpoint, read from safetensors by name.

Nothing in a checkpoint is executed or unpickled.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from condenser.model.bert_config import BertConfig, read_bert_config
from condenser.model.weights import WEIGHTS_FILE, as_float32, read_weights

_TENSORFLOW_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}
_NOT_READ = ("cls.seq_relationship.weight", "cls.seq_relationship.bias", "embeddings.position_ids")


def read_checkpoint(folder: str | Path) -> tuple[BertConfig, dict[str, Tensor], dict[str, Tensor]]:
    """Settings, weights of the BERT, and weights of its masked language model's head, in float32.

    Reads checkpoints of BertModel, BertForMaskedLM and BertForPreTraining, also with the names that
    TensorFlow gives LayerNorm's weights (gamma, beta). The head has no weights here if the checkpoint
    has no head, or if its decoder is not the word embeddings: our head is tied to them.
    Next-sentence weights are not read.

    Raises:
        ValueError: the folder holds no BERT (`read_bert_config`), its weights are missing or pickled, or
            a weight is not a floating-point number of 16, 32 or 64 bits.
    """
    folder = Path(folder)
    config = read_bert_config(folder)
    path = folder / WEIGHTS_FILE
    if not path.is_file():
        pickled = (folder / "pytorch_model.bin").is_file()
        found = "only pytorch_model.bin, a pickle, which can run code" if pickled else "none"
        raise ValueError(f"{path}: expected safetensors weights, got {found}. Save the model as safetensors.")
    backbone: dict[str, Tensor] = {}
    head: dict[str, Tensor] = {}
    for name, value in read_weights(path).items():
        own_name = name.removeprefix("bert.")
        for theirs, ours in _TENSORFLOW_ENDINGS.items():
            if own_name.endswith(theirs):
                own_name = own_name.removesuffix(theirs) + ours
        if own_name in _NOT_READ:
            continue
        part = head if own_name.startswith("cls.predictions.") else backbone
        part[own_name.removeprefix("cls.predictions.")] = as_float32(value, name=name, path=path)
    return config, backbone, _tied_head(head, backbone, path=path)


def _tied_head(head: dict[str, Tensor], backbone: dict[str, Tensor], *, path: Path) -> dict[str, Tensor]:
    """The head without its decoder, which must be the word embeddings and the bias again; else no head."""
    decoder, bias = head.pop("decoder.weight", None), head.pop("decoder.bias", None)
    embeddings = backbone.get("embeddings.word_embeddings.weight", torch.empty(0))
    if decoder is not None and not torch.equal(decoder, embeddings):
        return {}
    if bias is not None and not torch.equal(head.setdefault("bias", bias), bias):
        raise ValueError(
            f"{path}: expected cls.predictions.bias and cls.predictions.decoder.bias to be the same, "
            "got two different ones. Fetch the model again."
        )
    return head
