"""What the last run made, what it reused of earlier runs, and what it did not come to.

A run is one start of Snakemake. Each manifest names the run that made it, so this needs no other record.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from condenser.report.state import Job, Result, Run

_Node = TypeVar("_Node")

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


def needs_of(results: Sequence[Result]) -> dict[Path, set[Path]]:
    """The results from which each result is made, by manifest."""
    maker = {file: result.manifest for result in results for file in result.outputs}
    return {result.manifest: {maker[file] for file in result.inputs if file in maker} for result in results}


def reached(starts: Iterable[_Node], needs: Mapping[_Node, set[_Node]]) -> set[_Node]:
    """All that some need, directly or not; one of these too, if another one needs it."""
    found: set[_Node] = set()
    waiting = list(starts)
    while waiting:
        new = needs[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def last_run(results: Sequence[Result], needs: Mapping[Path, set[Path]], run: Run | None) -> LastRun | None:
    """What the results are to a run; None where no manifest names one. `needs` is from `needs_of`."""
    if run is None:
        return None
    of = {result.manifest: result for result in results}
    made = [result for result in results if result.run == run.started]
    began = datetime.datetime.fromisoformat(run.started)
    states = {path: MISSING for path in run.behind if path not in of}
    of_made = {result.manifest for result in made}
    for path in sorted(set(run.behind) & set(of) | of_made | reached(of_made, needs)):
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
