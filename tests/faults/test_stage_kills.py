"""Every stage, killed or stopped in the midst of its work, ends as if it had been left in peace."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from runs import digests
from stage_jobs import RULES, Stage, finished_jobs, strike_group

pytestmark = pytest.mark.faults

Times = Callable[[int, int], int]


def test_the_stages_tried_here_are_all_there_are(golden: Path) -> None:
    assert {job.rule for job in finished_jobs(golden)} == set(RULES)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_stage_interrupted_at_any_moment_leaves_whole_files_or_none_and_ends_with_the_same_bytes(
    golden: Path, tmp_path: Path, times: Times, fault_seed: int, rule: str, number: signal.Signals
) -> None:
    stage = Stage(golden, rule, tmp_path / "copy")
    seconds = stage.seconds_of_an_attempt()
    draw = random.Random(f"{fault_seed} {rule} {number}")
    kills, tries = 0, 0
    while kills < times(1, 8):
        tries += 1
        assert tries < 100, f"{rule} is never alive when its signal comes"
        stage.clear()
        process = stage.start()
        time.sleep(seconds * draw.uniform(0.02, 1))
        strike_group(process, number)  # Java too, as a scheduler and a dying machine do
        process.join(60)
        assert process.exitcode is not None, f"{rule} does not end by {number.name}"
        kills += process.exitcode != 0
        if number is signal.SIGTERM and process.exitcode:
            assert process.exitcode in (143, -number), stage.log.read_text()
        stage.check_what_is_there()
    stage.finish()
    print(f"{rule}: {kills} {number.name}, {tries} tries of {seconds:.2f} s")


def test_a_flipped_bit_of_a_stage_is_noticed(golden: Path, tmp_path: Path) -> None:
    """The comparison that all tests here rest on."""
    stage = Stage(golden, "merge", tmp_path / "copy")
    assert stage.attempt() == 0
    run = stage.folder / next(output for output in stage.job.outputs if output.endswith(".trec"))
    content = bytearray(run.read_bytes())
    content[-2] ^= 1
    run.write_bytes(content)
    with pytest.raises(AssertionError, match="half a file"):
        stage.check_what_is_there()
    assert digests(stage.folder) != digests(golden)
