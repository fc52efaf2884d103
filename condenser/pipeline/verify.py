"""Re-check every artefact of a results folder against its manifest and the current configuration.

The manifests are enough: the check does not need Snakemake's own metadata, so it also speaks when
`.snakemake/` is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from condenser.files import canonical_json, json_bytes, read_json, sha256_file, sha256_text
from condenser.pipeline.specs import differences
from condenser.progress import track

SUFFIX = ".manifest.json"
# No results: records of how jobs went, by their place; Snakemake's mark in a folder, and an empty file that
# stands for all token shards, by their names.
_NO_RESULT_FOLDERS = (".work", "logs")  # of results/
_NO_RESULT_PARTS = ("logs", "benchmarks")  # of a data set, and of the downloads
_NO_RESULT_NAMES = (".snakemake_timestamp", "collection.complete")


@dataclass(frozen=True)
class Finding:
    """One artefact that is not as it should be.

    kind: `damaged` (bytes differ from the manifest's digest, or are gone), `stale` (the current
    configuration or code would make another), `unknown` (no manifest speaks of it).
    """

    kind: str
    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.path}: {self.reason}"


def verify(
    results: Path, *, current: Callable[[str, dict[str, str]], dict[str, Any]]
) -> tuple[int, list[Finding]]:
    """Check all artefacts under `results`; gives how many were checked and what was found.

    Args:
        results: the folder of all results.
        current: the spec that the current configuration gives for (stage, wildcards); raises
            LookupError or ValueError for a job the configuration does not know.
    """
    findings: list[Finding] = []
    digest_of = cache(sha256_file)
    known: set[Path] = set()
    manifests = [path for path in _files(results) if path.name.endswith(SUFFIX)]
    for manifest_path in track(manifests, "verify", total=len(manifests), unit="manifests"):
        try:
            manifest = read_json(manifest_path)
            spec, outputs = manifest["spec"], manifest["outputs"]
            stage, wildcards = spec["stage"], spec["wildcards"]
        except (ValueError, KeyError, TypeError) as error:
            findings.append(Finding("damaged", manifest_path, f"no readable manifest ({error})"))
            continue
        as_written = json_bytes(manifest)
        written = manifest.pop("sha256", None)
        if sha256_text(canonical_json(manifest)) != written or manifest_path.read_bytes() != as_written:
            findings.append(Finding("damaged", manifest_path, "its bytes are not those its stage wrote"))
            continue
        for name, digest in outputs.items():
            path = (manifest_path.parent / name).resolve()
            known.add(path)
            if not path.is_file():
                findings.append(Finding("damaged", manifest_path.parent / name, "is missing"))
            elif digest_of(path) != digest:
                findings.append(
                    Finding("damaged", manifest_path.parent / name, "its bytes are not those its stage wrote")
                )
        findings.extend(_stale(manifest_path, spec, stage, wildcards, current))
        findings.extend(_changed_inputs(manifest_path, manifest, results, digest_of))
    for path in _files(results):
        if not path.name.endswith(SUFFIX) and path.resolve() not in known:
            findings.append(Finding("unknown", path, "no manifest names it"))
    return len(known), findings


def _stale(
    path: Path, spec: dict[str, Any], stage: str, wildcards: dict[str, str], current: Callable
) -> Iterator[Finding]:
    try:
        now = current(stage, wildcards)
    except (LookupError, ValueError):
        yield Finding("stale", path, f"the configuration no longer has the job {stage} {wildcards}")
        return
    changed = differences(spec, now)
    if changed:
        yield Finding("stale", path, f"changed since: {', '.join(changed)}")


def _changed_inputs(
    path: Path, manifest: dict[str, Any], results: Path, digest_of: Callable[[Path], str]
) -> Iterator[Finding]:
    """An input inside the results folder whose own manifest now tells of other bytes."""
    root = results.resolve()
    for name, digest in manifest.get("inputs", {}).items():
        file = (path.parent / name).resolve()
        if file.is_relative_to(root) and file.is_file() and digest_of(file) != digest:
            yield Finding(
                "stale", path, f"its input {path.parent / name} has other bytes than it was made from"
            )


def _files(results: Path) -> list[Path]:
    return sorted(path for path in results.rglob("*") if path.is_file() and _is_result(path, results))


def _is_result(path: Path, results: Path) -> bool:
    parts = path.relative_to(results).parts
    return not (
        parts[0] in _NO_RESULT_FOLDERS
        or (len(parts) > 2 and parts[1] in _NO_RESULT_PARTS)
        or parts[-1] in _NO_RESULT_NAMES
        or parts == ("README.md",)
    )
