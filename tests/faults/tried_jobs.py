"""The jobs of a finished run, one by one: run again, broken off, and what they left looked at.

A job's program runs in a process that is forked from one in which torch and the package are already
imported, so that an attempt takes the time of its own work and faults fall into that work, not into
the imports.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import runpy
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import failing_writes
import pytest
from forks import FORKS
from runs import copied, digests

# The rules of the tiny run; of pre-training, which each objective does in its own way, one for each model.
JOBS = [
    "collect_tiny", "checkpoint", "tokens", "query_tokens", "lengths", "pretrain condenser",
    "pretrain cocondenser", "bm25_index", "bm25_run", "examples", "train", "encode", "encode_queries",
    "search", "merge", "metrics", "table",
]  # fmt: skip
RULES = sorted({name.split()[0] for name in JOBS})

# What stays in the folder of work folders when all jobs are done: locks, and the logs of trainings.
_KEPT = {"claims", "log.jsonl"}


def jobs(*, quick: Sequence[str]) -> list[Any]:
    """All jobs by name, as parameters of a test; most are left to the long form."""
    return [pytest.param(name, marks=[] if name in quick else pytest.mark.weekly) for name in JOBS]


@dataclass(frozen=True)
class Job:
    """One job of a finished run."""

    rule: str
    arguments: list[str]  # the program and what it is given
    outputs: list[str]  # as the rule declares them
    seconds: float

    @property
    def name(self) -> str:
        """As `JOBS` has it."""
        if self.rule == "pretrain":
            return f"pretrain {Path(self.outputs[0]).parts[3].split('.')[0]}"  # models/NAME.manifest.json
        return self.rule


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
    """The program and the job of a rule's shell line; those of the copy, not of the run."""
    _, program, job, *_ = shlex.split(command)[shlex.split(command).index("python") :]
    return [f"workflow_scripts/{Path(program).name}", job]


class Attempt:
    """A process that runs a job's program, with its children a group of its own; and what it says."""

    def __init__(self, job: Job, folder: Path, *, full_at: int | None, file_limit: int | None) -> None:
        self._said = b""
        # as in the rules what is said goes through a pipe: also a full disk can be spoken of
        reader, writer = FORKS.Pipe(duplex=False)
        self._process = FORKS.Process(
            target=_run_program, args=(job.arguments, folder, writer, full_at, file_limit)
        )
        self._process.start()
        writer.close()
        self._reader = threading.Thread(target=self._read, args=(reader,))
        self._reader.start()

    def _read(self, pipe: Connection) -> None:
        with pipe:
            while part := os.read(pipe.fileno(), 1 << 16):
                self._said += part

    @property
    def said(self) -> str:
        return self._said.decode()

    def ended(self) -> int:
        """Wait for the end; gives the exit status."""
        self._process.join(120)
        assert self._process.exitcode is not None, f"hangs:\n{self.said}"
        self._reader.join(60)
        return self._process.exitcode

    def strike(self, number: signal.Signals, *, children_too: bool) -> None:
        """Send a signal, if it is still there to get it."""
        pid = self._process.pid
        assert pid is not None
        try:
            while os.getpgid(pid) != pid:  # it makes the group first of all
                time.sleep(0.001)
            os.killpg(pid, number) if children_too else os.kill(pid, number)
        except ProcessLookupError:
            return

    def wait_for_children(self, *, timeout_s: float) -> None:
        """Until nobody of the group is alive."""
        until = time.monotonic() + timeout_s
        while alive := [pid for pid, group in _living() if group == self._process.pid]:
            assert time.monotonic() < until, f"outlive their program: {alive}"
            time.sleep(0.01)


class TriedJob:
    """One job in a copy of its finished run, its own outputs taken away, to be attempted at will."""

    def __init__(self, golden: Path, name: str, folder: Path) -> None:
        """`name`: of the job, as `JOBS` has it."""
        jobs = finished_jobs(golden)
        # round 2 reads two files of examples and has the longest training
        self.job = [job for job in jobs if job.name == name][-1]
        self._after = [job for job in jobs if job.rule == "bm25_run"] if name == "bm25_index" else []
        self.folder, self._golden = folder, _digests_of_golden(golden)
        copied(golden, folder)
        shutil.rmtree(folder / "results" / ".work", ignore_errors=True)

    def start(self, *, full_at: int | None = None, file_limit: int | None = None) -> Attempt:
        """Delete the declared outputs and start an attempt.

        `full_at`: the write from which on the disk is full; `file_limit`: bytes that a file may have.
        """
        delete_outputs(self.folder, self.job)
        return Attempt(self.job, self.folder, full_at=full_at, file_limit=file_limit)

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
        self.succeed()
        self.check_what_is_there()
        for job in self._after:  # an index has no fixed bytes, but its runs have
            delete_outputs(self.folder, job)
            attempt = Attempt(job, self.folder, full_at=None, file_limit=None)
            assert attempt.ended() == 0, attempt.said
        assert digests(self.folder) == self._golden
        work = (self.folder / "results" / ".work").rglob("*")
        assert {path.name for path in work if path.is_file()} <= _KEPT

    def succeed(self) -> None:
        """Do the job in peace."""
        attempt = self.start()
        assert attempt.ended() == 0, attempt.said

    def seconds_of_an_attempt(self) -> float:
        """How long the work takes when nothing disturbs it."""
        self.succeed()  # the first one waits for the imports
        began = time.monotonic()
        self.succeed()
        return time.monotonic() - began


@cache
def _digests_of_golden(golden: Path) -> dict[str, str]:
    return digests(golden)


def _living() -> list[tuple[int, int]]:
    """All living processes of this machine, and their groups."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state, _, group = folder.joinpath("stat").read_text().rpartition(")")[2].split()[:3]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if state != "Z":
                found.append((int(folder.name), int(group)))
    return found


def delete_outputs(folder: Path, job: Job) -> None:
    """Delete what a rule declares, as Snakemake does before every attempt."""
    for output in job.outputs:
        path = folder / output
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _run_program(
    arguments: list[str], folder: Path, said: Connection, full_at: int | None, file_limit: int | None
) -> None:
    """In the new process: become the program."""
    os.setsid()  # with its children it can be killed as one
    os.chdir(folder)
    with said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    sys.argv = arguments
    if full_at is not None:
        failing_writes.install(full_at)
    if file_limit is not None:
        tempfile.gettempdir()  # asks by writing a file
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    runpy.run_path(arguments[0], run_name="__main__")
