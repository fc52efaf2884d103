"""A headless Chromium, where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium without a window; the tests are skipped where it or its driver is missing."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: make setup")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with api.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=path)
        yield launched
        launched.close()
