"""What changed between two specs of one job, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from condenser.files import canonical_json

_SAID = {  # by part of a spec; what was edited stands before what follows from it, other parts before all
    "config": "setting {name} of {stage}: {old} -> {new}",
    "code": "module {name}",
    "versions": "package {name}: {old} -> {new}",
    "contents": "file {name}",
    "lineage": "above it: {name}",
}


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What changed between two specs of one job, most telling first.

    Values differ as their JSON does, which is what a spec is compared by: 2 is not 2.0, and a key that
    is absent is not one that is null.
    """
    before, now, order = _leaves(old), _leaves(new), ["", *_SAID]
    changed = {leaf for leaf in {*before, *now} if before.get(leaf) != now.get(leaf)}
    return [
        _SAID.get(part, "{name}: {old} -> {new}").format(
            name=name,
            stage=new.get("stage", ""),
            old=before.get((part, name), "absent"),
            new=now.get((part, name), "absent"),
        )
        for part, name in sorted(changed, key=lambda leaf: (order.index(leaf[0]), leaf[1]))
    ]


def _leaves(spec: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """The values of a spec as JSON, by part and name within it; the part is empty for what has no parts."""
    leaves = {}
    for part, value in spec.items():
        values = _flat(value) if part == "config" else value if part in _SAID else {part: value}
        for name, leaf in values.items():
            leaves[part if part in _SAID else "", name] = canonical_json(leaf)
    return leaves


def _flat(block: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """The leaves of a nested block by dotted key."""
    flat: dict[str, Any] = {}
    for name, value in block.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{above}{name}.")
        else:
            flat[f"{above}{name}"] = value
    return flat
