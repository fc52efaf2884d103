"""Whether a result is up to date, by what its manifest says.

Snakemake's own records in `.snakemake/` may be lost, or be of another result that stood in the same
place. The manifest stands beside the result and goes where it goes: it has the spec the result was
made by, and the digests of the inputs it was made from.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from condenser.files import canonical_json, read_json, write_json
from condenser.pipeline.specs import differences
from condenser.program import sealed

SUFFIX = ".manifest.json"


class Freshness:
    """The manifests of a results folder, each read once: for one look at all results, not for later ones."""

    def __init__(self) -> None:
        self._records: dict[Path, dict[str, Any] | None] = {}
        self._digests: dict[Path, dict[str, str]] = {}  # by folder: what its manifests say of all outputs
        self._owned: dict[tuple[Path, str], str | None] = {}

    def changes(self, manifest: Path, outputs: Iterable[str], spec: dict[str, Any]) -> list[str]:
        """Why the result is out of date, in words; nothing where it is not, or where there is no result.

        Args:
            manifest: the result's manifest.
            outputs: the files of the result.
            spec: what it would be made by today.
        """
        if not manifest.exists():
            there = next((output for output in outputs if Path(output).exists()), None)
            return [] if there is None else [f"{there} has no manifest"]
        record = self._record(manifest)
        if record is None:
            return [f"{manifest} is damaged"]
        if canonical_json(record["spec"]) != canonical_json(spec):
            return differences(record["spec"], spec) or [f"the spec in {manifest}"]
        return [
            f"{os.path.normpath(manifest.parent / name)} was made again, with other bytes"
            for name, digest in record["inputs"].items()
            if self._digest_now(manifest.parent, name) not in (None, digest)
        ]

    def _record(self, manifest: Path) -> dict[str, Any] | None:
        """The manifest; None where it is not as it was written."""
        if manifest not in self._records:
            self._records[manifest] = None
            try:
                record = read_json(manifest)
                whole = {name: value for name, value in record.items() if name != "sha256"}
                if sealed(whole) == record and isinstance(record["spec"], dict):
                    self._records[manifest] = {name: record[name] for name in ("spec", "inputs", "outputs")}
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                pass
        return self._records[manifest]

    def _digest_now(self, folder: Path, name: str) -> str | None:
        """The digest of an input by the manifest of the result it is of today, if it is of one."""
        key = (folder, name)
        if key not in self._owned:
            path = os.path.normpath(folder / name)
            found = (self._digests_of(above).get(path) for above in Path(path).parents)
            self._owned[key] = next((digest for digest in found if digest is not None), None)
        return self._owned[key]

    def _digests_of(self, folder: Path) -> dict[str, str]:
        if folder not in self._digests:
            self._digests[folder] = {
                os.path.normpath(folder / output): digest
                for manifest in folder.glob(f"*{SUFFIX}")
                if (record := self._record(manifest)) is not None
                for output, digest in record["outputs"].items()
            }
        return self._digests[folder]


def accept(manifest: Path, spec: dict[str, Any]) -> list[str]:
    """Have the result count as made by `spec`; gives what is accepted, which the manifest tells from now on.

    Its inputs stay those it was made from.
    """
    record = read_json(manifest)
    del record["sha256"]
    changed = differences(record["spec"], spec)
    if changed:
        on = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        record["accepted"] = [*record.get("accepted", []), {"changes": changed, "on": on}]
        record["spec"] = spec
        write_json(manifest, sealed(record))
    return changed
