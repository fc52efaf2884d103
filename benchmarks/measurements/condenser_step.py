"""A step of Condenser pre-training against the plain way, and the share of it that waits for data."""

from __future__ import annotations

import logging
import sys
from typing import Any

from measuring import Form, line
from stepping import lines_of_steps, step_settings, write_step_inputs
from steps import as_read

from condenser import kinds
from condenser.train.loop import Run, train_to_folder, training_machine
from condenser.train.pretrain import pretraining


def measure(form: Form) -> list[dict[str, Any]]:
    """Two kinds of lengths, then our steps alone."""
    settings = step_settings("condenser", long=form.long)
    lines = []
    for collection, called in (("msmarco", "MS MARCO's lengths"), ("full", "128 tokens each")):
        what, count = f"Condenser step, {called}", form.size(3, 20)
        lines += lines_of_steps(form, what, "condenser", collection, settings, count=count, goal=2.5)
    note = "without the plain way in between; the first batch, for which all wait, included"
    share = _waiting(form, settings)
    what = "waiting for data in a Condenser step"
    return [*lines, line(what, "%", share, better="less", most=2.0, note=note)]


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
    num_rows = form.size(6, 50) * settings["batch_size"]
    folder = write_step_inputs(form, "condenser", "msmarco", num_rows=num_rows)
    tokens, doc_ids = folder / "condenser.0-of-1", folder / "condenser.doc_ids.txt"
    objective = kinds.load("objectives", "condenser").training
    with training_machine(device=form.device, precision="auto", threads=form.threads) as machine:
        run = Run(
            as_read({**settings, "epochs": 1, "updates": None}), seed=0, precision=machine.precision,
            processes=machine.processes, fingerprint="waiting", work_folder=folder / "work",
            checkpoint_every_s=sys.maxsize, checkpoints_kept=1, bad_loss_patience=0,
        )  # fmt: skip
        training = pretraining(
            objective, [tokens], folder / "backbone", run, title="condenser", doc_ids=doc_ids
        )
        train_to_folder(training, run, folder / "model")
    log.removeFilter(read)
    return said[0]
