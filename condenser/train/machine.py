"""What a program does around a training: device, precision, determinism, processes, manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from condenser.manifest import Manifest
from condenser.model.devices import choose_device, choose_precision, claim_visible_gpus, make_deterministic
from condenser.train.checkpoint import remove_checkpoints
from condenser.train.distributed import Processes, joined
from condenser.train.loop import Run

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


def run_training(
    args: Any,
    *,
    settings: Mapping[str, Any],
    inputs: Sequence[Path],
    train: Callable[[Run], dict[str, int]],
) -> None:
    """Run a training on this machine as its program was asked to, and write its manifest.

    Args:
        args: parsed by `condenser.program.training_parser`.
        settings: the recipe, or the model's entry.
        inputs: all files that the training reads.
        train: trains, writes `args.output` and gives counts.
    """
    config = args.spec["config"]
    manifest = Manifest(args.manifest, args.spec, inputs=inputs)
    work_folder = manifest.own_folder(args.work_folder)
    with training_machine(**config["compute"]) as machine:
        run = Run(
            settings,
            config["seed"],
            machine.precision,
            machine.processes,
            manifest.fingerprint,
            work_folder,
            args.checkpoint_every_s,
            args.checkpoints_kept,
            args.bad_loss_patience,
        )
        counts = train(run)
        if machine.processes.is_first:
            manifest.write(outputs=[args.output], counts=counts, device=machine.device_name)
            remove_checkpoints(work_folder)
