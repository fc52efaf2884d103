"""The record of a table: what made it, and the digests of all results behind it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from condenser.files import canonical_json, sha256_text
from condenser.manifest import Record, read_manifest, record_of, sound_record

# Rules whose bytes differ each time. Lucene gives each segment of an index a random id (runs on the index do
# not differ); the others record times, or rates of the machine.
OTHER_EACH_TIME = {"bm25_index", "record", "figure", "plan"}

TOLD_APART = ("dataset", "file", "model", "system", "expansion", "variant", "texts", "split")
"""Wildcards that tell the jobs of a rule apart, but for their shards."""


def read_runs(manifests: Iterable[Path]) -> list[Record]:
    """The jobs that ran, from their manifests and in their order.

    Raises:
        ValueError: one is missing, or is not as its rule wrote it.
    """
    runs = []
    for path in manifests:
        try:
            runs.append(read_manifest(path))
        except ValueError as error:
            raise ValueError(
                f"{path}: expected a sound manifest, got one that {error}. Run verify."
            ) from error
    return runs


def digest_of(jobs: Iterable[tuple[str, Mapping[Any, str]]]) -> str:
    """One digest of the results of all jobs, each its rule and the digests of its outputs, by path.

    The SHA-256 of the canonical JSON of [path, SHA-256] of every file, by path. The order of the jobs does
    not count, nor do times and machines; nor do files whose bytes differ each time.
    """
    files = {
        str(path): digest
        for rule, outputs in jobs
        if rule not in OTHER_EACH_TIME
        for path, digest in outputs.items()
    }
    return sha256_text(canonical_json(sorted(files.items())))


def make_record(table: Path, runs: Sequence[Record]) -> dict[str, Any]:
    """The record of a table: its jobs with their settings, versions, times and digests, and a digest of all.

    Of files outside of this folder it has nothing but their last name.

    Args:
        runs: all jobs behind the table, what is needed first; the last one made it.
    """
    return {
        "table": table.as_posix(),
        "digest": digest_of((run.spec["rule"], run.outputs) for run in runs),
        "jobs": [
            {
                "rule": run.spec["rule"],
                "wildcards": run.spec["wildcards"],
                "manifest": str(run.path),
                "settings": _without_places(run.spec["config"]),
                "versions": run.spec["versions"],
                "code": sha256_text(canonical_json(run.spec["code"])),
                "device": run.whole["device"],
                "seconds": run.whole["wall_time_s"],
                "outputs": _by_name(run.outputs),
            }
            for run in runs
        ],
    }


def read_record(file: Path) -> dict[str, Any]:
    """The record of a table, perhaps of somebody else: what it says may not be printable.

    Raises:
        ValueError: the file is no record, lacks the job that made its table, or has another digest.
    """
    what = f"{file}: expected the record of a table (<table>.record.json)"
    try:
        record: dict[str, Any] = json.loads(file.read_bytes())
        digest = digest_of((job["rule"], job["outputs"]) for job in record["jobs"])
        said, table = record["digest"], record["table"]
    except OSError as error:
        raise ValueError(f"{what}, got a file that cannot be read ({error.strerror}).") from error
    except Exception as error:  # whatever its content raises
        raise ValueError(f"{what}, got something else ({error!s:.300}).") from error
    if not any(job["rule"] == "table" and table in job["outputs"] for job in record["jobs"]):
        raise ValueError(f"{what}, got one without the job that made its table. Make it again there.")
    if said != digest:
        raise ValueError(f"{what}, got one whose digest is not that of its jobs. Copy it again.")
    return record


def compare(record: Mapping[str, Any]) -> tuple[int, str | None]:
    """How many jobs of a record were compared, and the first difference from what is here, if there is one.

    The jobs are compared in the order of the pipeline, until one differs; then the record must have all that
    are behind its table here. Those are left out of which the manifest here says that their bytes differ each
    time. Digests are those of the manifests here; `verify` checks that the files still have them.
    """
    compared = 0
    for job in record["jobs"]:
        name = _name(job)
        here = sound_record(Path(job["manifest"]))
        if here is None:
            if job["rule"] in OTHER_EACH_TIME:
                continue
            return compared, f"{name}: has no sound manifest here ({job['manifest']})"
        if (rule := here.spec.get("rule")) != job["rule"]:
            return compared, f"{name}: {job['manifest']} is of the rule {rule} here"
        if rule in OTHER_EACH_TIME:
            continue
        compared += 1
        outputs, others = _by_name(here.outputs), job["outputs"]
        for path in sorted({*outputs, *others}):
            if outputs.get(path) != others.get(path):
                found = "has other bytes" if path in others else "is not in the record"
                return compared, f"{name}: {path} {found if path in outputs else 'is not here'}"
    recorded = {job["manifest"] for job in record["jobs"]}
    for run in runs_behind(Path(record["table"])):
        if run.spec["rule"] not in OTHER_EACH_TIME and str(run.path) not in recorded:
            return compared, f"{_name(run.spec)}: is not in the record"
    return compared, None


def runs_behind(result: Path) -> list[Record]:
    """The jobs that made a result and all that it was made from, as far as their manifests are here."""
    found: dict[Path, Record] = {}
    waiting, read = [result], cache(sound_record)
    while waiting:
        maker = record_of(waiting.pop(), read)
        if maker is not None and maker.path not in found:
            found[maker.path] = maker
            waiting += maker.inputs
    return [found[path] for path in sorted(found)]


def _without_places(value: Any) -> Any:
    """A setting as others may read it: a path that lies outside of this folder has its last name alone."""
    if isinstance(value, dict):
        return {key: _without_places(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_places(item) for item in value]
    is_outside = isinstance(value, str) and value.startswith(("/", "~", "../"))
    return f"outside/{Path(value).name}" if is_outside else value


def _name(job: Mapping[str, Any]) -> str:
    """The name of a job, by its spec or its part of a record."""
    return " ".join([job["rule"], *job["wildcards"].values()])


def _by_name(digests: Mapping[Path, str]) -> dict[str, str]:
    return {str(path): digest for path, digest in digests.items()}
