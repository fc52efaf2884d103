"""Copies of the finished tiny run, which tests may edit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from runs import copied


@pytest.fixture
def copy_of_golden(golden: Path, tmp_path: Path) -> Callable[[], Path]:
    """Make a copy of the finished checkout, elsewhere and with new times of change."""

    def copy() -> Path:
        return copied(golden, tmp_path / "moved")

    return copy
