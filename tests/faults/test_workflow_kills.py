"""The running workflow, killed and stopped at random moments: the same command ends with the same bytes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from campaign import MARK, Campaign, kill_all, processes_of, programs_of, run_of, strike
from runs import checkout, digests
from stage_jobs import RULES, finished_jobs

pytestmark = pytest.mark.faults

Times = Callable[[int, int], int]


@pytest.fixture(scope="module")
def seconds(golden: Path) -> dict[str, float]:
    """How long a job of each rule took in the finished run."""
    return {job.rule: job.seconds for job in finished_jobs(golden)}


@pytest.mark.parametrize(
    ("kinds", "few", "many"),
    [
        ({"all": 0.5, "snakemake": 0.25, "program": 0.25}, 4, 100),
        ({"term": 1.0}, 1, 24),
    ],
    ids=["killed", "stopped"],
)
def test_the_same_command_given_again_until_it_ends_makes_the_same_tables_models_and_runs(
    golden: Path,
    root: Path,
    tmp_path: Path,
    times: Times,
    fault_seed: int,
    seconds: Mapping[str, float],
    kinds: Mapping[str, float],
    few: int,
    many: int,
) -> None:
    wanted = times(few, many)
    campaign = Campaign(
        checkout(root, tmp_path / "broken"),
        kinds=kinds,
        strikes_per_rule=times(1, -(-many // len(RULES)) + 1),
        most=wanted,
        seconds=seconds,
        seed=fault_seed,
    )
    num_finished = 0
    while campaign.strikes.total() < wanted or not num_finished:
        if num_finished:
            campaign.begin_anew()
        campaign.until_finished(cores=2)
        num_finished += 1
        assert digests(campaign.folder) == digests(golden)
        assert num_finished < 30
    print(f"{campaign.strikes.total()} strikes, {campaign.num_starts} starts, {num_finished} whole runs")
    for (rule, kind), count in sorted(campaign.strikes.items()):
        print(f"  {rule} {kind}: {count}")


def test_a_job_whose_snakemake_was_killed_stops_and_the_next_run_goes_on_from_its_checkpoint(
    golden: Path, root: Path, tmp_path: Path
) -> None:
    folder = checkout(root, tmp_path / "orphaned")
    with run_of(folder, cores=2) as run:
        _wait_for(lambda: "pretrain_condenser" in run.started_rules(), timeout_s=300)
        _wait_for(lambda: any(folder.glob("results/.work/pretrain_condenser-*/step-*")), timeout_s=60)
        strike([run.pid], signal.SIGKILL)
        _wait_for(lambda: not programs_of(run.mark), timeout_s=60)
        assert not (folder / "results/tiny/models/condenser").exists()
    with run_of(folder, cores=2) as run:
        assert run.ended(timeout_s=300) == 0, run.said[-6000:]
        assert re.search(r"condenser: resuming after step [1-9]\d* of", run.said)
    assert digests(folder) == digests(golden)


def test_one_of_two_training_processes_dies_and_all_end_within_a_minute(
    golden: Path, root: Path, tmp_path: Path
) -> None:
    """A real stage; begun again it goes on, to the weights of two processes that nothing disturbed."""
    job = next(job for job in finished_jobs(golden) if job.rule == "pretrain_cocondenser")
    launcher = [sys.executable, "workflow_scripts/launch.py", "--processes", "2", "--device", "cpu",
                "--stop-timeout-s", "60", "--", *job.arguments]  # fmt: skip
    models = []
    for disturbed in (False, True):
        folder = tmp_path / f"disturbed-{disturbed}"
        shutil.copytree(golden, folder, symlinks=True)
        shutil.rmtree(folder / "results" / "tiny" / "models" / "cocondenser")
        mark = uuid.uuid4().hex
        environment = {**os.environ, MARK: mark, "PYTHONPATH": str(folder)}
        started = subprocess.Popen(launcher, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
        try:
            if disturbed:
                _wait_for(lambda at=folder: any(at.glob("results/.work/pretrain_coc*/step-*")), timeout_s=60)
                pids = [pid for pid in programs_of(mark) if pid != started.pid]
                assert len(pids) == 2
                strike(pids[1:], signal.SIGKILL)
                began = time.monotonic()
                _, said = started.communicate(timeout=60)
                assert started.returncode == 128 + signal.SIGKILL, said
                _wait_for(lambda own=mark: not processes_of(own), timeout_s=60 - (time.monotonic() - began))
                started = subprocess.Popen(
                    launcher, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
                )
            _, said = started.communicate(timeout=120)
            assert started.returncode == 0, said
            assert ("resuming after step" in said) == disturbed
        finally:
            kill_all(mark)
        model = folder / "results" / "tiny" / "models" / "cocondenser"
        models.append({file.name: file.read_bytes() for file in model.iterdir()})
    assert models[0] == models[1]


def _wait_for(claim: Callable[[], bool], *, timeout_s: float) -> None:
    until = time.monotonic() + timeout_s
    while not claim():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)
