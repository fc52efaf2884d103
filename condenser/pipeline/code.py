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
from typing import NamedTuple

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
    code = _read(program, root)
    digests = {program.name: code.digest}
    waiting = [*code.imports, *modules]
    while waiting:
        module = waiting.pop()
        file = _file_of(module, root)
        if module in digests or module in WITHOUT_EFFECT or file is None:
            continue
        code = _read(file, root)
        digests[module] = code.digest
        waiting.extend(code.imports)
    return dict(sorted(digests.items()))


def _file_of(module: str, root: Path) -> Path | None:
    base = root.joinpath(*module.split("."))
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


class _Code(NamedTuple):
    digest: str
    imports: tuple[str, ...]


@cache  # most programs share most modules
def _read(file: Path, root: Path) -> _Code:
    """The digest of a file, and the modules of ours that it names in an import statement."""
    tree = ast.parse(file.read_bytes(), filename=str(file))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
        elif isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{name.name}" for name in node.names)
    ours = sorted(name for name in found if name == PACKAGE or name.startswith(PACKAGE + "."))
    return _Code(
        digest=sha256_text(ast.unparse(tree))[:12],
        imports=tuple(name for name in ours if _file_of(name, root) is not None),
    )
