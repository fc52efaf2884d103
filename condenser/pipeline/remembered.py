"""What was computed from files before, so that a large collection and our own code are read once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from condenser.files import atomic_write, json_bytes, read_json, write_json


class Remembered:
    """Results by file, kept in a JSON file; a result counts only while the file has its size and its times.

    Args:
        place: the JSON file; None remembers within this process alone.
    """

    def __init__(self, place: Path | None) -> None:
        self._place, self._is_changed = place, False
        try:
            self._known = read_json(place) if place else {}
        except (OSError, ValueError):
            self._known = {}

    def of(self, file: Path, compute: Callable[[Path], Any], *, by: Path | None = None) -> Any:
        """`compute(file)`, which JSON can hold, or what it gave before.

        `by` is the file of the code that computes: another code computes again.
        """
        key, state = str(file.absolute()), [_state(file), by and _state(by)]
        if self._known.get(key, [None])[0] != state:
            self._known[key], self._is_changed = [state, compute(file)], True
        return self._known[key][1]

    def write(self) -> None:
        """Write what is new."""
        if self._place and self._is_changed:
            with contextlib.suppress(OSError), atomic_write(self._place, is_synced=False) as opened:
                opened.write(json_bytes(self._known))  # suppressed: results of others, read but not written
            self._is_changed = False


def remembered_by(place: Path, compute: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """`compute` of a file, whose results are kept in the JSON file `place` at once."""
    remembered = Remembered(place)

    def of(file: Path) -> Any:
        value = remembered.of(file, compute)
        remembered.write()
        return value

    return of


def note_origin(place: Path, arguments: Any, files: Iterable[str]) -> None:
    """Note what a result was computed from: arguments, and files or folders, which need not exist."""
    write_json(place, {"arguments": arguments, "states": _states(files)})


def has_origin(place: Path, arguments: Any) -> bool:
    """Whether a result would be computed from the same today as `note_origin` noted."""
    try:
        noted = read_json(place)
    except (OSError, ValueError):
        return False
    return bool(noted == {"arguments": arguments, "states": _states(noted["states"])})


def _states(files: Iterable[str]) -> dict[str, list[int] | None]:
    return {file: _state(Path(file)) if Path(file).exists() else None for file in sorted(files)}


def _state(file: Path) -> list[int]:
    status = file.stat()
    # the system's own time too, which nobody sets back
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]
