"""The running workflow, killed and stopped at random moments: the same command ends with the same bytes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from campaign import MARK, Campaign, kill_all, processes_of, programs_of, run_of, strike
from runs import checkout, digests
from tried_jobs import RULES, finished_jobs


@pytest.fixture(scope="module")
def seconds(golden: Path) -> dict[str, float]:
    """How long a job of each rule took in the finished run."""
    return {job.rule: job.seconds for job in finished_jobs(golden)}


def whole_run(golden: Path, root: Path, folder: Path) -> None:
    """A checkout in which nothing has been made."""
    checkout(root, folder)


def second_round(golden: Path, root: Path, folder: Path) -> None:
    """A copy of the finished run without all that its last round made: half a minute of work."""
    shutil.copytree(golden, folder, symlinks=True)
    for path in sorted((folder / "results" / "tiny").glob("**/*round2*")):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    (folder / "results" / "tiny" / "table2.tsv").unlink()


@pytest.mark.parametrize(
    ("begin", "kinds", "strikes"),
    [
        pytest.param(
            second_round,
            ["term", "all", "snakemake", "program"],  # the first one meets the training
            {"train": 2, "encode": 2},  # long enough to be met in a first run
        ),
        pytest.param(
            whole_run,
            ["all", "snakemake", "all", "program"],
            dict.fromkeys(RULES, 7),
            marks=pytest.mark.weekly,
        ),
        pytest.param(whole_run, ["term"], dict.fromkeys(RULES, 1), marks=pytest.mark.weekly),
    ],
    ids=["second round", "killed", "stopped"],
)
def test_the_same_command_given_again_until_it_ends_makes_the_same_tables_models_and_runs(
    golden: Path,
    root: Path,
    tmp_path: Path,
    fault_seed: int,
    seconds: Mapping[str, float],
    begin: Callable[[Path, Path, Path], None],
    kinds: Sequence[str],
    strikes: Mapping[str, int],
) -> None:
    campaign = Campaign(kinds=kinds, strikes=strikes, seconds=seconds, seed=fault_seed)
    num_finished = 0
    while campaign.rules_left:  # a short job may end before it is struck: then another run begins
        folder = tmp_path / f"broken-{num_finished}"
        begin(golden, root, folder)
        campaign.run_until_finished(folder, cores=2)
        num_finished += 1
        assert digests(folder) == digests(golden)
        assert num_finished < 50
    print(f"{campaign.strikes.total()} strikes, {campaign.num_starts} starts, {num_finished} runs to the end")
    for (rule, kind), count in sorted(campaign.strikes.items()):
        print(f"  {rule} {kind}: {count}")


def test_a_job_whose_snakemake_was_killed_stops_and_the_next_run_goes_on_from_its_checkpoint(
    golden: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "orphaned"
    shutil.copytree(golden, folder, symlinks=True)
    target = "results/tiny/models/condenser/model.safetensors"
    for _ in range(5):  # the training is so short that it may be over when it is to stop
        (folder / target).unlink()
        with run_of(folder, target=target) as run:
            _wait_for(lambda: any(folder.glob("results/.work/pretrain-*/*/step-*")), timeout_s=120)
            strike([run.pid], signal.SIGKILL)
            _wait_for(lambda at=run: not programs_of(at.mark), timeout_s=60)
        if not (folder / target).exists():
            break
    assert not (folder / target).exists()
    with run_of(folder, target=target) as run:
        assert run.ended(timeout_s=300) == 0, run.said[-6000:]
        said = (folder / "results" / "tiny" / "logs" / "pretrain.condenser.log").read_text()
        assert re.search(r"condenser: resuming after step [1-9]\d* of", said)
    assert digests(folder) == digests(golden)


def test_one_of_two_training_processes_dies_and_all_end_within_a_minute(
    golden: Path, tmp_path: Path, times: Callable[[int, int], int]
) -> None:
    """A real rule; begun again it goes on, in the long form to the weights of two nobody disturbed."""
    job = next(job for job in finished_jobs(golden) if job.name == "pretrain cocondenser")
    longer = json.loads((golden / job.arguments[1]).read_text())
    longer["settings"]["model"]["epochs"] *= 3  # time to strike
    longer["options"]["processes"] = 2
    longer["settings"]["compute"]["device"] = "cpu"
    num_steps = len((golden / "results/tiny/models/cocondenser/losses.jsonl").read_text().splitlines())
    models = []
    for disturbed in (True, False)[: times(1, 2)]:
        folder = tmp_path / f"disturbed-{disturbed}"
        shutil.copytree(golden, folder, symlinks=True)
        shutil.rmtree(folder / "results" / "tiny" / "models" / "cocondenser")
        (folder / "job.json").write_text(json.dumps(longer))
        launcher = [sys.executable, *job.arguments[:1], "job.json"]
        mark = uuid.uuid4().hex
        environment = {**os.environ, MARK: mark, "PYTHONPATH": str(folder)}
        started = subprocess.Popen(launcher, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
        try:
            if disturbed:
                _wait_for(lambda at=folder: any(at.glob("results/.work/pretrain-*/*/step-*")), timeout_s=60)
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
        models.append({file.name: file.read_bytes() for file in model.rglob("*.*")})
        steps = [json.loads(line)["step"] for line in models[-1]["losses.jsonl"].splitlines()]
        assert steps == list(range(3 * num_steps))
    assert models[0] == models[-1]


def _wait_for(claim: Callable[[], bool], *, timeout_s: float) -> None:
    until = time.monotonic() + timeout_s
    while not claim():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)
