"""How long the tests go on: few faults in make test, more in make test-all, all in make faults (--long)."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("long_form"):
                item.add_marker(pytest.mark.skip("long form only: make faults"))


@pytest.fixture(scope="session")
def times(pytestconfig: pytest.Config) -> Callable[[int, int], int]:
    """`times(few, many)`: few by default, many in the long form."""
    is_long = pytestconfig.getoption("--long")
    return lambda few, many: many if is_long else few


@pytest.fixture(scope="session")
def fault_seed(pytestconfig: pytest.Config) -> int:
    """What the moments of the kills are drawn from."""
    return pytestconfig.getoption("--fault-seed")
