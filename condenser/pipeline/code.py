"""Digests of our own code, module by module, that a comment does not change.

A program's code is the program and every module of ours it imports, directly or through others,
also inside functions. Each counts by its syntax tree without comments and docstrings, so that only
what can change a result changes the digest.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from condenser.files import sha256_text

PACKAGE = "condenser"

# Display and bookkeeping: what they do never reaches a result, so an edit here reruns nothing.
WITHOUT_EFFECT = frozenset({f"{PACKAGE}.progress", f"{PACKAGE}.program"})


def code_digests(program: Path, *, root: Path, modules: Iterable[str] = ()) -> dict[str, str]:
    """Digest of the program and of every module of ours it reaches, by name.

    Args:
        program: a Python file.
        root: the folder that holds the package.
        modules: modules the program imports by a computed name, which no syntax tree shows.
    """
    digests = {program.name: _digest(program)}
    waiting = [*_imports(program, root), *modules]
    while waiting:
        module = waiting.pop()
        file = _file_of(module, root)
        if module in digests or module in WITHOUT_EFFECT or file is None:
            continue
        digests[module] = _digest(file)
        waiting.extend(_imports(file, root))
    return dict(sorted(digests.items()))


def _file_of(module: str, root: Path) -> Path | None:
    base = root.joinpath(*module.split("."))
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def _digest(file: Path) -> str:
    tree = ast.parse(file.read_bytes(), filename=str(file))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
    return sha256_text(ast.unparse(tree))[:12]


@cache
def _imports(file: Path, root: Path) -> tuple[str, ...]:
    """The modules of ours that a file names in an import statement."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes(), filename=str(file))):
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{name.name}" for name in node.names)
    ours = {name for name in found if name == PACKAGE or name.startswith(PACKAGE + ".")}
    return tuple(sorted(name for name in ours if _file_of(name, root) is not None))
