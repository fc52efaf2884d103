"""A backbone in memory and on disk: a plain Hugging Face BERT folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from condenser.files import atomic_folder
from condenser.model.bert import Bert
from condenser.model.bert_checkpoint import read_checkpoint
from condenser.model.bert_config import BertConfig, write_bert_config
from condenser.model.text_vector import VECTOR_FILES
from condenser.model.weights import WEIGHTS_FILE, fill, undrawn, write_weights

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json")


def load_backbone(folder: str | Path, *, dropout: float | None) -> Bert:
    """The BERT of a Hugging Face folder, in float32.

    `dropout` replaces both dropout probabilities of config.json; None keeps them.

    Raises:
        ValueError: the folder holds no BERT (`read_checkpoint`), or weights of another shape.
    """
    config, tensors, _ = read_checkpoint(folder)
    if dropout is not None:
        both = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
        config = config.model_copy(update=both)
    model = empty_backbone(config)
    fill(model, tensors, origin=Path(folder) / WEIGHTS_FILE)
    return model


def save_backbone(model: Bert, tokenizer_folder: str | Path, folder: str | Path) -> None:
    """Write a Hugging Face folder, complete or not at all."""
    with atomic_folder(folder) as partial:
        write_backbone(model, tokenizer_folder, partial)


def write_backbone(model: Bert, tokenizer_folder: str | Path, folder: str | Path) -> None:
    """Write config.json and model.safetensors into a folder that exists, and copy what goes with them.

    That is the tokenizer's files, and those that say what the vector of a text is.

    Raises:
        ValueError: `tokenizer_folder` has no tokenizer.json.
    """
    write_model(model, folder)
    copy_tokenizer(tokenizer_folder, folder)
    _copy(VECTOR_FILES, tokenizer_folder, folder)


def copy_tokenizer(origin: str | Path, folder: str | Path) -> None:
    """Copy the tokenizer's files of one Hugging Face folder into another, which exists.

    Raises:
        ValueError: `origin` has no tokenizer.json.
    """
    if not (Path(origin) / "tokenizer.json").is_file():
        raise ValueError(f"{origin}: expected a tokenizer.json. Give the folder of a backbone.")
    _copy(TOKENIZER_FILES, origin, folder)


def _copy(names: Iterable[str], origin: str | Path, folder: str | Path) -> None:
    """Copy those of the files that are there."""
    for name in names:
        if (Path(origin) / name).is_file():
            (Path(folder) / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(Path(origin) / name, Path(folder) / name)


def write_model(model: Bert, folder: str | Path) -> None:
    """Write config.json and model.safetensors."""
    write_bert_config(model.config, folder)
    write_weights(Path(folder) / WEIGHTS_FILE, model, settings=None)


def empty_backbone(config: BertConfig) -> Bert:
    """A BERT whose weights are yet to be filled in."""
    return undrawn(lambda: Bert(config))
