"""Copies of the finished tiny run, which tests may edit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def copy_of_golden(golden: Path, tmp_path: Path) -> Callable[[], Path]:
    """Make a copy of the finished checkout, elsewhere and with new times of change."""

    def copy() -> Path:
        target = tmp_path / "moved"
        shutil.copytree(golden, target, symlinks=True, copy_function=shutil.copyfile)
        return target

    return copy
