"""Digests of our own code, by module; a comment or a docstring does not change them.

The code of a program is the program and every module of ours that it imports, directly or through others,
also inside functions, and their parent packages, which Python runs first. A digest is of the syntax tree
without comments and docstrings. It is the same in every version of Python.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any

from condenser.files import sha256_text
from condenser.pipeline.remembered import Remembered

PACKAGE = "condenser"

# Display, bookkeeping and types of settings: they never change a result, so an edit here reruns nothing.
WITHOUT_EFFECT = frozenset(
    f"{PACKAGE}.{name}" for name in ("progress", "program", "job", "manifest", "settings", "blocks", "kinds")
)


_DOCUMENTED = {ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef}


@cache  # every job asks
def code_digests(
    program: Path, root: Path, modules: tuple[str, ...] = (), remembered: Remembered | None = None
) -> dict[str, str]:
    """Digest of the program and of every module of ours it reaches, by name.

    Args:
        program: a Python file.
        root: the folder that holds the package.
        modules: modules that the program imports by a computed name, which no syntax tree shows.
        remembered: what was read before; parsing all of our code takes a third of a second.

    Raises:
        ValueError: an import is relative.
    """
    read = (remembered or Remembered(None)).of
    digest, imports = read(program, _read, by=Path(__file__))
    digests, waiting, seen = {program.name: digest}, [*modules, *imports], {""}
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        waiting.append(module.rpartition(".")[0])
        if module not in WITHOUT_EFFECT and (file := _file_of(module, root)):
            digests[module], imports = read(file, _read, by=Path(__file__))
            waiting += imports
    return dict(sorted(digests.items()))


@cache  # most programs reach the same modules
def _file_of(module: str, root: Path) -> Path | None:
    """The file of a module or a package; None of a name that is something in a module."""
    base = root.joinpath(*module.split("."))
    return next(filter(Path.is_file, [base.with_suffix(".py"), base / "__init__.py"]), None)


def _read(file: Path) -> tuple[str, list[str]]:
    """The digest of a file, and the names of ours in its import statements: modules, and what they hold."""
    imported: set[str] = set()
    try:
        text = _rendered(ast.parse(file.read_bytes(), filename=str(file)), imported)
    except ValueError as error:
        raise ValueError(f"{file}:{error}") from None
    ours = sorted(name for name in imported if name.partition(".")[0] == PACKAGE)
    return sha256_text(text)[:12], ours


def _rendered(node: Any, imported: set[str]) -> str:
    """A syntax tree as text that is the same in every version of Python; notes what it imports.

    `ast.unparse` quotes a nested f-string as its version may, `ast.dump` shows other empty fields,
    Python 3.12 ends a format with an empty text, and `repr` escapes what its Unicode does not know.
    """
    if isinstance(node, list):
        return f"[{','.join([_rendered(part, imported) for part in node])}]"
    kind, inner = type(node), list[str]()
    if not issubclass(kind, ast.AST):
        return ascii(node)
    if kind in _DOCUMENTED and ast.get_docstring(node, clean=False) is not None:
        node.body = node.body[1:] or [ast.Pass()]
    elif kind is ast.Import:
        imported.update(name.name for name in node.names)
    elif kind is ast.ImportFrom:
        if node.module is None or node.level:
            raise ValueError(
                f"{node.lineno}: expected an import by its whole name, got a relative one. "
                f"Write `from {PACKAGE}... import ...`."
            )
        imported.update([node.module, *(f"{node.module}.{name.name}" for name in node.names)])
    elif kind is ast.JoinedStr:
        node.values = [part for part in node.values if getattr(part, "value", None) != ""]
    for name in _shown_fields(node._fields):
        value = getattr(node, name, None)
        if value is not None and value != []:
            inner.append(f"{name}={_rendered(value, imported)}")
    return f"{kind.__name__}({','.join(inner)})"


@cache  # a dry run renders a hundred thousand nodes
def _shown_fields(fields: tuple[str, ...]) -> list[str]:
    return sorted({*fields} - {"kind", "type_comment"})
