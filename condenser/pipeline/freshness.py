"""Whether a result is up to date, by its manifest.

Snakemake's own records in `.snakemake/` may be lost, or speak of another result that lay in the same place.
The manifest lies beside the result and moves with it. It holds the spec that the result was made by, and the
digests of the inputs that it was made from.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from condenser.files import read_json, write_json
from condenser.manifest import SUFFIX, Record, read_manifest, sealed
from condenser.pipeline.differences import differences


class Freshness:
    """The manifests of a results folder, each read once: valid for one look at all results."""

    def __init__(self) -> None:
        self._record, self._digests_in = cache(_sound_record), cache(self._read_digests)

    def changes(self, manifest: Path, outputs: Iterable[str], spec: dict[str, Any]) -> list[str]:
        """Why the result is out of date, in words; empty where it is up to date, or does not exist.

        Args:
            manifest: the result's manifest.
            outputs: the files of the result.
            spec: the spec that it would have today.
        """
        if not manifest.exists():
            there = next((output for output in outputs if Path(output).exists()), None)
            return [] if there is None else [f"{there} has no manifest"]
        record = self._record(manifest)
        if record is None:
            return [f"{manifest} is damaged"]
        return (
            differences(record.spec, spec)
            or _missing_in_part(record)
            or [
                f"{file} was made again, with other bytes"
                for file, digest in record.inputs.items()
                if self._digest_now(file) not in (None, digest)
            ]
        )

    def _digest_now(self, file: Path) -> str | None:
        """The digest of an input by the manifest of the result that it belongs to now, if there is one."""
        return next(filter(None, (self._digests_in(folder).get(file) for folder in file.parents)), None)

    def _read_digests(self, folder: Path) -> dict[Path, str]:
        """What the manifests of a folder say of all outputs."""
        records = filter(None, map(self._record, folder.glob(f"*{SUFFIX}")))
        return {file: digest for record in records for file, digest in record.outputs.items()}


def _sound_record(manifest: Path) -> Record | None:
    try:
        return read_manifest(manifest)
    except ValueError:
        return None


def _missing_in_part(record: Record) -> list[str]:
    """The files that a result lacks; none where it was cleared away as a whole."""
    missing = [file for file in record.outputs if not file.exists()]
    return [f"{file} is missing" for file in missing] if len(missing) < len(record.outputs) else []


def accept(manifest: Path, spec: dict[str, Any]) -> list[str]:
    """Let the result count as made by `spec`; returns the differences, which the manifest records.

    Its inputs stay those that it was made from.
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
