from __future__ import annotations

import pytest

from condenser import progress
from condenser.progress import Progress


def test_a_log_tells_the_rate_of_late_and_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock)
    with Progress("train", total=200, unit="steps", start=50) as bar:
        for number in range(100):  # ten slow steps, then quick ones
            clock += 20.0 if number < 10 else 5.0
            bar.advance(note=f"loss {number}")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "train: 51 of 200 steps (26 %), 20.0 s each, 49:40 left, loss 0"
    assert lines[-2].startswith("train: 148 of 200 steps (74 %), 5.0 s each, 04:20 left")
    assert lines[-1] == "train: 100 steps done in 10:50"


def test_many_a_second_are_counted_by_the_second(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock)
    with Progress("encode", total=None, unit="rows") as bar:
        for _ in range(4):
            clock += 10.0
            bar.advance(25_000)
    assert capsys.readouterr().err.splitlines()[0] == "encode: 50,000 rows, 2,500.0 a second"


def test_what_breaks_off_is_not_said_to_be_done(capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> None:
        with Progress("collection", total=3, unit="rows") as bar:
            bar.advance()
            raise ValueError("bad row")

    with pytest.raises(ValueError, match="bad row"):
        broken()
    assert capsys.readouterr().err == ""
