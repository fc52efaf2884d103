"""What a run of the workflow has done, does now and still has to do, as lines of text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from condenser.pipeline.costs.forecast import Forecast

_TAIL_BYTES = 4096
_LEFT = re.compile(r"\b((?:\d+:)?\d+:\d\d) left")  # in a line of condenser.progress.Progress
_MOST_RUNNING = 4
_BAR = 40  # characters

Line = tuple[str, str]
"""A kind (head, bar, running, said, done, waiting) and a text."""


@dataclass
class Job:
    """A job of a run.

    Attributes:
        name: the rule, then the values of its wildcards.
        rule: the rule.
        share: the part of the machine that it takes, from 0 to 1.
        log: what its program says; it belongs to this run if it was written since `began`.
    """

    name: str
    rule: str
    share: float = 1.0
    log: Path | None = None
    began: float | None = None
    ended: float | None = None

    def said(self) -> str:
        """The last line of its log; empty if there is none yet."""
        if self.log is None or self.began is None:
            return ""
        try:
            if self.log.stat().st_mtime < self.began - 1:
                return ""  # of an earlier run
            with self.log.open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        lines = [line.strip() for line in re.split(r"[\r\n]+", text)]
        return next((_printable(line) for line in reversed(lines) if line), "")


class Board:
    """The jobs of a run, in the order in which they are needed.

    Args:
        what: the targets, for the first line.
        jobs: all that will run, by an id of the caller's.
        forecast: what is known of their time, by the same ids.
        clock: seconds since 1970, as times of files.
    """

    def __init__(
        self, what: str, jobs: dict[str, Job], *, forecast: Forecast, clock: Callable[[], float]
    ) -> None:
        self._what, self._jobs, self._forecast, self._clock = what, jobs, forecast, clock
        self._began = clock()

    def start(self, job: str) -> str:
        """Note that a job starts; gives a line that says so."""
        self._jobs[job].began, self._jobs[job].ended = self._clock(), None
        return f"started {self._jobs[job].name}"

    def fail(self, job: str) -> None:
        """Note that a job failed; it may start again."""
        self._jobs[job].began = None

    def finish(self, job: str) -> str:
        """Note that a job has finished; gives a line that says so, with the time left."""
        one = self._jobs[job]
        one.ended = self._clock()
        text = f"finished {one.name}"
        if one.began is not None:
            self._forecast.took(job, one.ended - one.began)
            text += f" in {_time(one.ended - one.began)}"
        return f"{text}: {self.summary()}"

    @property
    def is_finished(self) -> bool:
        return all(job.ended is not None for job in self._jobs.values())

    def summary(self) -> str:
        """How many jobs are done, and the time left of all, as far as it is known."""
        done = sum(job.ended is not None for job in self._jobs.values())
        text = f"{done} of {len(self._jobs)} jobs done"
        left = self.left()
        return text if left is None or self.is_finished else f"{text}, about {_time(left)} left"

    def end(self) -> str:
        """The last line: what was done, how long it took, and which rules took most of that."""
        times = {name: _time(took) for name, took in self._times()[:3] if took >= 1}
        most = f"; {', '.join(f'{name} {took}' for name, took in times.items())}" if len(times) > 1 else ""
        return f"{self.summary()} in {_time(self._clock() - self._began)}{most}"

    def left(self) -> float | None:
        """Seconds left of the whole run: all jobs fill the machine by their shares; None if unknown."""
        lefts = {name: (self._left(name), job.share) for name, job in self._jobs.items() if job.ended is None}
        known = [(seconds, share) for seconds, share in lefts.values() if seconds is not None]
        if lefts and not known:
            return None
        longest = max((seconds for seconds, _ in known), default=0.0)
        return max(longest, sum(seconds * share for seconds, share in known))

    def running(self) -> list[str]:
        """A line for each job that runs: its name, its time, and what its program said last."""
        return [
            ": ".join(filter(None, [f"{job.name} runs for {self._elapsed(job)}", job.said()]))
            for job in self._at_work().values()
        ]

    def lines(self, height: int) -> list[Line]:
        """At most `height` lines for a screen."""
        elapsed = _time(self._clock() - self._began)
        head: list[Line] = [("head", f"{self._what}   {elapsed}, {self.summary()}"), ("bar", self._bar())]
        at_work = self._at_work()
        for name, job in list(at_work.items())[:_MOST_RUNNING]:
            left = self._left(name)
            text = f"{job.name}   {self._elapsed(job)}"
            head.append(("running", text if left is None else f"{text}, about {_time(left)} left"))
            if said := job.said():
                head.append(("said", f"  {said}"))
        if len(at_work) > _MOST_RUNNING:
            head.append(("running", f"and {len(at_work) - _MOST_RUNNING} more jobs"))
        return [*head, *self._rules(height - len(head))][:height]

    def _rules(self, height: int) -> list[Line]:
        """A line for each rule; if there is no room, one for those that are done, and one for the last."""
        groups: dict[str, list[tuple[str, Job]]] = {}
        for name, job in self._jobs.items():
            groups.setdefault(job.rule, []).append((name, job))
        lines: list[Line] = []
        for rule, jobs in groups.items():
            done = [job for _, job in jobs if job.ended is not None]
            took = sum(map(self._spent, done))
            lefts = [self._left(name) for name, job in jobs if job.ended is None]
            known = [seconds for seconds in lefts if seconds is not None]
            text = f"{rule:<16} {len(done):>3} of {len(jobs)}"
            text += f"   {_time(took)}" if done else ""
            text += f"   about {_time(sum(known))} of work left" if known else ""
            lines.append(("done" if len(done) == len(jobs) else "waiting", text))
        if len(lines) > height:
            names = [text.split()[0] for kind, text in lines if kind == "done"]
            folded: list[Line] = [("done", f"done: {', '.join(names)}")] if names else []
            lines = [*folded, *(line for line in lines if line[0] == "waiting")]
        if len(lines) > height > 0:
            lines = [*lines[: height - 1], ("waiting", f"and {len(lines) - height + 1} more rules")]
        return lines

    def _bar(self) -> str:
        """The part that is done: of the time where it is known, else of the jobs."""
        spent = sum(job.share * self._spent(job) for job in self._jobs.values())
        left = self.left()
        done = sum(job.ended is not None for job in self._jobs.values()) / max(len(self._jobs), 1)
        if left is not None and spent + left > 0:
            done = spent / (spent + left)
        full = int(_BAR * done)
        return f"{'█' * full}{'░' * (_BAR - full)} {100 * done:.0f} %"

    def _spent(self, job: Job) -> float:
        return 0.0 if job.began is None else (job.ended or self._clock()) - job.began

    def _elapsed(self, job: Job) -> str:
        return _time(self._spent(job))

    def _left(self, name: str) -> float | None:
        """Seconds left of a job: by the forecast, and at least what its program says of its loop."""
        job, total = self._jobs[name], self._forecast.seconds(name)
        if job.began is None:
            return total
        says = _LEFT.search(job.said())
        by_itself = _seconds(says[1]) if says else None
        by_plan = None if total is None else max(total - self._spent(job), 0.0)
        return max((left for left in (by_itself, by_plan) if left is not None), default=None)

    def _at_work(self) -> dict[str, Job]:
        return {name: job for name, job in self._jobs.items() if job.began is not None and job.ended is None}

    def _times(self) -> Sequence[tuple[str, float]]:
        """Rules with the seconds of their finished jobs, the longest first."""
        sums: dict[str, float] = {}
        for job in self._jobs.values():
            if job.ended is not None:
                sums[job.rule] = sums.get(job.rule, 0.0) + self._spent(job)
        return sorted(sums.items(), key=lambda pair: -pair[1])


def _time(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any.

    >>> _time(3.2), _time(4000)
    ('00:03', '1:06:40')
    """
    return tqdm.format_interval(max(seconds, 0))


def _seconds(text: str) -> float:
    """The seconds of what `_time` gives.

    >>> _seconds("1:06:40")
    4000.0
    """
    total = 0.0
    for part in text.split(":"):
        total = 60 * total + int(part)
    return total


def _printable(line: str) -> str:
    return "".join(character if character.isprintable() else " " for character in line)
