"""Profiles say where jobs run, name rules that exist, and ask schedulers in the schedulers' words."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yte
from snakemake_executor_plugin_slurm import submit_string

from condenser.files import read_json

PROFILES = ("default", "multi-gpu", "slurm", "generic")


TRAININGS = ("pretrain", "train")


def load(root: Path, name: str, **variables: object) -> dict[str, Any]:
    """A profile, with other values of its variables."""
    text = (root / "profiles" / name / "config.yaml").read_text()
    for variable, value in variables.items():
        text, found = re.subn(rf"(?m)^  {variable}: \S+", f"  {variable}: {value}", text)
        assert found == 1, variable
    return yte.process_yaml(text, require_use_yte=True)


def bodies(root: Path) -> dict[str, str]:
    """The text of each rule, by name."""
    text = "".join(file.read_text() for file in (root / "rules").rglob("*.smk"))
    return dict(re.findall(r"^rule (\w+):\n((?:[ \n].*\n?)*)", text, re.MULTILINE))


def request(resource: str, *, attempt: int) -> int:
    """What an attempt of a job asks for, as Snakemake works it out."""
    return eval(resource, {"attempt": attempt})


def test_every_profile_is_tested(root: Path) -> None:
    assert sorted(folder.name for folder in (root / "profiles").iterdir()) == sorted(PROFILES)


@pytest.mark.parametrize("name", PROFILES)
def test_no_profile_goes_by_times_of_change(root: Path, name: str) -> None:
    assert load(root, name)["rerun-triggers"] == ["params", "input", "software-env"]


@pytest.mark.parametrize("name", PROFILES)
def test_the_rules_that_a_profile_names_exist_and_ask_for_a_gpu(root: Path, name: str) -> None:
    named = load(root, name).get("set-resources", {})
    assert (name == "default") == (not named)
    for rule in named:
        assert "gpu=GPUS" in bodies(root)[rule], rule


@pytest.mark.parametrize("name", ["slurm", "generic"])
def test_a_cluster_profile_sends_every_rule_with_a_gpu_to_the_gpu_queue(root: Path, name: str) -> None:
    profile = load(root, name)
    key = "slurm_partition" if name == "slurm" else "queue"
    assert profile["default-resources"][key] == "cpu"
    sent = {rule for rule, resources in profile["set-resources"].items() if resources[key] == "gpu"}
    assert sent == {rule for rule, body in bodies(root).items() if "gpu=GPUS" in body}


@pytest.mark.parametrize("name", ["multi-gpu", "slurm", "generic"])
def test_on_processors_alone_nothing_asks_for_a_gpu(root: Path, name: str) -> None:
    profile = load(root, name, pretraining_gpus=0, finetuning_gpus=0)
    for rule in TRAININGS:
        resources = profile["set-resources"][rule]
        assert resources["gpu"] == 0, rule
        assert request(resources["mem_mb"], attempt=1) == (32_000 if rule == "pretrain" else 16_000)
    for resources in profile["set-resources"].values():
        assert resources.get("slurm_partition", "cpu") == resources.get("queue", "cpu") == "cpu"
        assert resources.get("extra", "''") == "''"


@pytest.mark.parametrize("name", ["slurm", "generic"])
def test_the_memory_of_a_training_grows_with_its_processes_up_to_a_nodes(root: Path, name: str) -> None:
    """One process asks for what the rule asks for without a profile."""
    first = {
        rule: int(match[1])
        for rule, body in bodies(root).items()
        if (match := re.search(r"mem_mb=growing\((\d+)\)", body))
    }
    for gpus, factor in ((1, 1.0), (4, 2.5)):
        profile = load(root, name, pretraining_gpus=gpus, finetuning_gpus=gpus, largest_mem_mb=100_000)
        for rule in TRAININGS:
            mem_mb = profile["set-resources"][rule]["mem_mb"]
            for attempt in (1, 2, 4):
                expected = min(attempt * factor * first[rule], 100_000)
                assert request(mem_mb, attempt=attempt) == expected, rule


def test_a_training_on_several_gpus_stays_on_one_node(root: Path) -> None:
    """Through the plugin's own words for `sbatch`; the generic profile has its own for each scheduler."""
    call = submit_string.get_submit_command(
        SimpleNamespace(resources=Resources(load(root, "slurm")["set-resources"]["train"]), threads=1),
        dict.fromkeys(("run_uuid", "slurm_logfile", "comment_str", "account", "partition", "workdir"), ""),
    )
    assert "--nodes=1" in call.split()
    assert " -N 1 " in load(root, "generic", scheduler="slurm")["cluster-generic-submit-cmd"]


