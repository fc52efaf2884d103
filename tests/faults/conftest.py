"""How long the tests go on: with --long (make faults) each draws many more faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from runs import checkout, finished, made_once


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of them wait for a finished run of real processes: none is for every edit."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.ci)


@pytest.fixture(scope="session")
def golden(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished tiny run with a process for each job: its benchmarks say how long a job takes."""
    return made_once(tmp_path_factory, "real-run", lambda folder: finished(checkout(root, folder)))


@pytest.fixture(scope="session")
def times(pytestconfig: pytest.Config) -> Callable[[int, int], int]:
    """`times(few, many)`: few by default, many in the long form."""
    is_long = pytestconfig.getoption("--long")
    return lambda few, many: many if is_long else few


@pytest.fixture(scope="session")
def fault_seed(pytestconfig: pytest.Config) -> int:
    """What the moments of the kills are drawn from."""
    return pytestconfig.getoption("--fault-seed")
