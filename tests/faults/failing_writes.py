"""A disk that is full from the N-th write on, for one process of a test.

Counted are what Python writes: every write of a buffer to a file, every flush to disk, every rename
and every new folder. Nothing of the product knows of it: `install` replaces the functions of `io` and
`os` in a process that was started for the purpose.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
from typing import Any


class _Disk:
    """Counts writes; from `full_at` on each fails, as on a disk that stays full."""

    def __init__(self, full_at: int) -> None:
        self._full_at, self._count = full_at, 0

    def write(self, name: object) -> None:
        self._count += 1
        if self._count >= self._full_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)


def install(full_at: int) -> None:
    """Let the `full_at`-th write of this process, and all after it, find no space left."""
    disk = _Disk(full_at)
    real_open = io.open

    class File(io.FileIO):
        def write(self, data: Any) -> int:
            disk.write(self.name)
            return super().write(data)

    def open_counted(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **kwargs: Any) -> Any:
        # what is only read, text, unbuffered, or no file of the results stays as it is
        if "b" not in mode or not set(mode) & set("wax+") or not isinstance(file, str | os.PathLike):
            return real_open(file, mode, buffering, *args, **kwargs)
        raw = File(file, mode.replace("b", ""))
        return io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)

    def counted(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            disk.write(str(args[0]))
            return function(*args, **kwargs)

        return call

    io.open = builtins.open = open_counted  # type: ignore[assignment]
    for name in ("fsync", "replace", "rename", "mkdir"):
        setattr(os, name, counted(getattr(os, name)))
