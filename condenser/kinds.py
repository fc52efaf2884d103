"""Kinds are files: the modules of a folder, found by name.

`condenser/data/sources/beir.py` is the source `beir`, `condenser/objectives/ict.py` the objective `ict`,
`condenser/systems/biencoder.py` the kind of system `biencoder`, `condenser/evaluate/measures/mrr.py` the
measure `mrr`. Each folder's `__init__.py` says what its modules hold. A file whose name begins with an
underscore is not a kind.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType

_ROOT = Path(__file__).resolve().parent


def names(folder: str) -> list[str]:
    """The names of all kinds of a folder of this package, such as "data/sources".

    >>> "beir" in names("data/sources")
    True
    """
    found = pkgutil.iter_modules([str(_ROOT / folder)])
    return sorted(module.name for module in found if not module.name.startswith("_"))


def module_name(folder: str, name: str) -> str:
    """The dotted name of a kind's module, whether it exists or not."""
    return ".".join(["condenser", *folder.split("/"), name])


@cache
def load(folder: str, name: str) -> ModuleType:
    """The module of a kind.

    Raises:
        ValueError: there is no such kind, or a file and a folder both have its name.
    """
    known = names(folder)
    if name not in known:
        raise ValueError(f"expected one of {', '.join(known)}, got {name!r:.80}.")
    path = _ROOT / folder / name
    if path.is_dir() and path.with_suffix(".py").exists():  # Python would silently leave out the file
        raise ValueError(f"{path}: expected a name of its own, got that of {path.name}.py. Rename one.")
    return importlib.import_module(module_name(folder, name))


def unknown(noun: str, name: str, known: Iterable[str]) -> LookupError:
    """The error of a name that the configuration lacks, with the nearest that it has."""
    known = list(known)
    hint = suggest_name(name, known, otherwise=f"Add it under {noun}s, or ask for another.")
    return LookupError(
        f"expected a {noun} of the configuration ({', '.join(known)}), got {name[:100]}. {hint}"
    )


def suggest_name(name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """What to do about a name that is not among the known ones: take the nearest, else `otherwise`.

    >>> suggest_name("beeir", ["beir", "tsv"]), suggest_name("x", ["beir"], otherwise="Add it.")
    ('Did you mean beir?', 'Add it.')
    """
    close = difflib.get_close_matches(name[:100], list(known), n=1)
    return f"Did you mean {close[0]}?" if close else otherwise
