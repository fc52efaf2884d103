"""Types of settings, shared by the configuration and the kinds that declare settings of their own."""

from __future__ import annotations

import copy
import functools
import reprlib
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, model_validator

EACH = "each"  # the seed of a model that is pre-trained once for every seed of a table
AUTO = "auto"  # a length of texts that is chosen by the collection: `condenser.data.lengths`
LONGER_TEXTS = (  # what helps where a model has no text of a collection to learn from
    "name longer texts by the key documents of the data set, or leave out the rows that start from this model"
)
LARGEST = 2**63 - 1  # of NumPy's and torch's integers


def _whole_number_as_int(epochs: float) -> float:
    """2 for 2.0: both are the same setting."""
    return int(epochs) if epochs == int(epochs) else epochs


def _number_or_bounds(value: Any) -> Any:
    """A number of updates, or its two bounds; one message, where a union would give one for each type."""
    bounds = {"least": value, "most": value}
    if isinstance(value, Mapping):
        bounds = {"least": None, "most": None, **value}
    given = [bound for bound in bounds.values() if bound is not None]
    is_number = all(type(bound) is int and 1 <= bound <= LARGEST for bound in given)
    if value is None or (len(bounds) == 2 and given and is_number and given == sorted(given)):
        return bounds if isinstance(value, Mapping) else value
    raise ValueError(
        "expected a whole number of at least 1, or bounds such as {least: 16, most: 64}, the least not above "
        f"the most, got {reprlib.repr(value)}"
    )


def _each_once(values: list[Any]) -> list[Any]:
    """A table would have two columns of one name, and a training would read negatives twice."""
    if repeated := [value for value in values if values.count(value) > 1]:
        raise ValueError(f"expected each once, got {repeated[0]} again")
    return values


def _home_folder_written_out(path: str) -> str:
    return str(Path(path).expanduser()) if path.startswith("~/") else path


