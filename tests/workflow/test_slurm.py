"""The workflow and some ill-treated jobs on a real SLURM of one node, which is started here and stopped."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import pytest
from slurm.cluster import install, missing_programs, one_node_cluster, processes_of
from slurm.train_slowly import NUM_STEPS

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(1800)]

HELPERS = Path(__file__).parent / "slurm"
CHECKOUT = (
    "Snakefile",
    "config.yaml",
    "configs",
    "rules",
    "profiles",
    "envs",
    "workflow_scripts",
    "condenser",
)
# A profile is written for a busy cluster; here nobody waits for a slow disk or a long queue.
HURRY = ["--latency-wait", "5", "--slurm-init-seconds-before-status-checks", "1"]


@dataclass
class Run:
    """A snakemake at work; its output goes to a file beside its folder."""

    process: subprocess.Popen[bytes]
    folder: Path
    out: Path

    def finish(self, *, timeout_s: float) -> str:
        """Wait for it, see that it succeeded, give what it said."""
        status = self.process.wait(timeout_s)
        said = self.out.read_text()
        assert status == 0, said[-5000:]
        return said


@pytest.fixture(scope="module")
def slurm_programs() -> None:
    """SLURM on this machine, installed if need be, or a skip that says what is in the way."""
    if os.geteuid() != 0:
        pytest.skip(
            "a SLURM of our own needs root: pretend GPUs are devices, and slurmd starts jobs as others"
        )
    if missing_programs() and (reason := install()):
        pytest.skip(f"SLURM is not installed ({', '.join(missing_programs())}) and cannot be: {reason}")


@pytest.fixture(scope="module")
def cluster(slurm_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables by which the cluster is reached."""
    with one_node_cluster(tmp_path_factory.mktemp("cluster")) as environment:
        yield environment


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def runs(
    cluster: dict[str, str], tmp_path_factory: pytest.TempPathFactory, root: Path
) -> Iterator[dict[str, Run]]:
    """All runs of this module, started at once because each waits most of its time."""
    folder = tmp_path_factory.mktemp("runs")
    environment = {**os.environ, **cluster, "PYTHONPATH": str(root)}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"

    checkout = folder / "checkout"
    for name in CHECKOUT:
        copy = shutil.copytree if (root / name).is_dir() else shutil.copy
        checkout.mkdir(exist_ok=True)
        copy(root / name, checkout / name)
    shutil.copytree(root / "tests" / "data" / "tiny", checkout / "tests" / "data" / "tiny")

    # edited as a user would: a pre-training gets both GPUs, the generic profile another scheduler
    edit(checkout / "profiles" / "slurm" / "config.yaml", "pretraining_gpus: 1 ", "pretraining_gpus: 2 ")
    edit(checkout / "profiles" / "generic" / "config.yaml", "scheduler: pbs ", "scheduler: slurm ")

    small = ["--snakefile", str(HELPERS / "Snakefile")]
    config = ["--config", f"tests={root}/tests"]
    on_slurm = ["--workflow-profile", str(root / "profiles" / "slurm"), *HURRY, *config]
    on_generic = ["--workflow-profile", str(checkout / "profiles" / "generic"), *HURRY[:2], *config]
    whole = ["--workflow-profile", "profiles/slurm", *HURRY, "--configfile", "configs/tiny.yaml"]
    commands = {
        "ill-treated": [*small, *on_slurm],
        "generic": [*small, *on_generic, "--", "hungry.txt", "gpu-0.txt"],
        "checkout": [*whole, "--", "results/tiny/table2.tsv"],
    }
    started: dict[str, Run] = {}
    try:
        for name, arguments in commands.items():
            (folder / name).mkdir(exist_ok=True)
            out = folder / f"{name}.out"
            with out.open("wb") as file:
                process = subprocess.Popen(
                    [sys.executable, "-m", "snakemake", *arguments],
                    cwd=folder / name, env=environment, stdout=file, stderr=subprocess.STDOUT,
                )  # fmt: skip
            started[name] = Run(process, folder / name, out)
        yield started
    finally:
        for run in started.values():
            run.process.kill()
            run.process.wait()


