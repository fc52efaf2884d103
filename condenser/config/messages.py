"""What is wrong with a value of the configuration, in one line: the key, what is allowed, what came."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from condenser import kinds
from condenser.program import printable
from condenser.settings import BlockType

LONGEST_PATH = 400  # characters of a path in a message
_LONGEST_PREVIEW = 80  # of another value


def checked_block(model: type[BlockType], values: Any, *, key: str) -> BlockType:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ValueError(first_line(error.errors(), model, key)) from None


def check_name(key: str, name: str, known: Iterable[str]) -> None:
    known = list(known)
    if name not in known:
        listed = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
        said = f"{key}: expected one of {listed}, got {preview(name)}. {kinds.suggest_name(name, known)}"
        raise ValueError(said.rstrip())


def first_line(errors: list[Any], model: type[BaseModel], key: str) -> str:
    """The first error as one line that says the key, what is allowed and what came."""
    first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    key, came, kind = _key_of(key, first["loc"]), first.get("input"), first["type"]
    more = f" ({len(errors) - 1} more)" if len(errors) > 1 else ""
    if kind == "extra_forbidden":
        known = _fields_at(model, first["loc"][:-1])
        hint = kinds.suggest_name(str(first["loc"][-1]), known, otherwise=f"Known: {', '.join(known)}.")
        return f"{key}: unknown key. {hint}{more}"
    if kind == "missing":
        return f"{key}: missing.{more}"
    if isinstance(came, str) and len(came) <= _LONGEST_PREVIEW and kind in ("float_type", "int_type"):
        try:
            float(came)
        except ValueError:
            pass
        else:
            return f"{key}: expected a number, got the text {came!r}. {_how_to_write(came)}{more}"
    if kind == "too_short":
        return f"{key}: expected at least {first['ctx']['min_length']}, got {len(came)}.{more}"
    if kind in ("dict_type", "model_type"):
        return (
            f"{key}: expected a block of keys, got {preview(came)}. Indent its keys, or leave it out.{more}"
        )
    expected = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    expected = expected[:1].lower() + expected[1:]
    if kind == "value_error":
        return f"{key}: {expected}.{more}"
    return f"{key}: expected {expected}, got {preview(came)}.{more}"


def preview(value: Any, *, longest: int = _LONGEST_PREVIEW) -> str:
    """A value as Python writes it, cut to one short line."""
    text = repr(value)
    return text if len(text) <= longest else text[:longest] + "..."


def _how_to_write(text: str) -> str:
    mantissa, _, exponent = text.lower().partition("e")
    if not exponent:
        return f"Write {text} without quotes, in a file: within braces --config makes it a text."
    mantissa += "" if "." in mantissa else ".0"
    exponent = exponent if exponent[0] in "+-" else f"+{exponent}"
    return f"YAML reads an exponent as a number only with a dot and a sign: write {mantissa}e{exponent}."


def _key_of(key: str, location: tuple[int | str, ...]) -> str:
    """`("parts", 0, "id")` below `datasets.wiki` -> `datasets.wiki.parts[0].id`."""
    parts = [key] if key else []
    for part in location:
        if isinstance(part, int):
            above = parts.pop() if parts else "config"
            parts.append(f"{above}[{part}]")
        elif part != "[key]" and not part.startswith(("constrained-", "literal[")):  # names of types
            parts.append(printable(part) if len(part) <= _LONGEST_PREVIEW else preview(part))
    return ".".join(parts) or "config"


def _fields_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The keys that are declared at a place below a model."""
    for part in location:
        field = model.model_fields.get(str(part))
        model = (_model_in(field.annotation) if field else None) or model
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(inner) for inner in get_args(annotation))
    return next((model for model in found if model is not None), None)
