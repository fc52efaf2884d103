"""Configurations and settings of tests, written as plain values and read as objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from condenser import kinds
from condenser.blocks import Table, recipe_class
from condenser.data import sources as real_sources
from condenser.job import BLOCKS
from condenser.nouns import Config, Noun
from condenser.settings import Settings, partly, plain

_ENTRIES = {
    "datasets": ("source", "data/sources"),
    "models": ("objective", "objectives"),
    "systems": ("kind", "systems"),
    "figures": ("kind", "evaluate/figures"),
}
_TABLE = {
    "optional": [],
    "published": [],
    "train_queries": ["all"],
    "seeds": None,
    "labels": {},
    "compare_with": None,
}


def config_of(written: Mapping[str, Any]) -> Config:
    """A configuration with just these keys, none of them checked."""
    made = {"extracted": {}, **written}
    for noun, (tag, folder) in _ENTRIES.items():
        if noun in made:
            made[noun] = {name: entry_of(entry, tag, folder) for name, entry in made[noun].items()}
    if "recipes" in made:
        made["recipes"] = {
            name: partly(recipe_class(recipe), recipe) for name, recipe in made["recipes"].items()
        }
    if "tables" in made:
        made["tables"] = {
            name: partly(Table, {**_TABLE, "by_dataset": {}, **table})
            for name, table in made["tables"].items()
        }
    for name, block in BLOCKS.items():
        if isinstance(made.get(name), Mapping):
            made[name] = partly(block, made[name])
    config = partly(Config, {})
    config.__dict__.update(made)
    for noun in ("datasets", "models", "systems"):
        for key, entry in made.get(noun, {}).items():
            if isinstance(entry, Noun):
                entry.join(key, config)
    return config


def entry_of(entry: Mapping[str, Any], tag: str, folder: str) -> Any:
    """An entry by the class of its kind, a system with its defaults; of no kind, just its values."""
    if tag not in entry:
        return Settings(**entry)
    kind = kinds.load(folder, entry[tag]).Settings
    fields = kind.model_fields.items() if folder == "systems" else ()
    defaults = {
        name: field.get_default(call_default_factory=True)
        for name, field in fields
        if not field.is_required()
    }
    return partly(kind, {**defaults, **entry})


class OnPlainValues:
    """The functions of a module, given data sets as plain values; they give plain values."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self._module, name):  # a method of the settings
            return lambda given, *more: _of(as_objects(given), name, more)
        found = getattr(self._module, name)
        if not callable(found):
            return found
        return lambda *given, **named: plain(
            found(*map(as_objects, given), **{name: as_objects(value) for name, value in named.items()})
        )


def _of(settings: Any, name: str, arguments: Sequence[Any]) -> Any:
    """A property of settings, or what a method of theirs gives."""
    found = getattr(settings, name)
    return found(*arguments) if callable(found) else found


def as_objects(value: Any) -> Any:
    """The entry of a data set, or entries by name, as objects; another value as it is."""
    if not isinstance(value, Mapping):
        return value
    if value.get("source") in kinds.names("data/sources"):
        named = {"official_rows": "OFFICIAL_ROWS"}
        value = {named.get(key, key): given for key, given in value.items()}
        return entry_of(value, "source", "data/sources")
    return {name: as_objects(entry) for name, entry in value.items()}


sources = OnPlainValues(real_sources)
