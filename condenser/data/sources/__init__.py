"""One module a source; all give the same canonical files (`condenser.data.canonical`).

A source `NAME` is the module `condenser.data.sources.NAME` with three functions; nothing else has
to be told of it:

- `raw_files(settings) -> list[str]`: the official files it reads, by their names in
  `condenser.data.official` (downloaded before);
- `local_files(settings) -> list[Path]`: the user's own files it reads;
- `collect(folder, raw, *, ..., **_) -> counts`: writes the canonical files into `folder`; `raw` maps
  each name of `raw_files` to where it lies; the settings it uses are keyword-only arguments.

`settings` is the data set's block of the configuration.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from condenser.files import write_json


def source_names() -> list[str]:
    """The names of all sources."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load_source(name: str) -> ModuleType:
    """The module of a source.

    Raises:
        ValueError: there is no such source.
    """
    if name not in source_names():
        raise ValueError(f"expected a source out of {', '.join(source_names())}, got {name!r}.")
    return importlib.import_module(f"{__name__}.{name}")


def raw_files(settings: Mapping[str, Any]) -> list[str]:
    """The names of the official files that a data set is made from."""
    return load_source(settings["source"]).raw_files(settings)


def local_files(settings: Mapping[str, Any]) -> list[Path]:
    """The user's own files that a data set is made from."""
    return load_source(settings["source"]).local_files(settings)


def check_local_files(datasets: Mapping[str, Mapping[str, Any]]) -> None:
    """See that the user's own files of all data sets are there, before anything runs.

    Raises:
        ValueError: one is not; the message names the key and the file.
    """
    for name, settings in datasets.items():
        try:
            files = local_files(settings)
        except ValueError as error:
            raise ValueError(f"datasets.{name}: {error}") from error
        for file in files:
            if not file.is_file():
                raise ValueError(
                    f"datasets.{name}.path: expected the file {file}, found none. "
                    "Add it, or correct the path or the splits."
                )


def collect(folder: Path, raw: Mapping[str, Path], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Write the canonical files of a data set, and `counts.json`, into `folder`; gives the counts.

    Raises:
        ValueError: a setting or a raw file is missing, or the data do not fit; the message says where.
    """
    if missing := [name for name in raw_files(settings) if name not in raw]:
        raise ValueError(
            f"source {settings['source']}: expected the files {', '.join(missing)}, got none. "
            "Download them first."
        )
    source = load_source(settings["source"])
    needed = [
        name
        for name, parameter in inspect.signature(source.collect).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
    ]
    if absent := [name for name in needed if name not in settings]:
        raise ValueError(f"source {settings['source']}: expected the setting {', '.join(absent)}, got none.")
    counts = source.collect(folder, raw, **{key: settings[key] for key in settings if key != "source"})
    write_json(folder / "counts.json", counts)
    return counts