def seed_or_each(value: Any) -> Any:
    """One message, where a union of types would give one for each."""
    if value in (None, EACH) or (type(value) is int and 0 <= value <= LARGEST):
        return value
    raise ValueError(f"expected a whole number or each, got {reprlib.repr(value)}")


Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
NotNegative = Annotated[float, Field(ge=0.0)]
Count = Annotated[int, Field(ge=1, le=LARGEST)]
Whole = Annotated[int, Field(ge=0, le=LARGEST)]
EachOnce = AfterValidator(_each_once)
Seeds = Annotated[list[Whole], Field(min_length=1), EachOnce]
Epochs = Annotated[  # 0.25: the first quarter of an epoch
    int | float, Field(gt=0, le=LARGEST), AfterValidator(_whole_number_as_int)
]
Updates = Annotated[  # 18, or {least: 16, most: 64}
    int | dict[str, int | None] | None, PlainValidator(_number_or_bounds)
]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=100)]  # part of a file's name
HomePath = Annotated[str, AfterValidator(_home_folder_written_out)]  # `~/` is the user's home folder
Names = Annotated[list[Name], EachOnce]
UNTRAINED = "untrained"  # the variant of a system that no training by seed reaches
DatasetName = Annotated[  # of a folder, so that it may have a dot where others have an ending
    str, Field(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", max_length=100)
]


class Block(BaseModel):
    """A block of the configuration: strict types, and only declared keys."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    if not TYPE_CHECKING:  # a type checker knows the keys

        def __getattr__(self, name: str) -> Any:
            if name in type(self).__private_attributes__:
                return super().__getattr__(name)
            if hasattr(type(self), name):  # a property, which lacks another key
                return super().__getattribute__(name)
            given = ", ".join(vars(self)) or "none"
            raise MissingKey(f"{type(self).__module__}: expected the key {name}, got {given}.")


class MissingKey(ValueError, AttributeError):
    """A block of a job lacks a key."""


BlockType = TypeVar("BlockType", bound=Block)


def partly(block: type[BlockType], values: Mapping[str, Any]) -> BlockType:
    """A block with some of its keys, which have been checked before. To ask for another one fails."""
    nested = _nested(block)
    made = copy.copy(_empty(block))
    made.__dict__.update(
        {name: _read(nested[name], value) if name in nested else value for name, value in values.items()}
    )
    return made


@functools.cache  # a dry run asks thousands of times, and pydantic would look up each default
def _empty(block: type[BlockType]) -> BlockType:
    made = block.model_construct()
    made.__dict__.clear()
    return made


@functools.cache
def _nested(block: type[Block]) -> dict[str, Any]:
    """The annotations of those keys that may hold a block."""
    annotations = {name: field.annotation for name, field in block.model_fields.items()}
    return {name: annotation for name, annotation in annotations.items() if _holds_block(annotation)}


def _holds_block(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return True
    return any(map(_holds_block, get_args(annotation)))


def _read(annotation: Any, value: Any) -> Any:
    """A value with its blocks as the annotation of its key has them."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return partly(annotation, value) if isinstance(value, Mapping) else value
    if origin is list and isinstance(value, list):
        return [_read(inner[0], one) for one in value]
    if origin is dict and isinstance(value, Mapping):
        return {key: _read(inner[1], one) for key, one in value.items()}
    if origin in (Union, UnionType, Annotated):
        return next((made for part in inner if (made := _read(part, value)) is not value), value)
    return value


class Settings(SimpleNamespace):
    """What one job sees of the configuration: blocks and values by name."""


def plain(value: Any) -> Any:
    """Settings as JSON has them."""
    if isinstance(value, Block | SimpleNamespace):
        return {name: plain(inner) for name, inner in vars(value).items()}
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two blocks merged: `above` wins where both have a key, and nested blocks are merged alike."""
    result = dict(below)
    for key, value in above.items():
        is_block = isinstance(value, Mapping) and isinstance(below.get(key), Mapping)
        result[key] = merged(below[key], value) if is_block else value
    return result


def merged_training(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two blocks of a training merged; `above` replaces the whole length of the training that is below it.

    So `epochs` above also replace `updates` and `epochs_by_size` below, and a number of updates replaces
    `epochs`. Bounds of the updates leave the epochs that they bound.
    """
    replaced: set[str] = set()
    if above.get("epochs") is not None:
        replaced = {"updates", "epochs_by_size"}
    elif isinstance(above.get("updates"), int):
        replaced = {"epochs", "epochs_by_size"}
    return merged({key: value for key, value in below.items() if key not in replaced}, above)


class Optimiser(Block):
    """The keys of every training.

    It makes `epochs` over its items, but at least and at most as many updates as the bounds in `updates` say;
    or, whatever its items, just the number in `updates`, and `epochs` is null.
    """

    batch_size: Count  # items an update, of all processes together
    learning_rate: Positive  # the highest, after the warm-up
    weight_decay: NotNegative  # of AdamW
    warmup_ratio: Share  # share of the updates in which the rate rises
    max_grad_norm: NotNegative  # 0: no clipping
    drop_last: bool = False  # leave out the last batch of an epoch where it is shorter
    epochs: Epochs | None = None  # passes over the items; null where `updates` is a number
    updates: Updates = None  # a number, or bounds such as {least: 16, most: 64} beside `epochs`

    @property
    def num_trainings(self) -> int:
        """Trainings, each on other batches, whose mean of weights is the model."""
        return 1

    @property
    def texts_per_item(self) -> int:
        """Passages that an item of a batch brings along."""
        return 1

    @property
    def adamw(self) -> tuple[float, bool]:
        """The epsilon of AdamW, and whether it corrects the bias of its first updates."""
        return 1e-8, True

    @model_validator(mode="after")
    def _has_one_length(self) -> Optimiser:
        if (self.epochs is None) != isinstance(self.updates, int):
            given = f"epochs {self.epochs} and updates {self.updates}".replace("None", "null")
            raise ValueError(
                f"expected either epochs or a number of updates, got {given}. Give one, and set the other "
                "to null"
            )
        return self


def _tokens_or_auto(value: Any) -> Any:
    """One message, where a union of types would give one for each."""
    if value in (None, AUTO) or (type(value) is int and 3 <= value <= LARGEST):
        return value
    raise ValueError(f"expected a whole number of at least 3, {AUTO} or null, got {reprlib.repr(value)}")


TokensOrAuto = Annotated[Any, PlainValidator(_tokens_or_auto)]  # int, "auto" or None


class Lengths(Block):
    """Tokens that are read of a text; `auto` is chosen by the texts (`condenser.data.lengths`).

    Where a recipe has null, the data set's number counts, and where that is null, too, `auto`.
    """

    # whole number, `auto` by the texts, or null: that of the data set, else `auto`
    query: TokensOrAuto = None
    passage: TokensOrAuto = None  # as query