def job_states(cluster: dict[str, str], rule: str) -> list[tuple[str, str]]:
    """State and partition of the jobs of a rule, in the order in which they were submitted."""
    listing = subprocess.run(
        ["squeue", "--states=all", "--noheader", "--sort=i", "--format=%k|%T|%P"],
        env={**os.environ, **cluster},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = [line.split("|") for line in listing.splitlines()]
    return [
        (state, partition)
        for comment, state, partition in rows
        if re.match(rf"rule_{rule}(_wildcards|$)", comment)
    ]


def steps_taken(log: Path) -> list[int]:
    return [json.loads(line)["step"] for line in log.read_text().splitlines()]


def test_nothing_is_left_of_a_stopped_cluster(slurm_programs: None, tmp_path: Path) -> None:
    jobs: list[subprocess.Popen[bytes]] = []

    def fail_amid_a_job() -> None:
        with one_node_cluster(tmp_path) as environment:
            job = ["srun", "--ntasks=1", "sh", "-c", f"touch {tmp_path}/begun; sleep 600"]
            environment = {**os.environ, **environment}
            jobs.append(subprocess.Popen(job, env=environment, stderr=subprocess.DEVNULL))
            while not (tmp_path / "begun").exists() and jobs[0].poll() is None:
                time.sleep(0.1)
            assert len(processes_of(tmp_path)) > 4
            raise RuntimeError("a fault in a test")

    with pytest.raises(RuntimeError, match="a fault in a test"):
        fail_amid_a_job()
    assert jobs[0].wait(10) != 0
    assert processes_of(tmp_path) == []


def test_a_job_out_of_memory_runs_again_with_more(cluster: dict[str, str], runs: dict[str, Run]) -> None:
    run = runs["ill-treated"]
    run.finish(timeout_s=900)
    assert (run.folder / "attempts.txt").read_text().split() == ["900", "1800"]
    assert (run.folder / "hungry.txt").read_text() == "1800\n"
    logs = "".join(log.read_text() for log in run.folder.glob(".snakemake/slurm_logs/rule_hungry/**/*.log"))
    assert "memory" in logs


def test_a_training_out_of_time_resumes_and_takes_every_step_once(
    cluster: dict[str, str], runs: dict[str, Run]
) -> None:
    run = runs["ill-treated"]
    run.finish(timeout_s=900)
    states = [state for state, _ in job_states(cluster, "training")]
    assert states[-1] == "COMPLETED"
    assert set(states[:-1]) == {"TIMEOUT"}
    log = (run.folder / "training.log").read_text()
    stopped = re.findall(r"stopped after step (\d+)", log)
    assert stopped == re.findall(r"resuming after step (\d+)", log)
    assert len(stopped) == len(states) - 1
    assert int(stopped[0]) > 10
    assert steps_taken(run.folder / "work" / "log.jsonl") == list(range(NUM_STEPS))


def test_jobs_that_run_at_once_have_a_gpu_each(cluster: dict[str, str], runs: dict[str, Run]) -> None:
    run = runs["ill-treated"]
    run.finish(timeout_s=900)
    assert {partition for _, partition in job_states(cluster, "encode")} == {"gpu"}
    jobs = [(run.folder / f"gpu-{job}.txt").read_text().split() for job in range(3)]
    assert {gpu for _, gpu, _, _ in jobs} == {"0", "1"}
    for (_, gpu, began, ended), (_, other_gpu, other_began, other_ended) in combinations(jobs, 2):
        if gpu == other_gpu:
            assert float(ended) <= float(other_began) or float(other_ended) <= float(began)
    processes = sorted(line.split()[:2] for line in (run.folder / "two-gpus.txt").read_text().splitlines())
    assert processes == [["0", "0,1"], ["1", "0,1"]]


def test_the_generic_profile_submits_asks_and_tries_again(runs: dict[str, Run]) -> None:
    run = runs["generic"]
    run.finish(timeout_s=900)
    assert (run.folder / "hungry.txt").read_text() == "1800\n"
    assert (run.folder / "gpu-0.txt").read_text().split()[1] in ("0", "1")


def test_the_whole_tiny_workflow_runs_through_slurm(cluster: dict[str, str], runs: dict[str, Run]) -> None:
    run = runs["checkout"]
    said = run.finish(timeout_s=1500)
    results = run.folder / "results" / "tiny"
    table = (results / "table2.tsv").read_text().splitlines()
    systems = {file.parents[1].name for file in (results / "systems").glob("*/*/metrics.dev.json")}
    assert "bm25" in systems
    assert len(table) == 1 + len(systems) >= 4
    for rule in ("pretrain", "train"):
        assert set(job_states(cluster, rule)) == {("COMPLETED", "gpu")}
    assert set(job_states(cluster, "bm25_index")) == {("COMPLETED", "cpu")}
    assert "2 processes, GPU 0,1\n" in (results / "logs" / "pretrain.condenser.log").read_text()
    fine_tunings = [log.read_text() for log in (results / "logs").glob("train.*.log")]
    assert len(fine_tunings) == len(systems) - 1
    assert all(re.search(r"1 process, GPU [01]\n", log) for log in fine_tunings)
    assert re.search(r"^(\d+) of \1 jobs done in", said, re.MULTILINE)

    verified = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores=1", "--configfile=configs/tiny.yaml", "--", "verify"],
        cwd=run.folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert re.search(r"^[1-9]\d+ artefacts checked, 0 findings$", verified.stdout, re.MULTILINE)
