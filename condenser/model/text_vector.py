"""The vector of a text, a property of the model: which states of the last layer make it, and its length.

It lies in a model's folder in the files of sentence-transformers (`modules.json`), so that the folder loads
there as it is used here, and a folder from there is used here as it was trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from condenser.files import read_json, write_json
from condenser.model.bert import Layer
from condenser.model.rows import Chosen, Layout, Rows

MODULES_FILE = "modules.json"
POOLING_FILE = "1_Pooling/config.json"
SIMILARITY_FILE = "config_sentence_transformers.json"
VECTOR_FILES = (MODULES_FILE, POOLING_FILE, SIMILARITY_FILE)

_MODES = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}  # modules.json up to version 5


@dataclass(frozen=True)
class TextVector:
    """How the last layer's states make the vector of a text.

    Attributes:
        pooling: "cls", the first token's state (the papers); or "mean" over all tokens, specials included.
        normalised: whether the vector has length 1, so that an inner product is a cosine.
    """

    pooling: Literal["cls", "mean"] = "cls"
    normalised: bool = False

    @property
    def scale(self) -> float:
        """What similarities are multiplied by in a loss unless a setting says otherwise.

        1 for inner products (the papers). Cosines lie within 1 of each other: 20, as sentence-transformers.
        """
        return 20.0 if self.normalised else 1.0

    def pooled(
        self,
        last: Layer,
        states: Float[Tensor, "token dim"],
        rows: Rows,
        *,
        masked: Chosen | None,
    ) -> tuple[Float[Tensor, "row dim"], Float[Tensor, "masked dim"] | None]:
        """The vectors before they are normalised, and the last layer's states at some tokens.

        `states` are the inputs of the last layer. With "cls" it is computed at these tokens alone, with
        "mean" at all tokens. The dropout of the vectors does not depend on `masked`.
        """
        if self.pooling == "cls":
            vectors, *others = last(states, rows, [rows.first] if masked is None else [rows.first, masked])
            return vectors, others[0] if others else None
        (late,) = last(states, rows, [None])
        kept = None if masked is None else late.index_select(0, masked.tokens)
        return _means(_precise(late), rows.layout), kept

    def finished(self, vectors: Float[Tensor, "row dim"]) -> Float[Tensor, "row dim"]:
        """The vectors as they are compared: of length 1 if the model says so."""
        if not self.normalised:
            return vectors
        with torch.autocast(vectors.device.type, enabled=False):
            return functional.normalize(_precise(vectors), dim=-1)


def _means(states: Float[Tensor, "token dim"], layout: Layout) -> Float[Tensor, "row dim"]:
    """The mean of each row's tokens."""
    means = []
    for tokens, shown in zip(layout.by_group(states), layout.shown, strict=True):
        if shown is None:
            means.append(tokens.mean(dim=1))
        else:
            is_token = shown[:, 0, 0, :, None]
            means.append((tokens * is_token).sum(dim=1) / is_token.sum(dim=1))
    return torch.cat(means)


def _precise(values: Tensor) -> Tensor:
    """In float32 at least: a mean of many, and a length, would be rounded in 16 bits."""
    return values if values.dtype == torch.float64 else values.float()


def read_text_vector(folder: str | Path) -> TextVector:
    """The vector of a model's folder: what `modules.json` says, else the papers' (first token, as it is).

    Raises:
        ValueError: it says something that cannot be computed here, such as another pooling or a dense layer.
    """
    path = Path(folder) / MODULES_FILE
    if not path.is_file():
        return TextVector()
    modules = read_json(path)
    try:
        steps = [(entry["type"].rsplit(".", 1)[-1], Path(entry["path"])) for entry in modules]
    except (TypeError, KeyError, AttributeError):
        raise ValueError(
            f"{path}: expected a list of modules with type and path, got {modules!r:.80}."
        ) from None
    for _, place in steps:
        if place.is_absolute() or ".." in place.parts:
            raise ValueError(
                f"{path}: expected paths inside the model's folder, got {str(place)!r:.80}. "
                "Set pooling and normalised of the model in the config to take its weights."
            )
    known = [name for name, _ in steps]
    if known not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise ValueError(
            f"{path}: expected the modules Transformer, Pooling and at most Normalize, got "
            f"{', '.join(map(_plain, known))}. Set pooling and normalised of the model in the config to take "
            "its weights."
        )
    return TextVector(_pooling(Path(folder, steps[1][1], "config.json")), "Normalize" in known)


def _plain(name: str) -> str:
    """A name of a file of others, as a terminal can show it."""
    return ascii(name)[1:-1][:80]


def _pooling(path: Path) -> Literal["cls", "mean"]:
    settings: Any = read_json(path) if path.is_file() else None
    if not isinstance(settings, Mapping):
        raise ValueError(f"{path}: expected the settings of the pooling, got none. Fetch the model again.")
    chosen = (key for key, value in settings.items() if key.startswith("pooling_mode_") and value)
    modes = [_MODES.get(key, key) for key in chosen]
    if isinstance(settings.get("pooling_mode"), str):
        modes = [settings["pooling_mode"]]
    if modes == ["cls"]:
        return "cls"
    if modes == ["mean"]:
        return "mean"
    raise ValueError(
        f"{path}: expected the pooling cls or mean, got {', '.join(map(_plain, modes)) or 'none'}. "
        "Set pooling and normalised of the model in the config to use its weights in another way."
    )


def write_text_vector(vector: TextVector, folder: str | Path, *, dim: int) -> None:
    """Write the files from which sentence-transformers and `read_text_vector` know the vector."""
    names = ["Transformer", "Pooling", *(["Normalize"] if vector.normalised else [])]
    modules = [
        {
            "idx": index,
            "name": str(index),
            "path": f"{index}_{name}" if index else "",
            "type": f"sentence_transformers.models.{name}",
        }
        for index, name in enumerate(names)
    ]
    pooling = {key: mode == vector.pooling for key, mode in _MODES.items()}
    (Path(folder) / POOLING_FILE).parent.mkdir(exist_ok=True)
    write_json(Path(folder) / MODULES_FILE, modules)
    write_json(Path(folder) / POOLING_FILE, {"word_embedding_dimension": dim, **pooling})
    write_json(
        Path(folder) / SIMILARITY_FILE, {"similarity_fn_name": "cosine" if vector.normalised else "dot"}
    )
