"""The jobs of a table, as the workflow writes them to two files for the plan.

One file has the jobs with their settings; the plan's spec depends on it. The other has what their finished
results count and how long they took.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from condenser.files import canonical_json, read_json, sha256_text, write_json
from condenser.manifest import read_manifest
from condenser.pipeline.specs import Job as Name
from condenser.pipeline.specs import Specs


@dataclass
class Job:
    """A job with the settings of its spec, and the jobs that make its inputs.

    If its result is up to date, `manifest` is the path of its manifest and `counts` those in it; `seconds`
    is how long it took, if that was measured.
    """

    stage: str
    wildcards: dict[str, str]
    config: dict[str, Any]
    needs: list[Job]
    manifest: str | None = None
    counts: dict[str, Any] = field(default_factory=dict)
    seconds: float | None = None

    @property
    def share(self) -> float:
        """The part of a collection that it works on: its shard."""
        return 1 / int(self.wildcards.get("shard", "0-of-1").split("-")[-1])


def write_jobs(target: Name, folder: Path, *, specs: Specs) -> str:
    """Write a job and those behind it, with their settings; gives the file, which the table names."""
    names = specs.jobs_behind(*target)
    places = {canonical_json(name): place for place, name in enumerate(names)}
    entries = [
        {
            "stage": name[0],
            "wildcards": name[1],
            "config": specs.spec(*name)["config"],
            "needs": sorted(places[canonical_json(need)] for need in specs.needs(*name)),
        }
        for name in names
    ]
    file = folder / f"jobs_of_{target[1]['table']}.json"
    write_json(file, entries)
    return str(file)


def write_finished(
    target: Name,
    folder: Path,
    *,
    specs: Specs,
    manifest_of: Callable[[str, dict[str, str]], str],
    benchmark_of: Callable[[str, dict[str, str]], str | None],
) -> str:
    """Write what is finished of the same jobs; gives the file, which its content names."""
    names = specs.jobs_behind(*target)
    results = [_finished(manifest_of(*name), benchmark_of(*name), spec=specs.spec(*name)) for name in names]
    file = folder / f"finished-{sha256_text(canonical_json(results))[:16]}.json"
    write_json(file, results)
    return str(file)


def _finished(manifest: str, benchmark: str | None, *, spec: dict[str, Any]) -> dict[str, Any]:
    """What a `Job` has of its result; nothing where it is missing, damaged, or made by another spec."""
    try:
        record = read_manifest(Path(manifest))
    except ValueError:
        return {}
    if record.spec != spec or not all(file.exists() for file in record.outputs):
        return {}
    found: dict[str, Any] = {"manifest": manifest, "counts": record.counts}
    if benchmark and Path(benchmark).is_file():
        with Path(benchmark).open() as file:
            found["seconds"] = float(next(csv.DictReader(file, delimiter="\t"))["s"])
    return found


def read_jobs(jobs: Path, finished: Path) -> list[Job]:
    """The jobs of the two files."""
    found: list[Job] = []
    for entry, result in zip(read_json(jobs), read_json(finished), strict=True):
        needs = [found[place] for place in entry["needs"]]
        found.append(Job(**{**entry, **result, "needs": needs}))
    return found
