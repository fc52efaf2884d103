"""A step of Condenser pre-training against the plain way, and the share of it that waits for data."""

from __future__ import annotations

import logging
import sys
from typing import Any

from measuring import Form, line
from stepping import lines_of_steps, step_settings, steps_in_turn, write_step_inputs

from condenser import kinds
from condenser.train.loop import Run
from condenser.train.machine import training_machine
from condenser.train.pretrain import pretrain


def measure(form: Form) -> list[dict[str, Any]]:
    """Two kinds of lengths, then our steps alone."""
    settings = step_settings("condenser", long=form.long)
    count = settings["batch_size"]
    lines = []
    for collection, called in (("msmarco", "MS MARCO's lengths"), ("full", "128 tokens each")):
        steps = steps_in_turn(form, "condenser", collection, settings, count=form.size(3, 20))
        lines += lines_of_steps(
            f"Condenser step, {called}",
            steps,
            least_ratio=2.5,
            note=f"{count} blocks of {steps.tokens / count:.0f} tokens",
        )
    lines.append(
        line(
            "waiting for data in a Condenser step",
            "%",
            _waiting(form, settings),
            better="less",
            most=2.0,
            note="without the plain way in between; the first batch, for which all wait, included",
        )
    )
    return lines


def _waiting(form: Form, settings: dict[str, Any]) -> float:
    """Per cent of the time of a short training, as its loop logs it."""
    said: list[float] = []

    def read(record: logging.LogRecord) -> bool:
        if "waiting for data" in str(record.msg) and isinstance(record.args, tuple):
            said.append(float(record.args[2]))
        return True

    log = logging.getLogger("condenser.train.loop")
    log.setLevel(logging.INFO)
    log.addFilter(read)
    count = form.size(6, 50)
    folder = write_step_inputs(form, "condenser", "msmarco", num_rows=count * settings["batch_size"])
    objective = kinds.load("objectives", "condenser").training
    with training_machine(device=form.device, precision="auto", threads=form.threads) as machine:
        run = Run(
            {**settings, "epochs": 1, "updates": None},
            seed=0,
            precision=machine.precision,
            processes=machine.processes,
            fingerprint="waiting",
            work_folder=folder / "work",
            checkpoint_every_s=sys.maxsize,
            checkpoints_kept=1,
            bad_loss_patience=0,
        )
        pretrain(
            objective,
            [folder / "condenser.0-of-1"],
            folder / "backbone",
            folder / "model",
            run,
            title="condenser",
            doc_ids=folder / "condenser.doc_ids.txt",
        )
    log.removeFilter(read)
    return said[0]