class Resources(dict):
    """A job's resources, by key and by attribute."""

    def __getattr__(self, name: str) -> object:
        return self[name]


def test_gpu_jobs_run_one_by_one_on_gpus_that_somebody_assigned(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert load(root, "default")["resources"] == {"gpu": 1}


def test_the_multi_gpu_profile_gives_a_training_all_gpus_and_as_many_processes(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_bytes((root / "config.yaml").read_bytes())
    done = subprocess.run(
        [
            *[sys.executable, "-m", "snakemake", "--dry-run", "--printshellcmds"],
            *["--snakefile", str(root / "Snakefile")],
            *["--workflow-profile", str(root / "profiles" / "multi-gpu")],
            *["--", "results/msmarco/models/condenser/model.safetensors"],
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    asked = re.search(r"rule pretrain:(?:\n +.*)*resources: (.*)", said)
    assert asked and {"gpu=4", "mem_mb=80000"} <= set(asked[1].split(", "))
    job = re.search(r"pretrain\.py (\S+\.json)", said)
    assert job and read_json(tmp_path / job[1])["options"]["processes"] == 4


# What the schedulers' commands print, after their manuals, and the state it means.
ANSWERS = [
    ("pbs", {"qstat": "Job Id: 7.host\n    job_state = R\n"}, "running"),
    ("pbs", {"qstat": "Job Id: 7.host\n    job_state = F\n    Exit_status = 0\n"}, "success"),
    ("pbs", {"qstat": "Job Id: 7.host\n    job_state = F\n    Exit_status = 271\n"}, "failed"),
    ("pbs", {"qstat": None}, "running"),
    ("sge", {"qstat": "job_number: 7\n"}, "running"),
    ("sge", {"qstat": None, "qacct": "failed       0    \nexit_status  0    \n"}, "success"),
    ("sge", {"qstat": None, "qacct": "failed       0    \nexit_status  1    \n"}, "failed"),
    (
        "sge",
        {"qstat": None, "qacct": "failed       100 : assumedly after job\nexit_status  137  \n"},
        "failed",
    ),
    ("sge", {"qstat": None, "qacct": None}, "running"),
    ("lsf", {"bjobs": "RUN\n"}, "running"),
    ("lsf", {"bjobs": "PEND\n"}, "running"),
    ("lsf", {"bjobs": "DONE\n"}, "success"),
    ("lsf", {"bjobs": "EXIT\n"}, "failed"),
    ("slurm", {"scontrol": "   JobState=COMPLETED Reason=None\n"}, "success"),
    ("slurm", {"scontrol": "   JobState=TIMEOUT Reason=TimeLimit\n"}, "failed"),
    ("slurm", {"scontrol": "   JobState=PENDING Reason=Resources\n"}, "running"),
]


@pytest.mark.parametrize(("scheduler", "answers", "state"), ANSWERS)
def test_a_status_program_understands_its_scheduler(
    root: Path, tmp_path: Path, scheduler: str, answers: dict[str, str | None], state: str
) -> None:
    for command, answer in answers.items():
        (tmp_path / f"{command}.answer").write_text(answer or "")
        last = "exit 1" if answer is None else f"cat {tmp_path}/{command}.answer"
        (tmp_path / command).write_text(f"#!/bin/sh\n{last}\n")
        (tmp_path / command).chmod(0o755)
    done = subprocess.run(
        [root / "profiles" / "generic" / f"{scheduler}-status.sh", "7"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == f"{state}\n"
