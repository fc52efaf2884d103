"""The jobs of a table, as the workflow writes them to two files for the plan.

One file has the jobs with their settings; the plan's spec depends on it. The other has what their finished
results count and how long they took.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from condenser.files import canonical_json, read_json, sha256_text, write_json
from condenser.manifest import SUFFIX, read_manifest


@dataclass(frozen=True)
class Job:
    """A job with the settings of its spec, and the jobs that make its inputs.

    `finished` is what `finished` gives for its result.
    """

    stage: str
    wildcards: dict[str, str]
    config: dict[str, Any]
    needs: list[Job]
    finished: Mapping[str, Any]

    @property
    def counts(self) -> dict[str, Any]:
        """The counts of its manifest; none where its result is not there."""
        return self.finished.get("counts", {})

    @property
    def prefix(self) -> Path:
        """The common beginning of the names of its result's files."""
        return Path(self.finished["manifest"].removesuffix(SUFFIX))

    @property
    def share(self) -> float:
        """The part of a collection that it works on: its shard."""
        return 1 / int(self.wildcards.get("shard", "0-of-1").split("-")[-1])


def write_jobs(
    file: Path, jobs: Sequence[tuple[str, dict[str, str]]], *, config_of: Callable, needs_of: Callable
) -> None:
    """Write jobs with their settings; each must come after those that it needs."""
    places = {canonical_json(job): place for place, job in enumerate(jobs)}
    entries = [
        {
            "stage": stage,
            "wildcards": wildcards,
            "config": config_of(stage, wildcards),
            "needs": sorted({places[canonical_json(need)] for need in needs_of(stage, wildcards)}),
        }
        for stage, wildcards in jobs
    ]
    write_json(file, entries)


def finished(manifest: Path, benchmark: Path | None, *, spec: dict[str, Any]) -> dict[str, Any]:
    """`manifest` (its path) and `counts` of a result, and `seconds` where there is a benchmark.

    Nothing where the result is missing or damaged, or was made by another spec than today's.
    """
    try:
        record = read_manifest(manifest)
    except ValueError:
        return {}
    if record.spec != spec or not all(file.exists() for file in record.outputs):
        return {}
    found: dict[str, Any] = {"manifest": str(manifest), "counts": record.counts}
    if benchmark and benchmark.is_file():
        names, values = (line.split("\t") for line in benchmark.read_text().splitlines()[:2])
        found["seconds"] = float(values[names.index("s")])
    return found


def write_finished(folder: Path, results: Sequence[Mapping[str, Any]]) -> str:
    """Write what is finished of each job, to a file that is named by its content; gives its name."""
    file = folder / f"finished-{sha256_text(canonical_json(results))[:16]}.json"
    write_json(file, results)
    return str(file)


def read_jobs(jobs: Path, finished: Path) -> list[Job]:
    """The jobs of the two files."""
    found: list[Job] = []
    for entry, result in zip(read_json(jobs), read_json(finished), strict=True):
        needs = [found[place] for place in entry["needs"]]
        found.append(Job(entry["stage"], entry["wildcards"], entry["config"], needs, result))
    return found
