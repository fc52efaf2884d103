"""The jobs of a finished run, one by one: run again, broken off, and what they left looked at.

A job's program runs in a process that is forked from one in which torch and the package are already
imported, so that an attempt takes the time of its own work and faults fall into that work, not into
the imports.
"""

from __future__ import annotations

import base64
import json
import multiprocessing
import os
import resource
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import failing_writes
from runs import digests

from condenser import program

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "condenser.train.pretrain",
        "condenser.train.finetune",
        "condenser.train.machine",
        "condenser.retrieve.encode",
        "condenser.retrieve.search",
        "condenser.retrieve.bm25",
        "condenser.model.vocabulary",
        "condenser.evaluate.metrics",
        "condenser.evaluate.tables",
        "condenser.data.sources.beir",
        "transformers.models.bert.modeling_bert",
    ]
)

RULES = [
    "collect_tiny", "backbone", "tokens", "query_tokens", "pretrain_condenser", "pretrain_cocondenser",
    "bm25_index", "bm25_run", "examples", "retriever", "encode", "encode_queries", "search", "merge",
    "metrics", "table2",
]  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One job of a finished run."""

    rule: str
    arguments: list[str]  # the program and what it is given
    outputs: list[str]  # as the rule declares them
    seconds: float


def finished_jobs(folder: Path) -> list[Job]:
    """The jobs of the run in `folder`, from Snakemake's records, ordered by rule and outputs."""
    outputs: dict[str, list[str]] = {}
    records = {}
    metadata = folder / ".snakemake" / "metadata"
    for file in metadata.rglob("*"):
        if file.is_file():
            record = json.loads(file.read_text())
            name = "".join(part.removeprefix("@") for part in file.relative_to(metadata).parts)
            outputs.setdefault(record["shellcmd"], []).append(base64.b64decode(name).decode())
            records[record["shellcmd"]] = record
    jobs = [
        Job(
            record["rule"],
            _program_arguments(command),
            sorted(outputs[command]),
            record["endtime"] - record["starttime"],
        )
        for command, record in records.items()
        if command
    ]
    return sorted(jobs, key=lambda job: (job.rule, job.outputs))


def _program_arguments(command: str) -> list[str]:
    """What a rule's shell line gives to Python, the launcher of trainings taken off."""
    environment = {
        "PROGRAMS": "workflow_scripts",
        "LAUNCH_FLAGS": "--device cpu --stop-timeout-s 60",
        "SAFETY_FLAGS": "--checkpoint-every-s 0 --checkpoints-kept 2 --bad-loss-patience 0",
        "MIRROR_FLAG": "--mirror=",
        "PATH": os.environ["PATH"],
    }
    said = subprocess.run(
        ["bash", "-c", f"python() {{ printf '%s\\0' \"$@\"; }}; tee() {{ cat; }}; {command}"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    arguments = said.stdout.split("\0")[:-1]
    return arguments[arguments.index("--") + 1 :] if arguments[0].endswith("launch.py") else arguments


class Stage:
    """One job in a copy of its finished run, its own outputs taken away, to be attempted at will."""

    def __init__(self, golden: Path, rule: str, folder: Path) -> None:
        jobs = finished_jobs(golden)
        # round 2 reads two files of examples and has the longest training
        self.job = [job for job in jobs if job.rule == rule][-1]
        self._after = [job for job in jobs if job.rule == "bm25_run"] if rule == "bm25_index" else []
        self.folder, self._golden = folder, digests(golden)
        shutil.copytree(golden, folder, symlinks=True, copy_function=shutil.copyfile)
        shutil.rmtree(folder / "results" / ".work", ignore_errors=True)
        self.log = folder / "attempt.log"
        self.clear()

    def clear(self) -> None:
        """Delete the declared outputs, as Snakemake does before every attempt; the work folder stays."""
        _delete(self.folder, self.job)

    def start(self, *, full_at: int | None = None, file_limit: int | None = None) -> BaseProcess:
        """Start an attempt; `full_at`: the write from which the disk is full; `file_limit`: bytes a file."""
        arguments = (self.job.arguments, self.folder, self.log, full_at, file_limit)
        process = FORKS.Process(target=_run_program, args=arguments)
        process.start()
        return process

    def attempt(self, **faults: int) -> int:
        """Delete the outputs and try; gives the exit status."""
        self.clear()
        process = self.start(**faults)
        process.join(120)
        assert process.exitcode is not None, f"{self.job.rule} hangs:\n{self.log.read_text()}"
        return process.exitcode

    def check_what_is_there(self) -> None:
        """All that can be seen is whole; a manifest is there only when all else is."""
        for name, digest in digests(self.folder).items():
            if not any(part.startswith(".") for part in Path(name).parts):
                assert self._golden[name] == digest, f"{self.job.rule} left half a file: {name}"
        there = {output: (self.folder / output).exists() for output in self.job.outputs}
        if any(there[output] for output in there if output.endswith(".manifest.json")):
            assert all(there.values()), f"{self.job.rule} wrote its manifest before {there}"

    def finish(self) -> None:
        """One attempt in peace: everything is as in the finished run, and nothing lies about."""
        status = self.attempt()
        assert status == 0, self.log.read_text()
        self.check_what_is_there()
        for job in self._after:  # an index has no fixed bytes, but its runs have
            _delete(self.folder, job)
            process = FORKS.Process(
                target=_run_program, args=(job.arguments, self.folder, self.log, None, None)
            )
            process.start()
            process.join(120)
            assert process.exitcode == 0, self.log.read_text()
        assert digests(self.folder) == self._golden

    def seconds_of_an_attempt(self) -> float:
        """How long the work takes when nothing disturbs it."""
        assert self.attempt() == 0, self.log.read_text()  # the first one waits for the imports
        began = time.monotonic()
        assert self.attempt() == 0, self.log.read_text()
        return time.monotonic() - began


def strike_group(process: BaseProcess, number: signal.Signals) -> None:
    """Send a signal to an attempt and its children, if it is still there."""
    assert process.pid is not None
    try:
        while os.getpgid(process.pid) != process.pid:  # it makes the group first of all
            time.sleep(0.001)
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def _delete(folder: Path, job: Job) -> None:
    for output in job.outputs:
        path = folder / output
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _run_program(
    arguments: list[str], folder: Path, log: Path, full_at: int | None, file_limit: int | None
) -> None:
    """In the new process: become the program."""
    os.setsid()  # with its children it can be killed as one
    os.chdir(folder)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ[program.CLAIMS_VARIABLE] = str(folder / "results" / ".work" / "claims")
    sys.argv = arguments
    if full_at is not None:
        failing_writes.install(full_at)
    if file_limit is not None:
        tempfile.gettempdir()  # asks by writing a file
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    runpy.run_path(arguments[0], run_name="__main__")
