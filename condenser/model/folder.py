"""A model's folder, a plain Hugging Face folder of an encoder: read, written and copied."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from condenser.encoders import (
    EncoderConfig,
    ModernBertConfig,
    named,
    read_encoder_config,
    write_encoder_config,
)
from condenser.files import atomic_folder
from condenser.model.bert import Bert
from condenser.model.encoder import Encoder
from condenser.model.modernbert import ModernBert
from condenser.model.projection import PROJECTION_FOLDER, Projection
from condenser.model.text_vector import VECTOR_FILES
from condenser.model.weights import (
    WEIGHTS_FILE,
    fill,
    make_unfilled,
    read_tensors,
    weight_files,
    write_weights,
)

VOCABULARY_FILES = (
    *("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt"),
    *("sentencepiece.bpe.model", "spiece.model", "tokenizer.model"),
)
"""What the vocabulary of a checkpoint may be in."""
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json")

_TENSORFLOW_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}
_NOT_READ = (
    "cls.seq_relationship.weight",
    "cls.seq_relationship.bias",
    "discriminator_predictions.",
)
_WORDS = ("embeddings.word_embeddings.weight", "embeddings.tok_embeddings.weight")


def read_checkpoint(
    folder: str | Path,
) -> tuple[EncoderConfig, dict[str, Tensor], dict[str, Tensor], list[str]]:
    """Settings, weights of the encoder and of its masked language model's head, in float32, and other names.

    The names are those of our modules. Reads checkpoints of an encoder alone, with a masked language model's
    head, and with one for sentence pairs; also with the names that TensorFlow gives LayerNorm's weights
    (gamma, beta). The head has no weights here if the checkpoint has no head, or if its decoder is not the
    word embeddings: our head is tied to them. Next-sentence and discriminator weights are not read. The
    names are those of all other weights, such as a layer for classes.

    Raises:
        ValueError: the folder holds no encoder (`read_encoder_config`), its weights are missing, or a weight
            is not a floating-point number of 16, 32 or 64 bits.
    """
    folder = Path(folder)
    config = read_encoder_config(folder)
    tensors: dict[str, Tensor] = {}
    for name, value in read_tensors(folder).items():
        for theirs, ours in _TENSORFLOW_ENDINGS.items():
            name = name.removesuffix(theirs) + ours if name.endswith(theirs) else name
        if not any(name.endswith(part) or name.startswith(part) for part in _NOT_READ):
            tensors[name] = value
    above = (*config.head.values(), config.decoder)
    head = {name: value for name, value in tensors.items() if _belongs(name, above)}
    is_whole_model = any(name.startswith(config.prefix) for name in tensors)
    encoder = {
        config.our_name(name.removeprefix(config.prefix)): value
        for name, value in tensors.items()
        if name not in head and (name.startswith(config.prefix) or not is_whole_model)
    }
    others = [name for name in tensors if name not in head and not name.startswith(config.prefix)]
    left_out = sorted(others) if is_whole_model else []
    return config, encoder, _tied_head(config, head, encoder, path=weight_files(folder)[0]), left_out


def _belongs(name: str, parts: tuple[str, ...]) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def _tied_head(
    config: EncoderConfig, head: dict[str, Tensor], encoder: Mapping[str, Tensor], *, path: Path
) -> dict[str, Tensor]:
    """The head without its decoder, which must be the word embeddings and the bias again; else no head."""
    decoder, bias = head.get(f"{config.decoder}.weight"), head.get(f"{config.decoder}.bias")
    words = next((value for name, value in encoder.items() if name in _WORDS), torch.empty(0))
    ours = dict(named(head, config.head))
    is_whole = "transform.dense.weight" in ours and ("bias" in ours or bias is not None)
    if not is_whole or (decoder is not None and not torch.equal(decoder, words)):
        return {}
    if bias is not None and not torch.equal(ours.setdefault("bias", bias), bias):
        raise ValueError(
            f"{path}: expected {config.head['bias']} and {config.decoder}.bias to be the same, "
            "got two different ones. Fetch the model again."
        )
    return ours


def read_scorer(folder: str | Path, config: EncoderConfig) -> dict[str, Tensor]:
    """The weights of a cross-encoder's layers for scores, by the names of our modules."""
    return dict(named(read_tensors(Path(folder)), config.scorer))


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
