"""A linear layer over the pooled vector, or over token states: the module Dense of sentence-transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn

from condenser.encoders import CONFIG_FILE
from condenser.files import read_json, write_json
from condenser.model.encoder import Encoder
from condenser.model.weights import (
    WEIGHTS_FILE,
    fill,
    initialise,
    make_unfilled,
    read_tensors,
    refuse_other_shapes,
    write_weights,
)

PROJECTION_FOLDER = "2_Dense"
_ACTIVATIONS = {
    f"torch.nn.modules.{name}": activation
    for name, activation in {
        "linear.Identity": nn.Identity,
        "activation.Tanh": nn.Tanh,
        "activation.GELU": nn.GELU,
        "activation.ReLU": nn.ReLU,
    }.items()
}


class ProjectionSettings(BaseModel):
    """Named as in the module's config.json."""

    model_config = ConfigDict(strict=True, extra="forbid")
    in_features: Annotated[int, Field(ge=1)]
    out_features: Annotated[int, Field(ge=1)]
    bias: bool = True
    activation_function: Literal[tuple(_ACTIVATIONS)] = "torch.nn.modules.activation.Tanh"  # type: ignore[valid-type]
    module_input_name: Literal["sentence_embedding"] = "sentence_embedding"
    module_output_name: Literal["sentence_embedding"] | None = "sentence_embedding"
    use_residual: Literal[False] = False


class Projection(nn.Module):
    """The activation of a linear layer."""

    def __init__(self, settings: ProjectionSettings) -> None:
        super().__init__()
        self.settings = settings
        self.linear = nn.Linear(settings.in_features, settings.out_features, bias=settings.bias)
        self._activation = _ACTIVATIONS[settings.activation_function]()

    @property
    def torch_activation(self) -> str:
        """Its activation's class as a name that `import torch` reaches."""
        return self.settings.activation_function

    def forward(self, vectors: Float[Tensor, "row dim"]) -> Float[Tensor, "row out"]:
        """The projected vectors."""
        output: Tensor = self._activation(self.linear(vectors))
        return output

    def save(self, folder: Path) -> None:
        """Write the module's folder as sentence-transformers reads it."""
        folder.mkdir(exist_ok=True)
        write_json(folder / CONFIG_FILE, self.settings.model_dump(exclude={"use_residual"}))
        write_weights(folder / WEIGHTS_FILE, self, settings=None)


def new_projection(backbone: Encoder, dim: int, *, seed: int) -> Projection:
    """A new linear layer without bias and activation, as ColBERT's (Khattab and Zaharia 2020, §3.2)."""
    settings = ProjectionSettings(
        in_features=backbone.config.hidden_size,
        out_features=dim,
        bias=False,
        activation_function="torch.nn.modules.linear.Identity",
    )
    projection = make_unfilled(lambda: Projection(settings))
    initialise(projection, standard_deviation=backbone.config.initializer_range, seed=seed)
    return projection


def vector_dim(backbone: Encoder, projection: Projection | None) -> int:
    """How many numbers a text's vector has."""
    return backbone.config.hidden_size if projection is None else projection.settings.out_features


def read_projection(folder: Path) -> Projection:
    """Read a module's folder.

    Raises:
        ValueError: it has no settings or weights, or settings that are not computed here.
    """
    path = folder / CONFIG_FILE
    try:
        settings = ProjectionSettings.model_validate(read_json(path) if path.is_file() else None)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(
            f"{path}: expected the settings of a module Dense ({where}: {first['msg']}, got "
            f"{first['input']!r:.60}). Set pooling and normalised of the model in the config to leave it out."
        ) from error
    tensors = read_tensors(folder)
    refuse_other_shapes(lambda: Projection(settings), tensors, origin=folder)
    projection = make_unfilled(lambda: Projection(settings))
    fill(projection, tensors, origin=folder)
    return projection
