"""Copies of the finished tiny run, which tests may edit; and every kind of row, as graph and as results."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import every_kind
import pytest
from graphs import Graph
from runs import copied, made_once


@pytest.fixture
def copy_of_golden(golden: Path, tmp_path: Path) -> Callable[[], Path]:
    """Make a copy of the finished checkout, elsewhere and with new times of change."""

    def copy() -> Path:
        return copied(golden, tmp_path / "moved")

    return copy


@pytest.fixture(scope="session")
def load_every_kind(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Graph]:
    """Loads the graph of every kind of row with another overlay above, from a folder without results."""
    folder = tmp_path_factory.mktemp("every-kind")
    shutil.copy(root / "config.yaml", folder)
    shutil.copytree(root / "tests" / "data" / "tiny", folder / "tests" / "data" / "tiny")
    every_kind.write_files(folder)

    def graph(overlay: dict[str, Any] | None = None) -> Graph:
        return every_kind.load(root, folder, overlay)

    return graph


@pytest.fixture(scope="session")
def every_row(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which every kind of row has been made; not to be changed."""
    return made_once(tmp_path_factory, "every-row", lambda folder: every_kind.make_every_kind(golden, folder))
