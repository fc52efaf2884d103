"""Today's spec of every result that lies there, for `verify`, which runs in another process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from condenser.files import write_json
from condenser.manifest import SUFFIX, read_manifest
from condenser.pipeline.specs import Specs
from condenser.pipeline.verify import walk


def write_current(
    results: Path, work: Path, *, specs: Specs, manifest_of: Callable[[str, dict[str, str]], str]
) -> str:
    """Write the spec of today, and the place, of the job of every manifest under `results`; gives the file.

    A job that the configuration no longer has stands there with the reason.
    """
    current: dict[str, dict[str, Any]] = {}
    for path in walk(results, []):
        if not path.name.endswith(SUFFIX):
            continue
        try:
            spec = read_manifest(path).spec
        except ValueError:
            continue  # verify says so itself
        stage, wildcards = spec["stage"], spec["wildcards"]
        try:
            current[str(path)] = {
                "spec": specs.spec(stage, wildcards),
                "place": manifest_of(stage, wildcards),
            }
        except (LookupError, ValueError, OSError, SystemExit) as error:  # the last is said by a rule
            current[str(path)] = {"error": str(error)}
    file = work / "current.json"
    write_json(file, current)
    return str(file)
