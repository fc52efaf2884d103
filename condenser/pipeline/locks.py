"""Snakemake's own lock, taken off where the Snakemake that set it was killed."""

from __future__ import annotations

import fcntl
import logging
import socket
from pathlib import Path
from typing import IO

log = logging.getLogger(__name__)


def join_folder(snakemake_folder: Path) -> IO[str] | None:
    """Note that a Snakemake works in this folder, and take off the locks of those that were killed.

    Snakemake locks a folder by files, which outlive it when it is killed; every later run then stops
    until somebody unlocks. Each run here also holds a lock of the system's, shared with other runs,
    which ends with its process. Where nobody else holds one, the files that lie there are stale;
    unless another machine was at work here last, whose locks may be out of this one's sight.

    Gives the open file that holds the lock, to be kept; None where the file system has no locks. Then,
    and after another machine, `snakemake --unlock` remains.
    """
    snakemake_folder.mkdir(exist_ok=True)
    file = (snakemake_folder / "machines").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _take_off_stale_locks(file, snakemake_folder / "locks")
    except BlockingIOError:
        pass  # another run lives
    except OSError:
        file.close()
        return None
    fcntl.flock(file, fcntl.LOCK_SH)
    file.write(f"{socket.gethostname()}\n")
    file.flush()
    return file


def _take_off_stale_locks(machines: IO[str], folder: Path) -> None:
    locks = sorted(folder.glob("*.lock"))
    machines.seek(0)
    others = {line.strip() for line in machines} - {socket.gethostname()}
    if locks and others:
        log.warning("%s: set on %s: see that no Snakemake runs there, then --unlock", locks[0], others.pop())
        return
    for lock in locks:
        log.warning("%s: removed, the Snakemake that locked this folder was killed", lock)
        lock.unlink()
    machines.truncate(0)
