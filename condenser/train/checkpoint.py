"""Checkpoints of a training in its work folder, and the lock that keeps a second process out.

A work folder holds

- `lock`: who works here (host and process id), held by `flock` while the process lives;
- `log.jsonl`: one line a step, holding nothing that differs between two runs;
- `step-00001234/`: the state after 1,234 steps: `weights.safetensors`, `optimiser.safetensors` and
  `meta.json` with the digests of both, of the log up to there and of itself. Only what cannot be
  computed from the step is kept: order, masks and dropout are functions of (seed, step), frozen
  weights are those the training began with.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from condenser.files import (
    atomic_folder,
    canonical_json,
    full_disk_named,
    read_json,
    sha256_file,
    sha256_text,
    write_json,
)

log = logging.getLogger(__name__)

LOG_NAME = "log.jsonl"
_TENSOR_FILES = ("weights.safetensors", "optimiser.safetensors")


@dataclass(frozen=True)
class LogPosition:
    """How far a log had come: its bytes and their SHA-256."""

    num_bytes: int
    sha256: str


@dataclass(frozen=True)
class Checkpoint:
    """The state after `step` steps; `state` holds the loop's few plain values."""

    step: int
    weights: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    state: dict[str, Any]
    log: LogPosition


class StepLog:
    """The training log, one JSON object a line, continued from where a checkpoint left it.

    What follows `num_bytes` (0: everything) belongs to steps that are taken again and is cut off,
    so that a resumed training leaves the same bytes as one that was never interrupted.
    """

    def __init__(self, path: str | Path, *, num_bytes: int) -> None:
        self._digest = hashlib.sha256(_first_bytes(Path(path), num_bytes))
        self._num_bytes = num_bytes
        self._file = Path(path).open("ab")  # noqa: SIM115 - open as long as the training runs
        self._file.truncate(num_bytes)

    def append(self, record: Mapping[str, Any]) -> None:
        line = canonical_json(dict(record)).encode() + b"\n"
        self._file.write(line)
        self._file.flush()  # so that it can be followed while the training runs
        self._digest.update(line)
        self._num_bytes += len(line)

    def position(self) -> LogPosition:
        """The position after what is safely on disk."""
        os.fsync(self._file.fileno())
        return LogPosition(self._num_bytes, self._digest.hexdigest())

    def close(self) -> None:
        self._file.close()


@contextmanager
def locked_work_folder(folder: str | Path) -> Iterator[Path]:
    """The work folder, made if need be and held against every other process until the block ends.

    The lock goes with the process, however it dies; the file stays and tells who held it last.

    Raises:
        ValueError: another living process holds the folder.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "lock"
    with full_disk_named(folder), path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read().strip() or "an unknown process"
            raise ValueError(
                f"{path}:1: expected a free work folder, but {holder} is at work in it. "
                "Wait until it ends, or end it; it will resume where it stopped."
            ) from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        for partial in folder.glob(".*"):  # what a killed process left half-written
            if partial.is_dir():
                shutil.rmtree(partial)
        yield folder


def save_checkpoint(work_folder: str | Path, checkpoint: Checkpoint, *, fingerprint: str, keep: int) -> Path:
    """Write the state after `checkpoint.step` steps as a folder that appears whole; gives the folder.

    Then remove all but the newest `keep`, and any that claims a later step: after a fall back to an
    older checkpoint those belong to a past that is being rewritten.
    """
    if keep < 1:
        raise ValueError(f"checkpoints_kept: expected 1 or more, got {keep}.")
    work_folder = Path(work_folder)
    final = work_folder / f"step-{checkpoint.step:08d}"
    with atomic_folder(final) as folder:
        for name, tensors in zip(_TENSOR_FILES, (checkpoint.weights, checkpoint.optimiser), strict=True):
            on_cpu = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
            save_file(on_cpu, folder / name)
        record = {
            "step": checkpoint.step,
            "fingerprint": fingerprint,
            "state": checkpoint.state,
            "log": asdict(checkpoint.log),
            "digests": {name: sha256_file(folder / name) for name in _TENSOR_FILES},
        }
        write_json(folder / "meta.json", {**record, "sha256": sha256_text(canonical_json(record))})
    older = [folder for folder in _checkpoint_folders(work_folder) if folder.name < final.name]
    later = [folder for folder in _checkpoint_folders(work_folder) if folder.name > final.name]
    for stale in older[keep - 1 :] + later:
        _remove(stale)
    return final


def load_newest_checkpoint(
    work_folder: str | Path, *, fingerprint: str, device: torch.device | str
) -> Checkpoint | None:
    """The newest checkpoint whose files are what was written; None where there is none.

    A damaged one is named in the log and passed over for the one before.

    Raises:
        ValueError: a checkpoint in the folder was made under another fingerprint.
    """
    for folder in _checkpoint_folders(Path(work_folder)):
        try:
            checkpoint, found = _load(folder, device)
        except (ValueError, KeyError, TypeError, OSError, SafetensorError) as error:
            log.warning("%s is damaged (%s): going back to the checkpoint before it", folder, error)
            continue
        if found != fingerprint:
            raise ValueError(
                f"{folder / 'meta.json'}: expected a checkpoint of this very training "
                f"({fingerprint[:16]}), got one of another ({found[:16]}). Remove it, or use another folder."
            )
        return checkpoint
    return None


def remove_checkpoints(work_folder: str | Path) -> None:
    """Remove all checkpoints; log and lock stay."""
    for folder in _checkpoint_folders(Path(work_folder)):
        _remove(folder)


def _checkpoint_folders(work_folder: Path) -> list[Path]:
    """Newest first; a file of such a name, or a copy with another ending, is none."""
    folders = work_folder.glob("step-" + 8 * "[0-9]")
    return sorted((folder for folder in folders if folder.is_dir()), reverse=True)


def _remove(folder: Path) -> None:
    if folder.is_symlink():  # moved to a larger disk by hand
        folder.unlink()
    else:
        shutil.rmtree(folder)


def _load(folder: Path, device: torch.device | str) -> tuple[Checkpoint, str]:
    meta = _read_meta(folder / "meta.json")
    for name in _TENSOR_FILES:
        if sha256_file(folder / name) != meta["digests"][name]:
            raise ValueError(f"{name} has not the digest it was written with")
    if folder.name != f"step-{meta['step']:08d}":
        raise ValueError(f"meta.json is of step {meta['step']}")
    position = LogPosition(**meta["log"])
    logged = _first_bytes(folder.parent / LOG_NAME, position.num_bytes)
    if hashlib.sha256(logged).hexdigest() != position.sha256:
        raise ValueError(f"{LOG_NAME} does not begin as it did then")
    weights, optimiser = (load_file(folder / name, device=str(device)) for name in _TENSOR_FILES)
    return Checkpoint(meta["step"], weights, optimiser, meta["state"], position), meta["fingerprint"]


def _read_meta(path: Path) -> dict[str, Any]:
    """What `save_checkpoint` wrote there.

    Raises:
        ValueError, KeyError, TypeError: a byte of it is another.
    """
    meta = read_json(path)
    digest = meta["sha256"]
    record = {key: value for key, value in meta.items() if key != "sha256"}
    if digest != sha256_text(canonical_json(record)):
        raise ValueError(f"{path.name} has not the digest it was written with")
    if path.read_bytes() != canonical_json(meta, indent=2).encode() + b"\n":  # also a space counts
        raise ValueError(f"{path.name} is not laid out as it was written")
    return record


def _first_bytes(path: Path, count: int) -> bytes:
    if count == 0:
        return b""
    with path.open("rb") as file:
        return file.read(count)
