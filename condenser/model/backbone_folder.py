"""A backbone in memory and on disk: a plain Hugging Face folder of an encoder."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from condenser.encoders import EncoderConfig, ModernBertConfig, write_encoder_config
from condenser.files import atomic_folder
from condenser.model.bert import Bert
from condenser.model.checkpoint import read_checkpoint
from condenser.model.encoder import Encoder
from condenser.model.modernbert import ModernBert
from condenser.model.projection import PROJECTION_FOLDER, Projection
from condenser.model.text_vector import VECTOR_FILES
from condenser.model.weights import WEIGHTS_FILE, fill, make_unfilled, write_weights

VOCABULARY_FILES = (
    *("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt"),
    *("sentencepiece.bpe.model", "spiece.model", "tokenizer.model"),
)
"""What the vocabulary of a checkpoint may be in."""
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json")


def load_backbone(folder: str | Path, *, dropout: float | None) -> Encoder:
    """The encoder of a Hugging Face folder, in float32.

    `dropout` replaces all dropout probabilities of config.json; None keeps them.

    Raises:
        ValueError: the folder holds no encoder (`read_checkpoint`), or weights of another shape.
    """
    config, tensors, *_ = read_checkpoint(folder)
    if dropout is not None:
        config = config.with_dropout(dropout)
    model = empty_backbone(config)
    fill(model, tensors, origin=Path(folder) / WEIGHTS_FILE)
    return model


def save_backbone(
    model: Encoder, tokenizer_folder: str | Path, folder: str | Path, *, projection: Projection | None = None
) -> None:
    """Write a Hugging Face folder, complete or not at all."""
    with atomic_folder(folder) as partial:
        write_backbone(model, tokenizer_folder, partial, projection=projection)


def write_backbone(
    model: Encoder, tokenizer_folder: str | Path, folder: str | Path, *, projection: Projection | None = None
) -> None:
    """Write config.json and model.safetensors into a folder that exists, and copy what goes with them.

    That is the tokenizer's files, and those that say what the vector of a text is. The projection is written
    anew.
    """
    write_model(model, folder)
    copy_tokenizer(tokenizer_folder, folder)
    _copy(VECTOR_FILES, tokenizer_folder, folder)
    if projection is not None:
        projection.save(Path(folder) / PROJECTION_FOLDER)


def copy_tokenizer(origin: str | Path, folder: str | Path) -> None:
    """Copy the tokenizer's files of one Hugging Face folder into another, which exists."""
    _copy(TOKENIZER_FILES, origin, folder)


def _copy(names: Iterable[str], origin: str | Path, folder: str | Path) -> None:
    """Copy those of the files that are there."""
    for name in names:
        if (Path(origin) / name).is_file():
            (Path(folder) / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(Path(origin) / name, Path(folder) / name)


def write_model(model: Encoder, folder: str | Path) -> None:
    """Write config.json and model.safetensors."""
    write_encoder_config(model.config, folder)
    write_weights(Path(folder) / WEIGHTS_FILE, model, settings=None, rename=model.config.their_name)


def empty_backbone(config: EncoderConfig) -> Encoder:
    """An encoder whose weights are yet to be filled in."""
    return make_unfilled(lambda: backbone_of(config))


def backbone_of(config: EncoderConfig) -> Encoder:
    """An encoder on the device of the context."""
    return ModernBert(config) if isinstance(config, ModernBertConfig) else Bert(config)
