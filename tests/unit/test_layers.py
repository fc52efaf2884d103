"""Imports go one way (docs/architecture.md)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

GROUND = {"condenser.files", "condenser.progress", "condenser.program"}
MAY_IMPORT = {
    "data": {"data"},
    "model": {"model"},
    "loss": {"loss"},
    "train": {"train", "data", "model", "loss"},
    "retrieve": {"retrieve", "data", "model"},
    "evaluate": {"evaluate", "data"},
    "pipeline": {"pipeline", "data"},
    "program": {"pipeline"},  # digests of the code that runs
}


def imports(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{file}: relative import"
            names.add(node.module)
            names.update(f"{node.module}.{name.name}" for name in node.names)
    return names


def package_files(root: Path) -> list[Path]:
    return sorted((root / "condenser").rglob("*.py"))


def test_each_package_imports_only_what_its_layer_may(root: Path) -> None:
    seen = 0
    for file in package_files(root):
        layer = file.relative_to(root / "condenser").parts[0].removesuffix(".py")
        for name in imports(file):
            parts = name.split(".")
            if parts[0] != "condenser" or len(parts) < 2 or ".".join(parts[:2]) in GROUND:
                continue
            seen += 1
            allowed = MAY_IMPORT.get(layer, set())
            assert parts[1] in allowed, f"{file.relative_to(root)} imports {name}"
    assert seen > 10


@pytest.mark.parametrize("forbidden", ["snakemake", "argparse", "yaml"])
def test_the_package_knows_neither_snakemake_nor_the_command_line_nor_yaml(
    root: Path, forbidden: str
) -> None:
    for file in package_files(root):
        assert forbidden not in {name.split(".")[0] for name in imports(file)}, file


@pytest.mark.parametrize(
    "forbidden", ["pickle", "torch.save", "torch.load", "allow_pickle=True", "shelve", "joblib"]
)
def test_no_pickle_is_written_or_read(root: Path, forbidden: str) -> None:
    for file in [*package_files(root), *(root / "workflow_scripts").glob("*.py")]:
        code = ast.unparse(ast.parse(file.read_text()))
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Call):
                assert forbidden not in ast.unparse(node.func), f"{file}: {forbidden}"
        assert forbidden not in imports(file)
        assert "allow_pickle=True" not in code, file


def test_programs_do_not_import_each_other(root: Path) -> None:
    programs = sorted((root / "workflow_scripts").glob("*.py"))
    names = {program.stem for program in programs}
    for program in programs:
        assert not {name.split(".")[0] for name in imports(program)} & (names - {"tokens"})
        assert "workflow_scripts" not in {name.split(".")[0] for name in imports(program)}
