"""How long each job of a run will take, for the progress that is shown while the workflow runs."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from condenser.manifest import sound_record
from condenser.pipeline.costs.data import Data
from condenser.pipeline.costs.jobs import Job, seconds_of
from condenser.pipeline.costs.plan import work_of
from condenser.pipeline.costs.tables import Tables
from condenser.pipeline.specs import key_of


def nominal_machine(device: str) -> str:
    """The row of devices.tsv that stands for this machine; `device` is auto, cpu or cuda."""
    has_gpu = device != "cpu" and any(Path("/dev").glob("nvidia[0-9]*"))
    return "A100" if has_gpu else "Xeon"


class Forecast:
    """Seconds of jobs: those of an earlier run with the same settings, else the plan's.

    A plan is for a nominal machine. It is scaled by the jobs of the same rule that have run here, else by
    all that have; as long as none has, it says nothing.

    >>> forecast = Forecast()
    >>> for job, rule, seconds in [("a", "encode", 10.0), ("b", "encode", 30.0), ("c", "train", 5.0)]:
    ...     forecast.plan(job, rule, seconds)
    >>> forecast.seconds("b")
    >>> forecast.took("a", 20.0)
    >>> forecast.seconds("b"), forecast.seconds("c")
    (60.0, 10.0)
    """

    def __init__(self) -> None:
        self._planned: dict[str, tuple[str, float]] = {}
        self._measured: dict[str, float] = {}

    def plan(self, job: str, rule: str, seconds: float) -> None:
        """Note what the plan says of a job."""
        self._planned[job] = rule, seconds

    def took(self, job: str, seconds: float) -> None:
        """Note what a job has taken."""
        self._measured[job] = seconds

    def seconds(self, job: str) -> float | None:
        """What a job takes; None where nothing says so."""
        if job in self._measured:
            return self._measured[job]
        if job not in self._planned:
            return None
        rule, planned = self._planned[job]
        ratios = self._ratios()
        ratio = ratios.get(rule, ratios.get(""))
        return None if ratio is None else planned * ratio

    def _ratios(self) -> dict[str, float]:
        """Measured seconds to planned ones, by rule and (under an empty name) of all."""
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for job, measured in self._measured.items():
            if job in self._planned:
                rule, planned = self._planned[job]
                for name in (rule, ""):
                    sums[name][0] += measured
                    sums[name][1] += planned
        return {name: measured / planned for name, (measured, planned) in sums.items() if planned > 0}


def measured_before(manifest: str, benchmark: str | None, *, spec: Mapping[str, Any]) -> float | None:
    """Seconds of the benchmark of a job that ran with the same settings, whatever its code was."""
    record = sound_record(Path(manifest))
    if record is None or record.spec.get("config") != spec["config"]:
        return None
    return seconds_of(benchmark)


def planned_seconds(
    jobs: Sequence[Job], tables: Tables, *, device: str, threads: int
) -> Iterator[tuple[str, str, float, str]]:
    """What the plan says of jobs, on a nominal machine: arguments of `Forecast.plan`, and what a job lacks.

    Args:
        device: `compute.device`: auto, cpu or cuda.
    """
    machine = tables.device(nominal_machine(device))
    data = Data(jobs, tables, machine)
    for job in jobs:
        # of a rate or a size that the tables lack, the plan itself speaks
        with contextlib.suppress(ValueError, LookupError, OSError):
            if (work := work_of(job, data)) is not None:
                seconds = sum(tables.seconds_by_rate(job.rule, work, machine, threads=threads).values())
                name, lacks = " ".join([job.rule, *job.wildcards.values()]), work.get("lacks")
                lacks = f"{name}: by the plan {lacks}." if lacks else ""
                if isfinite(seconds):  # no clock can show another
                    yield key_of(job.rule, job.wildcards), job.rule, seconds, lacks
