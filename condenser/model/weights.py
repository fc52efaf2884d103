"""Weights on disk and new weights: safetensors whose bytes depend on their content alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from condenser.files import atomic_write, canonical_json


def initialise(module: nn.Module, *, standard_deviation: float, seed: int) -> None:
    """Draw new weights as BERT's are drawn: N(0, sd) for matrices, 1 and 0 for LayerNorm, 0 for biases.

    The draw depends on the seed and the module's structure, never on the global generator.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, nn.LayerNorm):
                part.weight.fill_(1.0)
                part.bias.zero_()
            elif isinstance(part, nn.Linear | nn.Embedding):
                drawn = torch.empty(part.weight.shape).normal_(0.0, standard_deviation, generator=generator)
                part.weight.copy_(drawn)
                if isinstance(part, nn.Embedding) and part.padding_idx is not None:
                    part.weight[part.padding_idx].zero_()
                if isinstance(part, nn.Linear) and part.bias is not None:
                    part.bias.zero_()


def write_weights(path: str | Path, module: nn.Module, *, settings: Mapping[str, Any] | None) -> None:
    """Write a module's weights as safetensors, with `settings` in its header if there are any."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in module.state_dict().items()}
    # one key only: safetensors writes several in no fixed order
    metadata = {"format": "pt"} if settings is None else {"settings": canonical_json(dict(settings))}
    with atomic_write(path) as file:
        file.write(save(tensors, metadata=metadata))


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file, by name.

    Raises:
        ValueError: the file is no complete safetensors file.
    """
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path}: expected a complete safetensors file ({error}).") from error


def read_settings(path: str | Path) -> dict[str, Any]:
    """The settings in the header of a file of `write_weights`; none give {}."""
    try:
        with safe_open(path, framework="pt") as file:
            settings = json.loads((file.metadata() or {}).get("settings", "{}"))
    except (SafetensorError, ValueError) as error:
        raise ValueError(f"{path}: expected a complete safetensors file ({error}).") from error
    if not isinstance(settings, dict):
        raise ValueError(f"{path}: expected settings in its header, got {settings!r:.60}. Make it again.")
    return settings


def fill(module: nn.Module, tensors: Mapping[str, Tensor], *, origin: str | Path) -> None:
    """Fill a module with tensors that must be its weights, all and no others; `origin` is for the error.

    Raises:
        ValueError: a weight is missing, too many or of another shape.
    """
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{origin}: does not fit the configuration it came with ({reason}).") from error
