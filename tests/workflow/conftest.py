"""One finished tiny run, shared by all tests of the workflow; each test that edits copies it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from runs import checkout, finished


@pytest.fixture(scope="session")
def golden(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which the tiny table has been made; not to be changed."""
    folder = checkout(root, tmp_path_factory.mktemp("golden") / "checkout")
    finished(folder)
    return folder


@pytest.fixture
def copy_of_golden(golden: Path, tmp_path: Path) -> Callable[[], Path]:
    """Make a copy of the finished checkout, elsewhere and with new times of change."""

    def copy() -> Path:
        target = tmp_path / "moved"
        shutil.copytree(golden, target, symlinks=True, copy_function=shutil.copyfile)
        return target

    return copy
