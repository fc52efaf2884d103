"""A full disk: one clear line, nothing half-written to be seen, and the same bytes when there is room."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from stage_jobs import Attempt, Stage, jobs

pytestmark = pytest.mark.faults

Times = Callable[[int, int], int]
MOST_WRITES = 2000


def check_failure(attempt: Attempt, reason: str) -> None:
    """Status 1, and one line that says what there was no room for."""
    assert attempt.ended() == 1, attempt.said
    lines = [line for line in attempt.said.splitlines() if "error" in line.lower()]
    assert len(lines) == 1 and re.fullmatch(rf"error: {reason}: \S+", lines[0]), attempt.said
    assert "Traceback" not in attempt.said


@pytest.mark.parametrize("job", jobs(quick=["collect_tiny", "search"], slow=["train"]))
def test_the_nth_write_and_all_after_it_fail_for_every_n_until_the_stage_gets_through(
    golden: Path, tmp_path: Path, times: Times, job: str
) -> None:
    stage = Stage(golden, job, tmp_path / "copy")
    step, tries = times(12, 1), 0
    for full_at in range(1, MOST_WRITES, step):
        attempt = stage.start(full_at=full_at)
        status = attempt.ended()
        stage.check_what_is_there()
        if status == 0:
            break
        check_failure(attempt, "No space left on device")
        tries += 1
    assert status == 0 and tries
    stage.finish()
    print(f"{job}: {tries} failing writes")


@pytest.mark.parametrize("job", jobs(quick=["encode"], slow=["pretrain condenser"]))
def test_no_file_may_grow_beyond_a_size_which_doubles_until_the_stage_gets_through(
    golden: Path, tmp_path: Path, times: Times, job: str
) -> None:
    """The system itself refuses here, so that also what Java and Rust write is met."""
    stage = Stage(golden, job, tmp_path / "copy")
    limit, tries = 256, 0
    while (attempt := stage.start(file_limit=limit)).ended() != 0:
        stage.check_what_is_there()
        check_failure(attempt, "File too large")
        tries += 1
        limit *= times(8, 2)
        assert limit < 1 << 40
    stage.finish()
    print(f"{job}: {tries} limits")
