"""The whole workflow, broken off again and again while it runs, and started anew by the same command."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runs import command, environment

MARK = "CONDENSER_TEST_RUN"  # in the environment of every process of a run, orphans too
STARTED = re.compile(r"^[\d:]+ started (\w+)", re.MULTILINE)


class Run:
    """One start of the documented command, in a session of its own."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.mark = uuid.uuid4().hex
        self.said = ""
        self._process = subprocess.Popen(
            command(**options),
            cwd=folder,
            env={**environment(), MARK: self.mark, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said += line

    @property
    def status(self) -> int | None:
        return self._process.poll()

    @property
    def pid(self) -> int:
        return self._process.pid

    def started_rules(self) -> list[str]:
        return STARTED.findall(self.said)

    def ended(self, *, timeout_s: float) -> int:
        """Wait for the end of Snakemake; gives its status."""
        return self._process.wait(timeout_s)

    def close(self) -> None:
        """Wait for the last of the processes that could still say something, and let the pipe go."""
        self._process.wait(60)
        self._reader.join(60)
        assert self._process.stdout is not None
        self._process.stdout.close()


def processes_of(mark: str) -> list[int]:
    """All living processes that descend from a run, whoever their parent is now."""
    found = []
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                alive = folder.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z"
                if alive and wanted in folder.joinpath("environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
    return found


def programs_of(mark: str) -> list[int]:
    """The living processes of a run that are programs of workflow_scripts."""
    found = []
    for pid in processes_of(mark):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if len(words) > 1 and b"python" in words[0] and b"workflow_scripts/" in words[1]:
            found.append(pid)
    return found


def strike(pids: list[int], number: signal.Signals) -> int:
    """Send a signal to processes, as good as at once; gives how many were there to get it."""
    reached = 0
    for pid in pids:
        try:
            os.kill(pid, number)
            reached += 1
        except ProcessLookupError:
            continue
    return reached


def kill_all(mark: str) -> int:
    """As when the machine dies: all processes of a run, none of which sees another die first."""
    reached = strike(processes_of(mark), signal.SIGSTOP)
    while pids := processes_of(mark):
        strike(pids, signal.SIGKILL)
        time.sleep(0.01)
    return reached


@contextmanager
def run_of(folder: Path, **options: Any) -> Iterator[Run]:
    """A run that leaves no process behind, whatever the test does."""
    run = Run(folder, **options)
    try:
        yield run
    finally:
        kill_all(run.mark)
        run.close()


class Campaign:
    """Starts the workflow until it finishes, striking each start once, at a random moment of a rule.

    A strike is one of

    - `all`: SIGKILL to every process, as when the machine dies;
    - `snakemake`: SIGKILL to Snakemake alone, its jobs live on; the command is given again at once;
    - `program`: SIGKILL to the programs at work, Snakemake lives on and says what failed;
    - `term`: SIGTERM to every process, as by a scheduler.

    The kinds take turns. The moment: a random part of the rule's time in the finished run, in half of
    the cases counted from the first trace of its work in results/, so that not all fall into imports.
    """

    def __init__(
        self,
        *,
        kinds: Sequence[str],
        strikes: Mapping[str, int],
        seconds: Mapping[str, float],
        seed: int,
    ) -> None:
        """`strikes`: how many each rule is to have in all; `seconds`: how long its jobs take in peace."""
        self.strikes: Counter[tuple[str, str]] = Counter()
        self.num_starts = 0
        self._kinds, self._seconds, self._draw = kinds, seconds, random.Random(seed)
        self._wanted = Counter(strikes)

    @property
    def rules_left(self) -> set[str]:
        """The rules that have not had all their strikes."""
        return set(+self._wanted)

    def run_until_finished(self, folder: Path, *, cores: int) -> None:
        """Give the one command again and again until it ends well; nothing else is done by hand."""
        runs: list[Run] = []
        try:
            while True:
                self.num_starts += 1
                assert self.num_starts < 1000
                run = Run(folder, cores=cores)
                runs.append(run)
                kind = self._strike_once(run, folder / "results")
                status = run.ended(timeout_s=300)
                assert not self._is_locked(run), run.said
                if kind is None:
                    assert status == 0, run.said[-6000:]
                    return
        finally:  # orphans too are left alone until here
            for run in runs:
                kill_all(run.mark)
                run.close()

    @staticmethod
    def _is_locked(run: Run) -> bool:
        return "Directory cannot be locked" in run.said or "IncompleteFilesException" in run.said

    def _strike_once(self, run: Run, results: Path) -> str | None:
        """Strike this run once, if a rule that is to be struck still starts in it; gives the kind."""
        num_seen = 0
        while run.status is None:
            rules = run.started_rules()
            for rule in rules[num_seen:]:
                kind = self._kinds[self.strikes.total() % len(self._kinds)]
                if self._wanted[rule] > 0 and self._strike(run, rule, kind, results):
                    self.strikes[rule, kind] += 1
                    self._wanted[rule] -= 1
                    return kind
            num_seen = len(rules)
            time.sleep(0.005)
        return None

    def _strike(self, run: Run, rule: str, kind: str, results: Path) -> bool:
        """Strike at a random moment of a job that has just begun; false if nobody was there to feel it."""
        seconds = self._seconds[rule]
        if self._draw.random() < 0.5:
            _wait_for_change(results, timeout_s=2 * seconds)
            seconds = min(seconds, 0.5)
        time.sleep(seconds * self._draw.random())
        if run.status is not None:
            return False
        if kind == "all":
            return kill_all(run.mark) > 0
        if kind == "snakemake":
            return strike([run.pid], signal.SIGKILL) > 0
        if kind == "program":
            return strike(programs_of(run.mark), signal.SIGKILL) > 0
        return strike(processes_of(run.mark), signal.SIGTERM) > 0


def _wait_for_change(results: Path, *, timeout_s: float) -> None:
    """Until a file of results/ appears, goes or is renamed; logs and benchmarks aside."""

    def look() -> set[str]:
        return {
            str(Path(folder, name))
            for folder, folders, files in os.walk(results)
            if not folder.endswith(("/logs", "/benchmarks"))
            for name in (*files, *folders)
        }

    before, until = look(), time.monotonic() + timeout_s
    while look() == before and time.monotonic() < until:
        time.sleep(0.002)
