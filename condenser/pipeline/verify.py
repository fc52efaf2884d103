"""Check every file of a results folder against its manifest and the current configuration.

The check needs the manifests alone, so it also works where `.snakemake/` is lost. Paths are compared as they
are written, so that a folder may be a link to another disk. The workflow writes what the configuration of
today says of each result (`write_current`); `verify` hashes the files, in another process.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from condenser.data.official import FIRST_SEEN
from condenser.files import sha256_file, write_json
from condenser.manifest import OTHER_BYTES, SUFFIX, Record, read_manifest, sound_record
from condenser.pipeline.freshness import Freshness
from condenser.pipeline.record import digest_of
from condenser.program import printable
from condenser.progress import track

# No results: records of jobs, in results/ itself, and in the folder of a data set or of the downloads.
_RECORDS = {0: {".work", "logs", "README.md"}, 1: {"logs", "benchmarks", "last", FIRST_SEEN}}

Current = Mapping[str, Mapping[str, Any]]
"""By manifest: its `place`, the `changes` that make its result stale by itself, and `other`, the name of its
data set if the configuration lacks that."""


SpecOf = Callable[[str, dict[str, str]], dict[str, Any]]
"""Gives the spec that a job has today."""


@dataclass(frozen=True)
class Finding:
    """One file that is not as it should be.

    kind: `damaged` (its bytes differ from the manifest's digest, or it is missing), `stale` (the current
    configuration or code would make another, or its inputs have changed), `unknown` (no manifest names it,
    or it is a manifest in a place where its rule writes none).
    """

    kind: str
    path: Path
    reason: str

    def __str__(self) -> str:
        return printable(f"{self.kind}: {self.path}: {self.reason}")


def write_current(
    results: Path,
    file: Path,
    *,
    datasets: Container[str],
    spec_of: SpecOf,
    manifest_of: Callable[[str, dict[str, str]], str],
) -> str:
    """Write what the configuration of today says of every manifest under `results`; gives the file."""
    manifests = filter(_is_manifest, _walk(results))
    write_json(file, current_of(manifests, datasets=datasets, spec_of=spec_of, manifest_of=manifest_of))
    return str(file)


def current_of(
    manifests: Iterable[Path],
    *,
    datasets: Container[str] | None = None,
    spec_of: SpecOf,
    manifest_of: Callable[[str, dict[str, str]], str],
) -> dict[str, dict[str, Any]]:
    """What the configuration of today says of manifests; nothing of damaged ones.

    It knows no spec of a data set that is not among its `datasets` (None: it has all): such a result is
    compared with its own.
    """
    current, freshness = {}, Freshness()
    for path in manifests:
        if (record := sound_record(path)) is None:
            continue  # verify says so itself
        entry: dict[str, Any] = {}
        rule, wildcards = record.spec["rule"], record.spec["wildcards"]
        try:
            other = wildcards.get("dataset")
            if other is not None and datasets is not None and other not in datasets:
                entry["other"] = other
                place, spec = str(_place_below(path, other)), record.spec
            else:
                place, spec = manifest_of(rule, wildcards), spec_of(rule, wildcards)
            changes = freshness.changes(path, [], spec)
        except (LookupError, ValueError, OSError, SystemExit) as error:  # the last is said by a rule
            place = str(path)
            changes = [f"the configuration no longer has the job {rule} {wildcards} ({error})"]
        current[str(path)] = {"place": place, "changes": changes, **entry}
    return current


def _place_below(manifest: Path, dataset: str) -> Path:
    """Where a manifest belongs, as far as its path tells: below the folder of its data set."""
    results, _, *below = manifest.parts
    return Path(results, dataset, *below)


def others_of(current: Current, *, dataset: str | None = None) -> list[str]:
    """The data sets that have results and are not of this configuration; of one alone if it is named."""
    others = {entry["other"] for entry in current.values() if "other" in entry}
    return sorted(others if dataset is None else others & {dataset})


def verify(results: Path, *, current: Current, dataset: str | None = None) -> tuple[int, list[Finding]]:
    """Check all files under `results`; returns how many were checked and what was found.

    Args:
        results: the folder of all results.
        current: what the configuration of today says of each manifest's job.
        dataset: check the results of this data set alone.

    Raises:
        ValueError: there is nothing to check.
    """
    results, unreadable = Path(os.path.normpath(results)), list[OSError]()
    files = _of_dataset(_walk(results, on_error=unreadable.append), results, dataset)
    if not files:
        folder = results / (dataset or "")
        raise ValueError(f"{folder}: expected results to check, found none. Is this the right folder?")
    findings = [
        Finding("unknown" if error.errno == errno.ELOOP else "damaged", Path(error.filename), _unread(error))
        for error in unreadable
    ]
    records: dict[Path, Record] = {}
    for path in filter(_is_manifest, files):
        try:
            record = read_manifest(path)
        except ValueError as error:
            findings.append(Finding("damaged", path, str(error)))
            continue
        place = os.path.normpath(current[str(path)]["place"]) if str(path) in current else str(path)
        if place == str(path):
            records[path] = record
        else:
            findings.append(Finding("unknown", path, f"expected at {place}"))
    outputs = {file: digest for record in records.values() for file, digest in record.outputs.items()}
    for path in files:
        if not _is_manifest(path) and path not in outputs:
            findings.append(Finding("unknown", path, "no sound manifest in its place names it"))
    for path, digest in track(outputs.items(), "verify", total=len(outputs), unit="files"):
        if fault := _fault(path, digest):
            findings.append(Finding("damaged", path, fault))
    bad = {finding.path: finding.kind.replace("unknown", "of unknown origin") for finding in findings}
    return len(outputs), [*findings, *stale(records, bad, current)]


def results_digest(results: Path, *, dataset: str | None = None) -> str:
    """One digest of all results, as their sound manifests give it (`record.digest_of`)."""
    results = Path(os.path.normpath(results))
    files = _of_dataset(_walk(results), results, dataset)
    records = filter(None, map(sound_record, filter(_is_manifest, files)))
    return digest_of((record.spec["rule"], record.outputs) for record in records)


def _walk(results: Path, *, on_error: Callable[[OSError], object] | None = None) -> list[Path]:
    """All files below `results` that are results, also those in linked folders."""
    found = []
    for folder, folders, files in os.walk(results, onerror=on_error, followlinks=True):
        for link in [Path(folder, name) for name in folders if Path(folder, name).is_symlink()]:
            if Path(folder).resolve().is_relative_to(link.resolve()):
                folders.remove(link.name)
                if on_error is not None:
                    on_error(OSError(errno.ELOOP, "is a link to a folder above it", str(link)))
        records = _RECORDS.get(len(Path(folder).relative_to(results).parts), set())
        folders[:] = set(folders) - records
        found += [Path(folder, name) for name in files if name not in records | {".snakemake_timestamp"}]
    return sorted(found)


def _of_dataset(files: Iterable[Path], results: Path, dataset: str | None) -> list[Path]:
    """The files of one data set, or all."""
    return [file for file in files if dataset is None or file.is_relative_to(results / dataset)]


def _is_manifest(path: Path) -> bool:
    return path.name.endswith(SUFFIX)


def _unread(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return str(error.strerror)
    return f"cannot be read ({error.strerror})"


def _fault(path: Path, digest: str) -> str | None:
    """What is wrong with the bytes at `path`."""
    try:
        return None if sha256_file(path) == digest else OTHER_BYTES
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return _unread(error)


def stale(records: Mapping[Path, Record], bad: Mapping[Path, str], current: Current) -> list[Finding]:
    """The stale results, by manifest: by themselves, or by an input, however far above.

    `bad` has the files that make what is made from them stale, with the reason.
    """
    maker = {output: path for path, record in records.items() for output in record.outputs}
    made_from: dict[Path, list[Path]] = {}
    for path, record in records.items():
        for file in record.inputs:
            made_from.setdefault(file, []).append(path)
    reasons = {
        path: "; ".join(current[str(path)]["changes"])
        if str(path) in current
        else "was written after the check began"
        for path in records
    }
    found = {path for path in records if reasons[path]}
    waiting = [*bad, *(output for path in found for output in records[path].outputs)]
    while waiting:
        for path in set(made_from.get(waiting.pop(), [])) - found:
            found.add(path)
            waiting += records[path].outputs

    def reason(path: Path) -> str:
        file = next(file for file in records[path].inputs if file in bad or maker.get(file) in found)
        return f"made from {file}, which is {bad.get(file, 'stale')}"

    return [Finding("stale", path, reasons[path] or reason(path)) for path in records if path in found]
