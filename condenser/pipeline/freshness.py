"""Whether a result is up to date, by its manifest, and what changed if it is not.

Snakemake's own records in `.snakemake/` may be lost, or speak of another result that lay in the same place.
The manifest lies beside the result and moves with it. It holds the spec that the result was made by, and the
digests of the inputs that it was made from.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from condenser.files import canonical_json, read_json, sha256_file, write_json
from condenser.manifest import SUFFIX, record_of, sealed, sound_record
from condenser.program import printable

_SAID = {  # by part of a spec; what was edited stands before what follows from it, other parts before all
    "config": "setting {name} of {rule}: {old} -> {new}",
    "code": "module {name}",
    "versions": "package {name}: {old} -> {new}",
    "contents": "file {name}",
    "lineage": "above it: {name}",
}
_FOLLOWS = "above it: "
_LONGEST = 150  # characters of an edit in a summary; the reason of each job has all of it


class Freshness:
    """The manifests of a results folder, each read once: valid for one look at all results."""

    def __init__(self) -> None:
        self._record = cache(sound_record)
        self._maker = cache(lambda file: record_of(file, self._record))

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
        if changed := differences(record.spec, spec):
            return changed
        missing = [file for file in record.outputs if not file.exists()]
        if 0 < len(missing) < len(record.outputs):  # not cleared away as a whole
            return [printable(f"{file} is missing") for file in missing]
        return [
            printable(f"{file} was made again, with other bytes")
            for file, digest in record.inputs.items()
            if self._digest(file) not in (None, digest)
        ]

    def _digest(self, file: Path) -> str | None:
        """What its maker says of a result, and the digest of a manifest; None of any other file."""
        if file.name.endswith(SUFFIX):  # a record is made from manifests themselves
            return sha256_file(file) if file.is_file() else None
        maker = self._maker(file)
        return maker.outputs[file] if maker else None


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What changed between two specs of one job, most telling first.

    Values differ as their JSON does, which is what a spec is compared by: 2 is not 2.0, and a key that
    is absent is not one that is null.
    """
    before, now, order = _leaves(old), _leaves(new), ["", *_SAID]
    changed = {leaf for leaf in {*before, *now} if before.get(leaf) != now.get(leaf)}
    return [
        printable(
            _SAID.get(part, "{name}: {old} -> {new}").format(
                name=name,
                rule=new.get("rule", ""),
                old=before.get((part, name), "absent"),
                new=now.get((part, name), "absent"),
            )
        )
        for part, name in sorted(changed, key=lambda leaf: (order.index(leaf[0]), leaf[1]))
    ]


def edits(changes: Iterable[tuple[str, Sequence[str]]], *, most: int) -> list[str]:
    """What was edited, a line each with the rules that it concerns; what only follows from it is left out.

    Args:
        changes: of each job that must run, its rule and what `Freshness.changes` says.
        most: the number of lines; of the others a last one says how many there are.

    >>> edits([("train", ["setting seed of train: 1 -> 2", "above it: tokens"])], most=5)
    ['setting seed: 1 -> 2 (train)']
    """
    rules: dict[str, set[str]] = {}
    for rule, texts in changes:
        for text in texts:
            if not text.startswith(_FOLLOWS):
                rules.setdefault(text.replace(f" of {rule}: ", ": ", 1), set()).add(rule)
    kinds = [text.partition(" ")[0] for text in _SAID.values()]
    order = {kind: number for number, kind in enumerate(kinds)}
    told = sorted(rules, key=lambda text: (order.get(text.partition(" ")[0], len(order)), text))
    lines = [
        f"{text if len(text) <= _LONGEST else text[:_LONGEST] + ' ...'} ({', '.join(sorted(rules[text]))})"
        for text in told[:most]
    ]
    return lines + [f"and {len(told) - most} more"] * (len(told) > most)


def _leaves(value: Any, *above: str) -> dict[tuple[str, str], str]:
    """The values of a spec as JSON, by part (empty for a value without parts) and dotted name within it."""
    part, *names = above or ("",)
    if isinstance(value, Mapping) and (not above or (part in _SAID and (value or not names))):
        inner = (_leaves(item, *above, name) for name, item in value.items())
        return {leaf: text for leaves in inner for leaf, text in leaves.items()}
    return {(part, ".".join(names)) if part in _SAID else ("", part): canonical_json(value)}


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
