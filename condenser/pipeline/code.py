"""Digests of our own code, by module; a comment or a docstring does not change them.

The code of a program is the program and every module of ours that it imports, directly or through others,
also inside functions, and their parent packages, which Python runs first. A digest is of the syntax tree
without comments and docstrings. It is the same in every version of Python.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from condenser.files import sha256_text

PACKAGE = "condenser"

# Display, bookkeeping and types of settings: they never change a result, so an edit here reruns nothing.
WITHOUT_EFFECT = frozenset(
    f"{PACKAGE}.{name}" for name in ("progress", "program", "manifest", "settings", "kinds")
)


def code_digests(program: Path, *, root: Path, modules: Iterable[str] = ()) -> dict[str, str]:
    """Digest of the program and of every module of ours it reaches, by name.

    Args:
        program: a Python file.
        root: the folder that holds the package.
        modules: modules that the program imports by a computed name, which no syntax tree shows.
    """
    code = _read(program, root)
    digests = {program.name: code.digest}
    waiting = [*code.imports, *modules]
    while waiting:
        module = waiting.pop()
        package = module.rpartition(".")[0]
        if package:
            waiting.append(package)
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
        elif isinstance(node, ast.ImportFrom):
            module = ".".join(filter(None, [_package_above(file, root, node.level), node.module]))
            found.add(module)
            found.update(f"{module}.{name.name}" for name in node.names)
    ours = sorted(name for name in found if name == PACKAGE or name.startswith(PACKAGE + "."))
    return _Code(
        digest=sha256_text(_rendered(tree))[:12],
        imports=tuple(name for name in ours if _file_of(name, root) is not None),
    )


def _package_above(file: Path, root: Path, level: int) -> str:
    """The package that the dots of a relative import in a file stand for; empty for no dots."""
    return ".".join(file.relative_to(root).parts[:-level]) if level else ""


def _rendered(node: Any) -> str:
    """A syntax tree as text that is the same in every version of Python.

    `ast.unparse` quotes a nested f-string as its version may, `ast.dump` shows other empty fields,
    Python 3.12 ends a format with an empty text, and `repr` escapes what its Unicode does not know.
    """
    if isinstance(node, ast.AST):
        fields = dict(ast.iter_fields(node))
        if isinstance(node, ast.JoinedStr):
            fields["values"] = [part for part in node.values if getattr(part, "value", None) != ""]
        inner = ",".join(
            f"{name}={_rendered(value)}"
            for name, value in sorted(fields.items())
            if value is not None and value != [] and name not in ("kind", "type_comment")
        )
        return f"{type(node).__name__}({inner})"
    if isinstance(node, list):
        return f"[{','.join(map(_rendered, node))}]"
    return ascii(node)
