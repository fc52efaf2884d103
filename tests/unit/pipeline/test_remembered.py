"""What a result was computed from, noted beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from condenser.pipeline.remembered import has_origin, note_origin

ARGUMENTS = ["a.yaml", ""]


@pytest.fixture
def noted(tmp_path: Path) -> Path:
    """What was noted: a file, one that was not there, and a folder."""
    (tmp_path / "code").mkdir()
    for name in ("config", "code/one.py"):
        (tmp_path / name).write_text("text")
    note_origin(
        tmp_path / "noted", ARGUMENTS, [str(tmp_path / name) for name in ("config", "missing", "code")]
    )
    return tmp_path


def test_it_holds_while_nothing_changed(noted: Path) -> None:
    (noted / "other").touch()
    assert has_origin(noted / "noted", ARGUMENTS)
    assert not has_origin(noted / "noted", ["b.yaml", ""]) and not has_origin(noted / "none", ARGUMENTS)


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "config").write_text("longer text"),
        lambda folder: (folder / "config").unlink(),
        lambda folder: (folder / "missing").touch(),
        lambda folder: (folder / "code" / "three.py").touch(),
        lambda folder: (folder / "code" / "one.py").unlink(),
        lambda folder: (folder / "noted").write_text("no JSON"),
    ],
)
def test_a_change_is_seen(noted: Path, change: Callable[[Path], object]) -> None:
    change(noted)
    assert not has_origin(noted / "noted", ARGUMENTS)
