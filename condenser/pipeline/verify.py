"""Check every file of a results folder against its manifest and the current configuration.

The check needs the manifests alone, so it also works where `.snakemake/` is lost. Paths are compared as they
are written, so that a folder may be a link to another disk. The workflow writes what the configuration of
today says of each result (`write_current`); `verify` compares, in another process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from condenser.files import sha256_file, write_json
from condenser.manifest import OTHER_BYTES, SUFFIX, Record, read_manifest
from condenser.pipeline.freshness import Freshness
from condenser.progress import track

# No results: records of jobs, in results/ itself, and in the folder of a data set or of the downloads.
_RECORDS = {0: {".work", "logs", "README.md"}, 1: {"logs", "benchmarks"}}

Current = Mapping[str, Mapping[str, Any]]
"""By manifest: `spec` and `place` of its job today, or `error`."""


@dataclass(frozen=True)
class Finding:
    """One file that is not as it should be.

    kind: `damaged` (its bytes differ from the manifest's digest, or it is missing), `stale` (the current
    configuration or code would make another, or its inputs have changed), `unknown` (no manifest names it,
    or it is a manifest in a place where its stage writes none).
    """

    kind: str
    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.path}: {self.reason}"


def write_current(
    results: Path,
    file: Path,
    *,
    spec_of: Callable[[str, dict[str, str]], dict[str, Any]],
    manifest_of: Callable[[str, dict[str, str]], str],
) -> str:
    """Write the spec of today, and the place, of the job of every manifest under `results`; gives the file.

    A job that the configuration no longer has stands there with the reason.
    """
    current: dict[str, dict[str, Any]] = {}
    for path in _walk(results, []):
        try:
            job = read_manifest(path).spec if path.name.endswith(SUFFIX) else None
        except ValueError:
            continue  # verify says so itself
        if job is not None:
            stage, wildcards = job["stage"], job["wildcards"]
            try:
                spec, place = spec_of(stage, wildcards), manifest_of(stage, wildcards)
                current[str(path)] = {"spec": spec, "place": place}
            except (LookupError, ValueError, OSError, SystemExit) as error:  # the last is said by a rule
                current[str(path)] = {"error": str(error)}
    write_json(file, current)
    return str(file)


def verify(results: Path, *, current: Current) -> tuple[int, list[Finding]]:
    """Check all files under `results`; returns how many were checked and what was found.

    Args:
        results: the folder of all results.
        current: what the configuration of today says of each manifest's job.

    Raises:
        ValueError: there is nothing to check.
    """
    results = Path(os.path.normpath(results))
    findings: list[Finding] = []
    files = _walk(results, findings)
    if not files and not findings:
        raise ValueError(f"{results}: expected results to check, found none. Is this the right folder?")
    records: dict[Path, Record] = {}
    for path in files:
        if path.name.endswith(SUFFIX):
            try:
                record = read_manifest(path)
            except ValueError as error:
                findings.append(Finding("damaged", path, str(error)))
                continue
            place = os.path.normpath(current.get(str(path), {}).get("place", path))
            if place == str(path):
                records[path] = record
            else:
                findings.append(Finding("unknown", path, f"expected at {place}"))
    bad: dict[Path, str] = {}  # files that nothing may be made from, and why
    known = {output for record in records.values() for output in record.outputs}
    for path in files:
        if not path.name.endswith(SUFFIX) and path not in known:
            bad[path] = "is of unknown origin"
            findings.append(Finding("unknown", path, "no sound manifest in its place names it"))
    for record in track(records.values(), "verify", total=len(records), unit="manifests"):
        for path, digest in record.outputs.items():
            if fault := _fault(path, digest):
                bad[path] = "is damaged"
                findings.append(Finding("damaged", path, fault))
    stale = _stale(records, bad, current)
    findings.extend(Finding("stale", path, reason) for path, reason in stale.items())
    return len(known), findings


def _walk(results: Path, findings: list[Finding]) -> list[Path]:
    """All files below `results` that are results, also those in linked folders.

    What cannot be walked is added to `findings`.
    """

    def unreadable(error: OSError) -> None:
        if results.exists():
            findings.append(Finding("damaged", Path(error.filename), f"cannot be read ({error.strerror})"))

    found, inside = [], {str(results): [os.path.realpath(results)]}  # by folder: it and those it lies in
    for folder, folders, files in os.walk(results, onerror=unreadable, followlinks=True):
        above, depth = inside.pop(folder), len(Path(folder).relative_to(results).parts)
        records = _RECORDS.get(depth, set())
        names, folders[:] = set(folders) - records, []
        for name in names:
            path = Path(folder, name)
            if (real := os.path.realpath(path)) in above:
                findings.append(Finding("unknown", path, "links to a folder that it lies in"))
            else:
                folders.append(name)
                inside[str(path)] = [*above, real]
        found += [Path(folder, name) for name in files if name not in records | {".snakemake_timestamp"}]
    return sorted(found)


def _fault(path: Path, digest: str) -> str | None:
    """What is wrong with the bytes at `path`."""
    try:
        return None if sha256_file(path) == digest else OTHER_BYTES
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _stale(records: Mapping[Path, Record], bad: dict[Path, str], current: Current) -> dict[Path, str]:
    """Why each stale result is stale, by manifest: by itself, or by an input, however far above.

    `bad` has the files that make what is made from them stale, with the reason; stale outputs join them.
    """
    freshness, stale = Freshness(), {}
    for path, record in records.items():
        today = current.get(str(path), {})
        if "spec" in today:
            reasons = freshness.changes(path, [], today["spec"])
        else:
            stage, wildcards, why = record.spec["stage"], record.spec["wildcards"], today.get("error")
            reasons = [f"the configuration no longer has the job {stage} {wildcards} ({why})"]
        for file, digest in record.inputs.items():  # a plan is made from manifests themselves
            if file.name.endswith(SUFFIX) and file.exists() and _fault(file, digest):
                reasons.append(f"{file} has other bytes now")
        if reasons:
            stale[path] = "; ".join(reasons)
    while True:
        bad = {output: "is stale" for path in stale for output in records[path].outputs} | bad
        causes = ((path, next(filter(bad.get, record.inputs), None)) for path, record in records.items())
        found = {
            path: f"made from {cause}, which {bad[cause]}"
            for path, cause in causes
            if cause and path not in stale
        }
        if not found:
            return stale
        stale |= found
