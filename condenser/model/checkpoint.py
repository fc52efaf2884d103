"""The weights of a checkpoint, read by name: safetensors, else pickles of tensors alone.

Nothing in a checkpoint is executed. A pickle is read by PyTorch's reader of weights, which makes no other
objects than tensors and refuses a file that asks for more.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from condenser.encoders import EncoderConfig, named, read_encoder_config
from condenser.files import read_json
from condenser.model.weights import WEIGHTS_FILE, as_float32, read_weights

PICKLE_FILE = "pytorch_model.bin"
INDEX = ".index.json"
WEIGHT_PATTERNS = (WEIGHTS_FILE, WEIGHTS_FILE + INDEX, "model-*-of-*.safetensors")
PICKLE_PATTERNS = (PICKLE_FILE, PICKLE_FILE + INDEX, "pytorch_model-*-of-*.bin")

_TENSORFLOW_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}
_NOT_READ = (
    "cls.seq_relationship.weight",
    "cls.seq_relationship.bias",
    "discriminator_predictions.",
)


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


def read_scorer(folder: str | Path, config: EncoderConfig) -> dict[str, Tensor]:
    """The weights of a cross-encoder's layers for scores, by the names of our modules."""
    return dict(named(read_tensors(Path(folder)), config.scorer))


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All weights of a folder, in float32, by the names in its files.

    Raises:
        ValueError: they are missing or damaged, or not floating-point numbers of 16, 32 or 64 bits.
    """
    return {
        name: as_float32(value, name=name, path=file)
        for file in weight_files(folder)
        for name, value in (read_weights if file.suffix == ".safetensors" else _unpickled)(file).items()
        if not name.endswith("position_ids")  # integers
    }


def weight_files(folder: Path) -> list[Path]:
    """The files of a folder's weights: safetensors if it has any, in one file or in several with an index.

    Raises:
        ValueError: there is none, or the index names files that are not in the folder.
    """
    for name in (WEIGHTS_FILE, PICKLE_FILE):
        if (folder / name).is_file():
            return [folder / name]
        index = folder / (name + INDEX)
        if index.is_file():
            return _indexed(index)
    raise ValueError(
        f"{folder / WEIGHTS_FILE}: expected weights as safetensors or {PICKLE_FILE}, got none. "
        "Fetch the model again."
    )


def _indexed(index: Path) -> list[Path]:
    """The files that an index names."""
    content = read_json(index)
    places = content.get("weight_map") if isinstance(content, Mapping) else None
    names = list(places.values()) if isinstance(places, Mapping) else []
    if not names or not all(isinstance(name, str) and Path(name).name == name for name in names):
        raise ValueError(f"{index}: expected a weight_map with names of files. Fetch the model again.")
    files = [index.with_name(name) for name in sorted(set(map(str, names)))]
    for file in files:
        if not file.is_file():
            raise ValueError(f"{file}: no such file, but {index.name} names it. Fetch the model again.")
    return files


def _unpickled(file: Path) -> dict[str, Tensor]:
    try:
        tensors = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # a damaged pickle calls for anything
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        if isinstance(error, pickle.UnpicklingError):  # its text advises to read the file without protection
            asked = re.search(r"GLOBAL (\S+)", str(error))
            reason = f"it asks for {asked[1]}" if asked else "it has other content"
        raise ValueError(
            f"{file}: expected a pickle of tensors alone ({reason}). "
            "Other content could run code. Save the model as safetensors."
        ) from error
    if not isinstance(tensors, Mapping) or not all(
        isinstance(name, str) and isinstance(value, Tensor) and _is_plain(value)
        for name, value in tensors.items()
    ):
        raise ValueError(f"{file}: expected tensors by name. Save the model as safetensors.")
    return dict(tensors)


def _is_plain(value: Tensor) -> bool:
    """Whether a tensor's numbers are all in the file: it is not sparse, and no number stands for many."""
    if value.layout != torch.strided or not value.is_cpu:
        return False
    return value.numel() * value.element_size() <= value.untyped_storage().nbytes()


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


_WORDS = ("embeddings.word_embeddings.weight", "embeddings.tok_embeddings.weight")
