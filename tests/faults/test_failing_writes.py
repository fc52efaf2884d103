"""A full disk: one clear line, nothing half-written to be seen, and the same bytes when there is room."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tried_jobs import Attempt, TriedJob, jobs

Times = Callable[[int, int], int]
MOST_WRITES = 2000


def check_failure(attempt: Attempt, reason: str) -> None:
    """Status 1, and one line that says what there was no room for."""
    assert attempt.ended() == 1, attempt.said
    lines = [line for line in attempt.said.splitlines() if "error" in line.lower()]
    assert len(lines) == 1 and re.fullmatch(rf"error: {reason}: \S+", lines[0]), attempt.said
    assert "Traceback" not in attempt.said


@pytest.mark.parametrize("job", jobs(quick=["collect_tiny", "search", "train"]))
def test_the_nth_write_and_all_after_it_fail_for_every_n_until_the_rule_gets_through(
    golden: Path, tmp_path: Path, times: Times, job: str
) -> None:
    rule = TriedJob(golden, job, tmp_path / "copy")
    step, tries = times(12, 1), 0
    for full_at in range(1, MOST_WRITES, step):
        attempt = rule.start(full_at=full_at)
        status = attempt.ended()
        rule.check_what_is_there()
        if status == 0:
            break
        check_failure(attempt, "No space left on device")
        tries += 1
    assert status == 0 and tries
    rule.finish()
    print(f"{job}: {tries} failing writes")


@pytest.mark.parametrize("job", jobs(quick=["encode", "pretrain condenser"]))
def test_no_file_may_grow_beyond_a_size_which_doubles_until_the_rule_gets_through(
    golden: Path, tmp_path: Path, times: Times, job: str
) -> None:
    """The system itself refuses here, so that also what Java and Rust write is met."""
    rule = TriedJob(golden, job, tmp_path / "copy")
    limit, tries = 256, 0
    while (attempt := rule.start(file_limit=limit)).ended() != 0:
        rule.check_what_is_there()
        check_failure(attempt, "File too large")
        tries += 1
        limit *= times(8, 2)
        assert limit < 1 << 40
    rule.finish()
    print(f"{job}: {tries} limits")
