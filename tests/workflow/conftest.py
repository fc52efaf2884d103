"""Copies of the finished tiny run, which tests may edit, and graphs of edited configurations."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graphs import Graph, Load


@pytest.fixture
def copy_of_golden(golden: Path, tmp_path: Path) -> Callable[[], Path]:
    """Make a copy of the finished checkout, elsewhere and with new times of change."""

    def copy() -> Path:
        target = tmp_path / "moved"
        shutil.copytree(golden, target, symlinks=True, copy_function=shutil.copyfile)
        return target

    return copy


@pytest.fixture(scope="session")
def load(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Loads the graph of config.yaml with an overlay, from a folder without results."""
    folder = tmp_path_factory.mktemp("empty")
    shutil.copy(root / "config.yaml", folder)
    (folder / "tests").symlink_to(root / "tests")

    def graph(
        overlay: dict[str, Any] | None = None, *, configfile: str | None = None, replace: bool = False
    ) -> Graph:
        file = root / configfile if configfile else None
        return Graph(root, folder, overlay or {}, configfile=file, replace=replace)

    return graph
