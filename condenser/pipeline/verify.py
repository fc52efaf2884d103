"""Check every file of a results folder against its manifest and the current configuration.

The check needs the manifests alone, so it also works where `.snakemake/` is lost. Paths are compared as they
are written, so that a folder may be a link to another disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from condenser.files import sha256_file
from condenser.manifest import OTHER_BYTES, SUFFIX, Record, read_manifest
from condenser.pipeline.specs import differences
from condenser.progress import track

# Not results: records of jobs, by their place; Snakemake's mark in a folder, by its name.
_NO_RESULT_FOLDERS = (".work", "logs")  # of results/
_NO_RESULT_PARTS = ("logs", "benchmarks")  # of a data set, and of the downloads
_NO_RESULT_NAMES = (".snakemake_timestamp",)

_MISSING = "is missing"

Current = Mapping[str, Mapping[str, Any]]
"""By manifest: `spec` and `place` of its job today, or `error`; `condenser.pipeline.current` writes it."""


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
    files = list(walk(results, findings))
    if not files and not findings:
        raise ValueError(f"{results}: expected results to check, found none. Is this the right folder?")
    records: dict[Path, Record] = {}
    for path in files:
        if path.name.endswith(SUFFIX):
            try:
                records[path] = record = read_manifest(path)
            except ValueError as error:
                findings.append(Finding("damaged", path, str(error)))
                continue
            place = current.get(str(path), {}).get("place", str(path))
            if os.path.normpath(place) != str(path):
                del records[path]
                findings.append(Finding("unknown", path, f"expected at {place}"))
    known, damaged = set(), set()
    for record in track(records.values(), "verify", total=len(records), unit="manifests"):
        for path, digest in record.outputs.items():
            known.add(path)
            fault = _fault(path, digest)
            if fault is not None:
                damaged.add(path)
                findings.append(Finding("damaged", path, fault))
    stale = _stale(records, damaged, results, current)
    findings.extend(Finding("stale", path, reason) for path, reason in stale.items())
    for path in files:
        if not path.name.endswith(SUFFIX) and path not in known:
            findings.append(Finding("unknown", path, "no sound manifest in its place names it"))
    return len(known), findings


def walk(results: Path, findings: list[Finding]) -> Iterator[Path]:
    """All files below `results` that are results, also those in linked folders.

    What cannot be walked is added to `findings`.
    """

    def files_in(folder: Path, above: tuple[str, ...]) -> Iterator[Path]:
        here = os.path.realpath(folder)
        if here in above:
            findings.append(Finding("unknown", folder, "links to a folder that it lies in"))
            return
        try:
            with os.scandir(folder) as entries:
                paths = sorted(Path(entry.path) for entry in entries)
            found = [(path, path.is_dir()) for path in paths]
        except OSError as error:
            findings.append(Finding("damaged", folder, f"cannot be read ({error.strerror})"))
            return
        for path, is_folder in found:
            if _is_result(path.relative_to(results).parts, is_folder=is_folder):
                if is_folder:
                    yield from files_in(path, (*above, here))
                else:
                    yield path

    if results.exists():
        yield from files_in(results, ())


def _is_result(parts: tuple[str, ...], *, is_folder: bool) -> bool:
    if is_folder:
        is_record = (len(parts) == 1 and parts[0] in _NO_RESULT_FOLDERS) or (
            len(parts) == 2 and parts[1] in _NO_RESULT_PARTS
        )
        return not is_record
    return parts[-1] not in _NO_RESULT_NAMES and parts != ("README.md",)


def _fault(path: Path, digest: str) -> str | None:
    """What is wrong with the bytes at `path`."""
    try:
        if not path.is_file():
            return _MISSING
        return None if sha256_file(path) == digest else OTHER_BYTES
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _stale(
    records: dict[Path, Record], damaged: set[Path], results: Path, current: Current
) -> dict[Path, str]:
    """Why each stale result is stale, by manifest: by itself, or by an input, however far above."""
    makers = {output: path for path, record in records.items() for output in record.outputs}
    below: dict[Path, list[tuple[Path, Path]]] = {}  # by manifest: what is made from its outputs, and which
    stale: dict[Path, str] = {}
    for path, record in records.items():
        changed = _changed(record.spec, current.get(str(path), {}))
        reasons = [changed] if changed else []
        made_from = []
        for file, digest in record.inputs.items():
            maker = makers.get(file, file)  # a plan is made from manifests themselves
            below.setdefault(maker, []).append((path, file))
            fate = _fate(file, digest, records.get(maker), damaged, results)
            if fate is not None:
                made_from.append(f"made from {file}, which {fate}")
        if made_from:
            others = f" (and {len(made_from) - 1} more such inputs)" if len(made_from) > 1 else ""
            reasons.append(made_from[0] + others)
        if reasons:
            stale[path] = "; ".join(reasons)
    waiting = list(stale)
    for above in waiting:  # it grows
        for path, file in below.get(above, []):
            if path not in stale:
                stale[path] = f"made from {file}, which is stale"
                waiting.append(path)
    return stale


def _fate(file: Path, digest: str, maker: Record | None, damaged: set[Path], results: Path) -> str | None:
    """What has happened to an input since it was read, if it is a result that changed."""
    if maker is not None and file in maker.outputs:
        if maker.outputs[file] != digest:
            return "was made again since, with other bytes"
        return "is damaged" if file in damaged else None
    if not file.is_relative_to(results):
        return None  # the user's own, which the spec tells of
    fault = _fault(file, digest)
    if fault == _MISSING:
        return None  # cleared away together with its manifest
    if fault is not None:
        return "has other bytes now"
    is_result = _is_result(file.relative_to(results).parts, is_folder=False)
    return "is of unknown origin" if is_result and maker is None else None


def _changed(spec: dict[str, Any], today: Mapping[str, Any]) -> str | None:
    """Why the current configuration and code would make another result."""
    stage, wildcards = spec["stage"], spec["wildcards"]
    if "spec" not in today:
        why = f" ({today['error']})" if "error" in today else ""
        return f"the configuration no longer has the job {stage} {wildcards}{why}"
    try:
        changed = differences(spec, today["spec"])
    except (ValueError, TypeError, AttributeError) as error:
        return f"the job {stage} {wildcards} cannot be compared with today's ({error})"
    return f"changed since: {', '.join(changed)}" if changed else None
