"""What the last run made, what it reused of earlier runs, and what it did not come to.

A run is one start of Snakemake. Each manifest names the run that made it, so this needs no other record.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from condenser.report.state import Job, Result, Run

MADE, REUSED, MISSING, UNKNOWN = "made", "reused", "missing", "unknown"


@dataclass(frozen=True)
class LastRun:
    """What the results of a data set are to their last run.

    Attributes:
        seconds: from its start to the end of the last result that it made.
        states: `made`, `reused`, `missing` or `unknown`, by manifest; of what it had no use for, none.
            Unknown is what was made since its start, with no run in the manifest.
        missing: the jobs whose results it needed, and which are not there.
        is_asked_known: whether the configuration has what it was asked for; else nothing counts as missing.
    """

    started: str
    asked: Sequence[str]
    seconds: float
    states: Mapping[Path, str]
    missing: Mapping[Path, Job]
    is_asked_known: bool

    def count(self, state: str) -> int:
        """How many results are in a state."""
        return list(self.states.values()).count(state)


def last_run(results: Sequence[Result], run: Run | None) -> LastRun | None:
    """What the results are to a run; None where no manifest names one."""
    if run is None:
        return None
    of = {result.manifest: result for result in results}
    made = [result for result in results if result.run == run.started]
    began = datetime.datetime.fromisoformat(run.started)
    states = {path: MISSING for path in run.behind if path not in of}
    for path in sorted(set(run.behind) & set(of) | _behind(made, of)):
        if of[path].run == run.started:
            states[path] = MADE
        else:
            is_later = of[path].run is None and of[path].finished >= began
            states[path] = UNKNOWN if is_later else REUSED
    return LastRun(
        started=run.started,
        asked=run.asked,
        seconds=max((result.finished - began).total_seconds() for result in made),
        states=states,
        missing={path: job for path, job in run.behind.items() if path not in of},
        is_asked_known=bool(run.behind),
    )


def _behind(made: Sequence[Result], of: Mapping[Path, Result]) -> set[Path]:
    """Results, and all that they are made from, by manifest."""
    maker = {file: path for path, result in of.items() for file in result.outputs}
    found = {result.manifest for result in made}
    waiting = list(found)
    while waiting:
        above = {maker[file] for file in of[waiting.pop()].inputs if file in maker} - found
        found |= above
        waiting += above
    return found
