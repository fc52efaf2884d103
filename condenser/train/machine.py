"""What a program does around a training: device, precision, determinism, processes, manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from condenser.job import Job
from condenser.model.devices import set_up
from condenser.train.distributed import Processes, joined
from condenser.train.loop import Run, Trained

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
    job: Job, settings: Trained, train: Callable[[Run[Trained]], dict[str, int]]
) -> dict[str, int]:
    """Do a training job on this machine; gives its counts.

    Args:
        settings: the recipe, or the model's entry.
        train: trains, writes the model and gives counts.
    """
    options = job.options
    with training_machine(**vars(job.settings.compute)) as machine:
        job.device = machine.device_name
        return train(
            Run(
                settings,
                job.settings.seed,
                machine.precision,
                machine.processes,
                job.manifest.fingerprint,
                job.work_folder,
                options.checkpoint_every_s,
                options.checkpoints_kept,
                options.bad_loss_patience,
            )
        )
