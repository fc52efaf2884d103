"""What a report is made from: the results of a data set that exist, by their manifests.

The workflow writes this as one file (`write_state`), so that a report reads what is there and makes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from condenser.files import canonical_json, read_json, sha256_text, write_json
from condenser.manifest import SUFFIX, manifests_beside, read_manifest, sound_record
from condenser.pipeline.record import TOLD_APART
from condenser.pipeline.verify import SpecOf, current_of, stale

STAGE = "report"  # a report shows all results but reports


@dataclass(frozen=True)
class Result:
    """One result, by its manifest.

    Attributes:
        record: the whole manifest: counts, times, memory, versions.
        changes: why it is out of date; empty where it is not.
    """

    manifest: Path
    rule: str
    wildcards: Mapping[str, str]
    config: Mapping[str, Any]
    inputs: Mapping[Path, str]
    outputs: Mapping[Path, str]
    record: Mapping[str, Any]
    changes: Sequence[str]

    def name(self, dataset: str) -> str:
        """The rule, and what tells its jobs apart but for their shard.

        `dataset` is the one that is spoken of; another one is part of the name.
        """
        keys = (*TOLD_APART, "table", "figure")
        told = [self.wildcards[key] for key in keys if self.wildcards.get(key, dataset) != dataset]
        return " ".join([self.rule, *told])


def manifests_of(results: Path, dataset: str) -> list[Path]:
    """The manifests of a data set's results, and of what they are made from under other data sets."""
    found = {
        Path(folder, name)
        for folder, _, names in os.walk(results / dataset, followlinks=True)
        for name in names
        if name.endswith(SUFFIX) and not name.startswith(".")
    }
    waiting = sorted(found)
    while waiting:
        record = sound_record(waiting.pop())
        for file in record.made_from if record else ():
            if results in file.parents and results / dataset not in file.parents:
                new = set(manifests_beside(file)) - found
                found |= new
                waiting += sorted(new)
    return sorted(found)


def write_state(
    folder: Path,
    results: Path,
    dataset: str,
    *,
    spec_of: SpecOf,
    manifest_of: Callable[[str, dict[str, str]], str],
    could_be_made: Sequence[Mapping[str, str | None]],
) -> str:
    """Write what there is of a data set today; gives the file, whose name follows from its content.

    Args:
        could_be_made: each table and figure of the configuration: its `target`, the `command` that makes it,
            and the `reason` why this data set cannot have it, or None.
    """
    read = {str(path): sound_record(path) for path in manifests_of(results, dataset)}
    found = {path: one for path, one in read.items() if one is None or one.spec.get("rule") != STAGE}
    current = current_of(list(map(Path, found)), spec_of=spec_of, manifest_of=manifest_of)
    records = {Path(path): record for path, record in found.items() if record is not None}
    old = {str(finding.path): finding.reason for finding in stale(records, {}, current)}
    manifests = {
        path: {
            "sha256": sha256_text(Path(path).read_text(errors="replace")),  # a report shows times too
            "changes": current.get(path, {}).get("changes") or [old[path]] if path in old else [],
        }
        for path in found
    }
    state = {"manifests": manifests, "could_be_made": [dict(one) for one in could_be_made]}
    file = folder / f"{dataset}-{sha256_text(canonical_json(state))[:16]}.json"
    write_json(file, state)
    return str(file)


def read_state(file: Path) -> tuple[list[Result], list[str], list[dict[str, Any]]]:
    """The results of a file of `write_state`, what is damaged, and what could be made."""
    state = read_json(file)
    results, damaged = [], []
    for path, said in state["manifests"].items():
        try:
            record = read_manifest(Path(path))
        except ValueError as error:
            damaged.append(f"{path} {error}")
            continue
        gone = [output for output in record.outputs if not output.exists()]
        results.append(
            Result(
                manifest=Path(path),
                rule=record.spec["rule"],
                wildcards=record.spec["wildcards"],
                config=record.spec["config"],
                inputs=record.made_from,
                outputs=record.outputs,
                record=record.whole,
                changes=[*said["changes"], *(f"{output} is missing" for output in gone[:1])],
            )
        )
    return results, damaged, state["could_be_made"]
