"""Stale locks: Snakemake's own lock files, removed where the Snakemake that set them was killed."""

from __future__ import annotations

import fcntl
import logging
import socket
from pathlib import Path
from typing import IO

from condenser.files import open_no_link

log = logging.getLogger(__name__)


def join_folder(snakemake_folder: Path) -> IO[str] | None:
    """Register a Snakemake in this folder, and remove the lock files of those that were killed.

    Snakemake locks a folder by files. A killed Snakemake leaves them, and every later run stops until
    somebody unlocks. So each run also holds a lock of the system, shared with other runs, which ends with
    its process. Where nobody else holds it, the lock files are stale; unless another machine worked here
    last, whose locks this machine may not see.

    Returns the open file that holds the lock, to be kept open; None where the file system has no locks.
    There, and after a run on another machine, use `snakemake --unlock`.

    Raises:
        OSError: nothing can be written there.
    """
    snakemake_folder.mkdir(exist_ok=True)
    file = open_no_link(snakemake_folder / "machines", "a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove_stale_locks(file, snakemake_folder / "locks")
    except BlockingIOError:
        pass  # another run is alive
    except OSError:
        file.close()
        return None
    fcntl.flock(file, fcntl.LOCK_SH)
    file.write(f"{socket.gethostname()}\n")
    file.flush()
    return file


def _remove_stale_locks(machines: IO[str], folder: Path) -> None:
    locks = sorted(folder.glob("*.lock"))
    machines.seek(0)
    others = {line.strip() for line in machines} - {socket.gethostname()}
    if locks and others:
        log.warning("%s: set on %s: if no Snakemake runs there, use --unlock", locks[0], others.pop())
        return
    for lock in locks:
        log.warning("%s: removed: the Snakemake that locked this folder was killed", lock)
        lock.unlink()
    machines.truncate(0)
