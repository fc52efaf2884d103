"""What a program does before it trains: device, precision, determinism, processes, loop settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from condenser.model.devices import choose_device, choose_precision, claim_visible_gpus, make_deterministic
from condenser.train.distributed import Processes, joined
from condenser.train.loop import LoopSettings

TIMEOUT_S = 600.0  # more than the first process needs to write a checkpoint of the largest BERT


@dataclass(frozen=True)
class Machine:
    """What a training runs on."""

    processes: Processes
    precision: str
    device_name: str


@contextmanager
def training_machine(*, device: str, precision: str, threads: int) -> Iterator[Machine]:
    """What the config's device and precision mean on this machine, and the processes of the run.

    Raises:
        ValueError: the machine lacks the device or the precision.
    """
    if device != "cpu":
        claim_visible_gpus(count=1)
    chosen = choose_device(device)
    make_deterministic(threads=threads)
    with joined(chosen.type, timeout_s=TIMEOUT_S) as processes:
        name = torch.cuda.get_device_name(processes.device) if chosen.type == "cuda" else "cpu"
        if processes.world_size > 1:
            name = f"{processes.world_size} x {name}"
        yield Machine(processes, choose_precision(precision, processes.device), name)


def loop_settings(
    config: Mapping[str, Any],
    *,
    fingerprint: str,
    checkpoint_every_s: int,
    checkpoints_kept: int,
    bad_loss_patience: int,
) -> LoopSettings:
    """The arguments that every training passes on to `condenser.train.loop.train`."""
    return {
        "learning_rate": config["learning_rate"],
        "weight_decay": config["weight_decay"],
        "warmup_ratio": config["warmup_ratio"],
        "max_grad_norm": config["max_grad_norm"],
        "fingerprint": fingerprint,
        "checkpoint_every_s": checkpoint_every_s,
        "checkpoints_kept": checkpoints_kept,
        "bad_loss_patience": bad_loss_patience,
    }
