"""Shared by all tests: one compute thread, no network beyond this machine, one finished tiny run."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from browser import Tab
    from graphs import Load

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Java compiles for long runs; ours last a second, of which that takes half.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="the long form of tests/faults (make faults)")
    parser.addoption("--fault-seed", type=int, default=1, help="draws the moments of the kills")


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the workflow."""
    return ROOT


@pytest.fixture(scope="session")
def written(root: Path) -> dict[str, Any]:
    """The configuration as the workflow reads it: config.yaml and the papers' other tables."""
    import yaml

    from condenser.settings import merged

    files = (root / "config.yaml", *sorted(root.glob("configs/tables/*.yaml")))
    return reduce(merged, (yaml.safe_load(file.read_text()) for file in files))


@pytest.fixture(scope="session")
def golden(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which the tiny table has been made; not to be changed.

    The first process of the tests that needs it makes it for all of them.
    """
    if "GOLDEN_RUN" in os.environ:  # one made before, by a run of this very code
        return Path(os.environ["GOLDEN_RUN"])
    from made import make  # not above: NumPy must not be loaded before the threads are set
    from runs import checkout, made_once

    return made_once(tmp_path_factory, "golden", lambda folder: make(checkout(root, folder)))


@pytest.fixture(scope="session")
def load(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Loads the graph of config.yaml with an overlay, from a folder without results."""
    from graphs import Graph  # not above: few tests need Snakemake

    folder = tmp_path_factory.mktemp("empty")
    shutil.copy(root / "config.yaml", folder)
    (folder / "tests").symlink_to(root / "tests")

    def graph(
        overlay: dict[str, Any] | None = None, *, configfile: str | None = None, replace: bool = False
    ) -> Graph:
        file = root / configfile if configfile else None
        return Graph(root, folder, overlay or {}, configfile=file, replace=replace)

    return graph


@pytest.fixture(scope="session")
def browser_tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """The tab of a headless Chromium; skips the test where there is none."""
    from browser import browser

    with browser(tmp_path_factory.mktemp("browser")) as tab:
        yield tab
