"""Weights on disk, as safetensors whose bytes depend on their content alone; and new weights.

Weights of others are read from safetensors, else from pickles of tensors alone. Nothing is executed: the
reader of weights of PyTorch makes no other objects than tensors and refuses a pickle that asks for more.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from condenser.files import atomic_write, canonical_json, read_json

WEIGHTS_FILE = "model.safetensors"
PICKLE_FILE = "pytorch_model.bin"
INDEX = ".index.json"
Made = TypeVar("Made", bound=nn.Module)

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class _WithoutInitialisation(TorchFunctionMode):
    """Within it the functions of `torch.nn.init` do nothing."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__module__", None) == nn.init.__name__:
            return None
        return func(*args, **(kwargs or {}))


def make_unfilled(make: Callable[[], Made]) -> Made:
    """The module that `make` gives, before its weights have values: no time is lost on drawing them.

    (For PyTorch's own way, the meta device, it imports torch.compile, which takes more than a second.)
    """
    with _WithoutInitialisation():
        return make()


def initialise(module: nn.Module, *, standard_deviation: float, seed: int) -> None:
    """Replace a module's weights by new ones: N(0, sd) for matrices, 1 and 0 for LayerNorm, 0 for biases.

    They depend on the seed and the module's structure, never on the global random generator.
    Source: BERT's initialisation (its embedding of padding is 0).
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, nn.LayerNorm):
                part.weight.fill_(1.0)
                if part.bias is not None:
                    part.bias.zero_()
            elif isinstance(part, nn.Linear | nn.Embedding):
                drawn = torch.empty(part.weight.shape).normal_(0.0, standard_deviation, generator=generator)
                part.weight.copy_(drawn)
                if isinstance(part, nn.Embedding) and part.padding_idx is not None:
                    part.weight[part.padding_idx].zero_()
                if isinstance(part, nn.Linear) and part.bias is not None:
                    part.bias.zero_()


def write_weights(
    path: str | Path,
    module: nn.Module,
    *,
    settings: Mapping[str, Any] | None,
    rename: Callable[[str], str] = str,
) -> None:
    """Write a module's weights as safetensors, with `settings`, if there are any, in the header.

    `rename` gives the names in the file.
    """
    tensors = {rename(name): value.detach().cpu().contiguous() for name, value in module.state_dict().items()}
    # one key, because safetensors writes several in a random order
    metadata = {"format": "pt"} if settings is None else {"settings": canonical_json(dict(settings))}
    with atomic_write(path) as file:
        file.write(save(tensors, metadata=metadata))


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file, by name.

    Raises:
        ValueError: the file is not a complete safetensors file.
    """
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path}: expected a complete safetensors file ({error}).") from error


def read_float32_weights(path: str | Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file, by name, in float32.

    Raises:
        ValueError: the file is not complete, or holds something else than floating-point numbers.
    """
    return {name: as_float32(value, name=name, path=path) for name, value in read_weights(path).items()}


def as_float32(value: Tensor, *, name: str, path: str | Path) -> Tensor:
    """A weight in float32; `name` and `path` are for the error.

    Raises:
        ValueError: it was not a floating-point number of 16, 32 or 64 bits: the model was quantised.
    """
    if value.dtype not in _DTYPES:
        raise ValueError(
            f"{path}: expected floating-point weights of 16, 32 or 64 bits, got {value.dtype} "
            f"in {name!r:.100}. Use the model as it was before quantisation."
        )
    return value.float()


def read_settings(path: str | Path) -> dict[str, Any]:
    """The settings that `write_weights` put into the header of a file; {} if it put none.

    Raises:
        ValueError: the file is not a complete safetensors file, or its header holds something else.
    """
    try:
        with safe_open(path, framework="pt") as file:
            settings = json.loads((file.metadata() or {}).get("settings", "{}"))
    except (SafetensorError, ValueError) as error:
        raise ValueError(f"{path}: expected a complete safetensors file ({error}).") from error
    if not isinstance(settings, dict):
        raise ValueError(f"{path}: expected settings in its header, got {settings!r:.60}. Make it again.")
    return settings


def refuse_other_shapes(
    make: Callable[[], nn.Module], tensors: Mapping[str, Tensor], *, origin: str | Path
) -> None:
    """See that the module that `make` gives needs these tensors, before any memory is taken for it.

    Raises:
        ValueError: see `fill`; or the sizes are beyond any memory.
    """
    try:
        with torch.device("meta"):
            module = make()
    except RuntimeError as error:
        raise ValueError(
            f"{origin}: does not fit its configuration ({' '.join(str(error).split())[:200]})."
        ) from error
    fill(module, tensors, origin=origin, takes_over=True)


def fill(
    module: nn.Module, tensors: Mapping[str, Tensor], *, origin: str | Path, takes_over: bool = False
) -> None:
    """Load tensors into a module, which must need all of them and no others; `origin` is for the error.

    With `takes_over` the module has the tensors themselves, not copies.

    Raises:
        ValueError: a weight is missing, unknown or of another shape.
    """
    try:
        module.load_state_dict(tensors, assign=takes_over)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:400]
        raise ValueError(f"{origin}: does not fit its configuration ({reason}).") from error


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
