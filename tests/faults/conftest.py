"""One finished tiny run, which the tests break copies of; and how long the tests go on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow"))

from runs import checkout, finished


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="a hundred kills and every write (make faults)")
    parser.addoption("--fault-seed", type=int, default=1, help="draws the moments of the kills")


@pytest.fixture(scope="session")
def golden(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which the tiny table has been made; not to be changed."""
    if "FAULTS_GOLDEN" in os.environ:  # one made before, by a run of this very code
        return Path(os.environ["FAULTS_GOLDEN"])
    folder = checkout(root, tmp_path_factory.mktemp("golden") / "checkout")
    finished(folder)
    return folder


@pytest.fixture(scope="session")
def times(pytestconfig: pytest.Config) -> Callable[[int, int], int]:
    """`times(few, many)`: few by default, many in the long form (`make faults`)."""
    is_long = pytestconfig.getoption("--long", default=False)
    return lambda few, many: many if is_long else few


@pytest.fixture(scope="session")
def fault_seed(pytestconfig: pytest.Config) -> int:
    """What the moments of the kills are drawn from."""
    return pytestconfig.getoption("--fault-seed", default=1)
