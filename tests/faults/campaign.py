"""The whole workflow, broken off again and again while it runs, and started anew by the same command."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from runs import TARGET, command, environment

MARK = "CONDENSER_TEST_RUN"  # in the environment of every process of a run, orphans too
STARTED = re.compile(r"^(?:local)?rule (\w+):", re.MULTILINE)


class Run:
    """One start of the documented command, in a session of its own."""

    def __init__(self, folder: Path, *, cores: int) -> None:
        self.mark = uuid.uuid4().hex
        self.said = ""
        self._process = subprocess.Popen(
            command(cores=cores),
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
def run_of(folder: Path, *, cores: int) -> Iterator[Run]:
    """A run that leaves no process behind, whatever the test does."""
    run = Run(folder, cores=cores)
    try:
        yield run
    finally:
        kill_all(run.mark)
        run.close()


class Campaign:
    """Starts the workflow until it finishes, striking each start once, at a random moment of a stage.

    A strike is one of

    - `all`: SIGKILL to every process, as when the machine dies;
    - `snakemake`: SIGKILL to Snakemake alone, its jobs live on; the command is given again at once;
    - `program`: SIGKILL to the programs at work, Snakemake lives on and says what failed;
    - `term`: SIGTERM to every process, as by a scheduler.

    The moment: a random part of the rule's time in the finished run, in half of the cases counted from
    the first trace of its work in results/, so that not all strikes fall into imports.
    """

    def __init__(
        self,
        folder: Path,
        *,
        kinds: Mapping[str, float],
        strikes_per_rule: int,
        most: int,
        seconds: Mapping[str, float],
        seed: int,
    ) -> None:
        self.folder = folder
        self.strikes: Counter[tuple[str, str]] = Counter()
        self.num_starts = 0
        self._kinds, self._per_rule, self._most, self._seconds = kinds, strikes_per_rule, most, seconds
        self._draw = random.Random(seed)

    def by_rule(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for (rule, _), count in self.strikes.items():
            counts[rule] += count
        return counts

    def until_finished(self, *, cores: int) -> None:
        """Give the one command again and again until it ends well; nothing else is done by hand."""
        runs: list[Run] = []
        try:
            while True:
                self.num_starts += 1
                assert self.num_starts < 1000
                run = Run(self.folder, cores=cores)
                runs.append(run)
                kind = self._strike_once(run)
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

    def _strike_once(self, run: Run) -> str | None:
        """Strike this run once, if a stage that is to be struck still starts in it; gives the kind."""
        rule = self._rule_to_strike(run)
        if rule is None:
            return None
        [kind] = self._draw.choices(list(self._kinds), list(self._kinds.values()))
        seconds = self._seconds[rule]
        if self._draw.random() < 0.5:
            _wait_for_change(self.folder / "results", timeout_s=2 * seconds)
            seconds = min(seconds, 0.5)
        time.sleep(seconds * self._draw.random())
        if run.status is not None:
            return None
        if kind == "all":
            reached = kill_all(run.mark)
        elif kind == "snakemake":
            reached = strike([run.pid], signal.SIGKILL)
        elif kind == "program":
            reached = strike(programs_of(run.mark), signal.SIGKILL)
        else:
            reached = strike(processes_of(run.mark), signal.SIGTERM)
        if reached:
            self.strikes[rule, kind] += 1
        return kind if reached else None

    def _rule_to_strike(self, run: Run) -> str | None:
        """Wait until a rule starts that has not been struck often enough; None when the run ends first."""
        seen = 0
        while run.status is None:
            rules = run.started_rules()
            for rule in rules[seen:]:
                if self.by_rule()[rule] < self._per_rule and self.strikes.total() < self._most:
                    return rule
            seen = len(rules)
            time.sleep(0.005)
        return None

    def begin_anew(self) -> None:
        """Throw all results away, to be struck in other places."""
        for name in ("results", ".snakemake"):
            shutil.rmtree(self.folder / name, ignore_errors=True)


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


def table(folder: Path) -> bytes:
    return (folder / TARGET).read_bytes()
