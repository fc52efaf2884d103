"""What our files import, read from their syntax trees."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(file: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(file.read_text(), filename=str(file))


def imports(node: ast.AST) -> set[str]:
    """The modules that are imported anywhere below a node; what is imported from one may be a module, too."""
    names: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Import):
            names.update(name.name for name in part.names)
        elif isinstance(part, ast.ImportFrom) and part.module:
            assert part.level == 0, "relative import"
            names.add(part.module)
            names.update(f"{part.module}.{name.name}" for name in part.names)
    return names


def imports_at_once(tree: ast.Module) -> set[str]:
    """The modules that are imported with a file: not in functions, and not for types alone."""
    at_once: set[str] = set()
    parts = [part for node in tree.body for part in (node.body if isinstance(node, ast.ClassDef) else [node])]
    for node in parts:
        is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if not isinstance(node, ast.FunctionDef) and not is_for_types:
            at_once |= imports(node)
    return at_once


def file_of(module: str, root: Path) -> Path | None:
    """The file of a module of ours."""
    base = root.joinpath(*module.split("."))
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()), None)
