"""Every rule, killed or stopped in the midst of its work, ends as if it had been left in peace."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from runs import digests
from tried_jobs import JOBS, TriedJob, finished_jobs, jobs

Times = Callable[[int, int], int]


def test_the_rules_tried_here_are_all_there_are(golden: Path) -> None:
    assert {job.name for job in finished_jobs(golden)} == set(JOBS)


@pytest.mark.parametrize("job", jobs(quick=["pretrain condenser", "collect_tiny", "bm25_run", "encode"]))
def test_a_rule_killed_at_any_moment_leaves_whole_files_or_none_and_ends_with_the_same_bytes(
    golden: Path, tmp_path: Path, times: Times, fault_seed: int, job: str
) -> None:
    interrupt(golden, tmp_path / "copy", job, signal.SIGKILL, count=times(1, 6), seed=fault_seed)


@pytest.mark.parametrize("job", jobs(quick=["train"]))
def test_a_rule_stopped_at_any_moment_leaves_whole_files_or_none_and_ends_with_the_same_bytes(
    golden: Path, tmp_path: Path, times: Times, fault_seed: int, job: str
) -> None:
    interrupt(golden, tmp_path / "copy", job, signal.SIGTERM, count=times(1, 4), seed=fault_seed)


def interrupt(golden: Path, folder: Path, job: str, number: signal.Signals, *, count: int, seed: int) -> None:
    """Break a rule off `count` times, at random moments, and let it end.

    SIGTERM goes to its children too, as from a scheduler; SIGKILL to the program alone, whose children
    (Java) must then end by themselves, or every other time to all.
    """
    rule = TriedJob(golden, job, folder)
    seconds = rule.seconds_of_an_attempt()
    draw = random.Random(f"{seed} {job} {number}")
    done, tries = 0, 0
    while done < count:
        tries += 1
        assert tries < 100, f"{job} is never alive when its signal comes"
        attempt = rule.start()
        time.sleep(seconds * draw.uniform(0.02, 1))
        attempt.strike(number, children_too=number is signal.SIGTERM or done % 2 == 1)
        status = attempt.ended()
        done += status != 0
        if number is signal.SIGTERM:
            assert status in (0, 143, -number), attempt.said
        attempt.wait_for_children(timeout_s=20)
        rule.check_what_is_there()
    rule.finish()
    print(f"{job}: {done} {number.name}, {tries} tries of {seconds:.2f} s")


def test_a_flipped_bit_of_a_rule_is_noticed(golden: Path, tmp_path: Path) -> None:
    """The comparison that all tests here rest on."""
    rule = TriedJob(golden, "merge", tmp_path / "copy")
    rule.succeed()
    run = rule.folder / next(output for output in rule.job.outputs if output.endswith(".trec"))
    content = bytearray(run.read_bytes())
    content[-2] ^= 1
    run.write_bytes(content)
    with pytest.raises(AssertionError, match="half a file"):
        rule.check_what_is_there()
    assert digests(rule.folder) != digests(golden)
