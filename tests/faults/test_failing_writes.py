"""A full disk: one clear line, nothing half-written to be seen, and the same bytes when there is room."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from stage_jobs import RULES, Stage

pytestmark = pytest.mark.faults

Times = Callable[[int, int], int]
MOST_WRITES = 2000


@pytest.mark.parametrize("rule", RULES)
def test_the_nth_write_and_all_after_it_fail_for_every_n_until_the_stage_gets_through(
    golden: Path, tmp_path: Path, times: Times, rule: str
) -> None:
    stage = Stage(golden, rule, tmp_path / "copy")
    step = times(5, 1)
    for full_at in range(1, MOST_WRITES, step):
        status = stage.attempt(full_at=full_at)
        said = stage.log.read_text()
        stage.check_what_is_there()
        if status == 0:
            break
        assert status == 1, said
        assert said.count("error: No space left on device: ") == 1, said
        assert "Traceback" not in said
    assert status == 0 and full_at > 1
    stage.finish()
    print(f"{rule}: {full_at // step} failing writes")


@pytest.mark.parametrize("rule", RULES)
def test_no_file_may_grow_beyond_a_size_which_doubles_until_the_stage_gets_through(
    golden: Path, tmp_path: Path, times: Times, rule: str
) -> None:
    """The system itself refuses here, so that also what Java and Rust write is met."""
    stage = Stage(golden, rule, tmp_path / "copy")
    limit, tries = 64 * 1024 if rule.startswith("bm25") else 256, 0
    while (status := stage.attempt(file_limit=limit)) != 0:
        said = stage.log.read_text()
        stage.check_what_is_there()
        assert status in (1, 2), said
        tries += 1
        limit *= times(8, 2)
        assert limit < 1 << 40
    stage.check_what_is_there()
    stage.finish()
    print(f"{rule}: {tries} limits")
