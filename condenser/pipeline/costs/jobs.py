"""The jobs of a table, as the workflow writes them to a file for the plan."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from condenser.files import canonical_json, read_json, sha256_text, write_json
from condenser.job import settings_of
from condenser.manifest import sound_record
from condenser.pipeline.specs import Job as Name
from condenser.pipeline.specs import Specs, key_of
from condenser.settings import Settings


@dataclass
class Job:
    """A job with the settings of its spec, and the jobs that make its inputs.

    If its result is up to date, `manifest` is the path of its manifest and `counts` those in it; `seconds`
    is how long it took, if that was measured.
    """

    rule: str
    wildcards: dict[str, str]
    config: Settings
    needs: list[Job]
    manifest: str | None = None
    counts: dict[str, Any] = field(default_factory=dict)
    seconds: float | None = None

    @property
    def share(self) -> float:
        """The part of a collection that it works on: its shard."""
        return 1 / int(self.wildcards.get("shard", "0-of-1").split("-")[-1])


def write_jobs(
    target: Name, folder: Path, *, specs: Specs, is_counted: bool = False, is_timed: bool = False
) -> str:
    """Write a job and those behind it with their settings, what is needed first; gives the file.

    Args:
        is_counted: the file also has what is finished, and its name follows from its content.
        is_timed: and how long that took, on this machine.
    """
    names = specs.jobs_behind(*target)
    jobs = describe_jobs(names, specs=specs, is_counted=is_counted, is_timed=is_timed)
    digest = f"-{sha256_text(canonical_json(jobs))[:16]}" if is_counted else ""
    # a folder for each: Snakemake looks into a folder once, and would miss what is written there later
    file = folder / target[1]["table"] / f"jobs{digest}.json"
    write_json(file, jobs)
    return str(file)


def describe_jobs(
    names: Sequence[Name], *, specs: Specs, is_counted: bool, is_timed: bool
) -> list[dict[str, Any]]:
    """Jobs as `read_jobs` reads them; each comes after those that make its inputs."""
    places = {key_of(*name): place for place, name in enumerate(names)}
    jobs = []
    for name in names:
        rule, wildcards, spec = *name, specs.spec(*name)
        needs = sorted(places[key_of(*need)] for need in specs.needs(*name))
        job = {"rule": rule, "wildcards": wildcards, "config": spec["config"], "needs": needs}
        if is_counted:
            job |= finished(specs.manifest(*name), specs.benchmark(*name) if is_timed else None, spec=spec)
        jobs.append(job)
    return jobs


def finished(manifest: str, benchmark: str | None, *, spec: dict[str, Any]) -> dict[str, Any]:
    """What a `Job` has of its result; nothing where it is missing, damaged, or made by another spec."""
    record = sound_record(Path(manifest))
    if record is None or record.spec != spec or not all(file.exists() for file in record.outputs):
        return {}
    result: dict[str, Any] = {"manifest": manifest, "counts": record.counts}
    seconds = seconds_of(benchmark)
    return result if seconds is None else {**result, "seconds": seconds}


def seconds_of(benchmark: str | None) -> float | None:
    """What a job took by its benchmark; None where it has none, or half of one, of a run that was killed."""
    if not benchmark or not Path(benchmark).is_file():
        return None
    with Path(benchmark).open() as file:
        row = next(csv.DictReader(file, delimiter="\t"), {})
    try:
        return float(row["s"])
    except (LookupError, TypeError, ValueError):
        return None


def read_jobs(path: Path) -> list[Job]:
    """The jobs of a file."""
    return jobs_of(read_json(path))


def jobs_of(described_jobs: Iterable[Mapping[str, Any]]) -> list[Job]:
    """The jobs that `described` gave."""
    jobs: list[Job] = []
    for job in described_jobs:
        needs = [jobs[place] for place in job["needs"]]
        jobs.append(Job(**{**job, "config": settings_of(job["config"]), "needs": needs}))
    return jobs
