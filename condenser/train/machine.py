"""What a program does around a training: device, precision, determinism, processes, manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from condenser.manifest import Manifest
from condenser.model.devices import set_up
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
    compute = set_up(device=device, precision=precision, threads=threads)
    with joined(compute.device.type, timeout_s=TIMEOUT_S) as processes:
        yield Machine(processes, compute.precision, str(compute))


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
