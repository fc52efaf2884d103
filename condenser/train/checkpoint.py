"""Checkpoints of a training in its work folder.

A work folder holds

- `log.jsonl`: one line for each step, the same in every run of the same training;
- `step-00001234/`: the state after 1,234 steps: `weights.safetensors`, `optimiser.safetensors`, and
  `meta.json` with the digests of both and of the log so far. A checkpoint has no order of items, masks or
  dropout: they are functions of (seed, step). It has no frozen weights either.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from condenser.files import (
    atomic_folder,
    canonical_json,
    open_no_link,
    read_json,
    sha256_file,
    write_json,
)

log = logging.getLogger(__name__)

LOG_NAME = "log.jsonl"
_TENSOR_FILES = ("weights.safetensors", "optimiser.safetensors")


@dataclass(frozen=True)
class LogPosition:
    """The length of a log at some time, and the SHA-256 of its content then."""

    num_bytes: int
    sha256: str


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training after `step` steps; `state` holds the loop's own few values."""

    step: int
    weights: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    state: dict[str, Any]
    log: LogPosition

    @classmethod
    def of(
        cls,
        step: int,
        weights: Mapping[str, Tensor],
        optimiser: torch.optim.Optimizer,
        state: dict[str, Any],
        log: StepLog,
    ) -> Checkpoint:
        """The checkpoint of a training: `step` steps are done and logged."""
        moments = {
            f"{name}/{key}": value
            for name, weight in weights.items()
            for key, value in optimiser.state[weight].items()
        }
        return cls(step, dict(weights), moments, state, log.position())

    def restore(self, weights: Mapping[str, Tensor], optimiser: torch.optim.Optimizer) -> None:
        """Put its weights and moments into a model and its optimiser."""
        with torch.no_grad():
            for name, weight in weights.items():
                weight.copy_(self.weights[name])
        for key, value in self.optimiser.items():
            name, _, moment = key.rpartition("/")
            optimiser.state[weights[name]][moment] = value


class StepLog:
    """The training log, one JSON object on each line, continued after its first `num_bytes`.

    What follows these bytes belongs to steps that are computed again, so it is cut off. A resumed
    training leaves the same log as one that was never interrupted.
    """

    def __init__(self, path: Path, *, num_bytes: int) -> None:
        self._path = path
        self._file = open_no_link(path, "ab")  # stays open while the training runs
        self._file.truncate(num_bytes)

    def append(self, record: Mapping[str, Any]) -> None:
        self._file.write(canonical_json(dict(record)).encode() + b"\n")
        self._file.flush()  # so that a user can follow the log during the training

    def position(self) -> LogPosition:
        """The position after all lines, which are now on the disk."""
        os.fsync(self._file.fileno())
        lines = self._path.read_bytes()
        return LogPosition(len(lines), hashlib.sha256(lines).hexdigest())

    def close(self) -> None:
        self._file.close()


def log_totals(*paths: Path) -> dict[str, int]:
    """Sums over training logs: steps, items and tokens (repetitions included), skipped updates.

    They come from the log, so that a resumed training has the sums of an uninterrupted one.
    """
    totals = {"steps": 0, "items_seen": 0, "tokens_seen": 0, "updates_skipped": 0}
    for path in paths:
        with path.open("rb") as file:
            for line in file:
                record = json.loads(line)
                totals["steps"] += 1
                totals["items_seen"] += record["items"]
                totals["tokens_seen"] += record["tokens"]
                totals["updates_skipped"] += record["outcome"] != "updated"
    return totals


def prepare_work_folder(folder: Path) -> None:
    """Make a work folder, or remove from it what a killed process left half-written."""
    folder.mkdir(parents=True, exist_ok=True)
    for partial in folder.glob(".*"):
        if partial.is_dir() and not partial.is_symlink():
            shutil.rmtree(partial)


def save_checkpoint(work_folder: Path, checkpoint: Checkpoint, *, fingerprint: str, keep: int) -> Path:
    """Write a checkpoint, whole or not at all, and remove old ones; gives its folder.

    The newest `keep` checkpoints stay. Checkpoints of later steps are removed too: the training went
    back to an older one and is computing these steps again.
    """
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
        write_json(folder / "meta.json", record)
    older = [folder for folder in _checkpoint_folders(work_folder) if folder.name < final.name]
    later = [folder for folder in _checkpoint_folders(work_folder) if folder.name > final.name]
    for stale in older[keep - 1 :] + later:
        shutil.rmtree(stale)
    return final


def load_newest_checkpoint(
    work_folder: Path, *, fingerprint: str, device: torch.device | str
) -> Checkpoint | None:
    """The newest undamaged checkpoint, or None if there is none.

    A damaged checkpoint is named in the log, and the one before it is used.

    Raises:
        ValueError: the checkpoint has another fingerprint.
    """
    for folder in _checkpoint_folders(work_folder):
        try:
            checkpoint, found = _load(folder, device)
        except (ValueError, KeyError, TypeError, OSError) as error:
            log.warning("%s is damaged (%s): trying the checkpoint before it", folder, error)
            continue
        if found != fingerprint:
            raise ValueError(
                f"{folder / 'meta.json'}: expected a checkpoint of this training ({fingerprint[:16]}), "
                f"got one of another training ({found[:16]}). Remove it, or use another folder."
            )
        return checkpoint
    return None


def _checkpoint_folders(work_folder: Path) -> list[Path]:
    """All checkpoints, newest first; other files and folders of similar names do not count."""
    folders = work_folder.glob("step-" + 8 * "[0-9]")
    return sorted((folder for folder in folders if folder.is_dir()), reverse=True)


def _load(folder: Path, device: torch.device | str) -> tuple[Checkpoint, str]:
    meta = read_json(folder / "meta.json")
    for name in _TENSOR_FILES:
        if sha256_file(folder / name) != meta["digests"][name]:
            raise ValueError(f"{name} has another digest than when it was written")
    position = LogPosition(**meta["log"])
    logged = (folder.parent / LOG_NAME).read_bytes()[: position.num_bytes]
    if hashlib.sha256(logged).hexdigest() != position.sha256:
        raise ValueError(f"{LOG_NAME} was changed")
    weights, optimiser = (load_file(folder / name, device=str(device)) for name in _TENSOR_FILES)
    return Checkpoint(meta["step"], weights, optimiser, meta["state"], position), meta["fingerprint"]
