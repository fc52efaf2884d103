"""Kinds are files: the modules of a folder, found by name.

`condenser/data/sources/beir.py` is the source `beir`, `condenser/objectives/ict.py` the objective `ict`,
`condenser/systems/biencoder.py` the kind of system `biencoder`, `condenser/evaluate/measures/mrr.py` the
measure `mrr`. Those that only rows of the papers need are in the folders of the same names in
`condenser/papers`. Each folder's `__init__.py` says what its modules hold. A file whose name begins with an
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
    found = pkgutil.iter_modules([str(_ROOT / place) for place in _places(folder)])
    return sorted(module.name for module in found if not module.name.startswith("_"))


def _places(folder: str) -> tuple[str, str]:
    return folder, f"papers/{Path(folder).name}"


def module_name(folder: str, name: str) -> str:
    """The dotted name of a kind's module, whether it exists or not."""
    ours, papers = _places(folder)
    place = papers if (_ROOT / papers / f"{name}.py").is_file() else ours
    return ".".join(["condenser", *place.split("/"), name])


@cache
def load(folder: str, name: str) -> ModuleType:
    """The module of a kind.

    Raises:
        ValueError: there is no such kind, or two files or folders have its name.
    """
    known = names(folder)
    if name not in known:
        raise ValueError(f"expected one of {', '.join(known)}, got {name!r:.80}.")
    of_name = [_ROOT / place / kind for place in _places(folder) for kind in (name, f"{name}.py")]
    if len(found := [path for path in of_name if path.exists()]) > 1:  # Python would take the first alone
        raise ValueError(f"{found[0]}: expected a name of its own, got that of {found[1]}. Rename one.")
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
