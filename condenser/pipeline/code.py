"""Digests of our own code, by module; a comment or a docstring does not change them.

The code of a program is the program and every module of ours that it imports, directly or through others,
also inside functions, and their parent packages, which Python runs first. A digest is of the syntax tree
without comments and docstrings. It is the same in every version of Python.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from condenser.files import sha256_text

PACKAGE = "condenser"

# Display, bookkeeping and types of settings: they never change a result, so an edit here reruns nothing.
WITHOUT_EFFECT = frozenset(
    f"{PACKAGE}.{name}" for name in ("progress", "program", "manifest", "settings", "kinds")
)


_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # fields of a statement that hold statements


@cache  # every job asks
def code_digests(program: Path, root: Path, modules: tuple[str, ...] = ()) -> dict[str, str]:
    """Digest of the program and of every module of ours it reaches, by name.

    Args:
        program: a Python file.
        root: the folder that holds the package.
        modules: modules that the program imports by a computed name, which no syntax tree shows.

    Raises:
        ValueError: an import is relative.
    """
    digest, imports = _read(program)
    digests, waiting = {program.name: digest}, [*modules, *imports]
    while waiting:
        module = waiting.pop()
        waiting += filter(None, [module.rpartition(".")[0]])
        base = root.joinpath(*module.split("."))
        file = next(filter(Path.is_file, [base.with_suffix(".py"), base / "__init__.py"]), None)
        if file is not None and module not in digests and module not in WITHOUT_EFFECT:
            digests[module], imports = _read(file)
            waiting += imports
    return dict(sorted(digests.items()))


@cache  # most programs share most modules
def _read(file: Path) -> tuple[str, list[str]]:
    """The digest of a file, and the names of ours in its import statements: modules, and what they hold."""
    tree = ast.parse(file.read_bytes(), filename=str(file))
    found: set[str] = set()
    for node in _statements(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
        elif isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module is None or node.level:
                raise ValueError(
                    f"{file}:{node.lineno}: expected an import by its whole name, got a relative one. "
                    f"Write `from {PACKAGE}... import ...`."
                )
            found.update([node.module, *(f"{node.module}.{name.name}" for name in node.names)])
    ours = sorted(name for name in found if name.partition(".")[0] == PACKAGE)
    return sha256_text(_rendered(tree))[:12], ours


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """The module, its statements and theirs: imports and docstrings are not inside expressions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name in _BLOCKS:
            waiting += getattr(node, name, ())


def _rendered(node: Any) -> str:
    """A syntax tree as text that is the same in every version of Python.

    `ast.unparse` quotes a nested f-string as its version may, `ast.dump` shows other empty fields,
    Python 3.12 ends a format with an empty text, and `repr` escapes what its Unicode does not know.
    """
    if isinstance(node, ast.AST):
        inner = []
        for name in _shown_fields(node._fields):
            value = getattr(node, name, None)
            if isinstance(node, ast.JoinedStr):
                value = [part for part in node.values if getattr(part, "value", None) != ""]
            if value is not None and value != []:
                inner.append(f"{name}={_rendered(value)}")
        return f"{type(node).__name__}({','.join(inner)})"
    if isinstance(node, list):
        return f"[{','.join(map(_rendered, node))}]"
    return ascii(node)


@cache  # a dry run renders a hundred thousand nodes
def _shown_fields(fields: tuple[str, ...]) -> list[str]:
    return sorted({*fields} - {"kind", "type_comment"})
