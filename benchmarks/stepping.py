"""Our pre-training steps and the plain way's, in turn on the same batches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np
import torch
from measuring import Form, Operators, load_config, seconds_of
from plain import PlainCondenser, PlainStep, padded_texts, same_losses
from random_inputs import write_random_tokens
from steps import LEFT_OUT, TABLES, flops_of, settings_of, shape_of
from watched_stages import run_updates

from condenser import kinds
from condenser.model.pretraining import Condenser
from condenser.pipeline.costs.measure import measure_device
from condenser.pipeline.costs.tables import Tables
from condenser.pipeline.costs.texts import Texts, assumed_texts
from condenser.train.loop import StepRecord
from condenser.train.machine import training_machine

WIDTH = 128  # of the longest block: 126 tokens, with [CLS] and [SEP]
PAPERS_FORM: dict[str, dict[str, Any]] = {  # of objectives whose default differs for a trained encoder
    "condenser": {},
    "cocondenser": {"mlm_weight": 1.0, "gradient_cache": "always"},
}


class Steps(NamedTuple):
    """Medians of steps on the same batches."""

    tokens: float  # with specials, without padding
    seconds: float
    plain_seconds: float
    limit_seconds: float  # our matrix products at the peak rate of one large product
    precision: str
    profile: str  # of one of ours


def texts_of(collection: str) -> Texts:
    """Lengths as a row of collections.tsv states them; `full`: every text is one block of 126 tokens."""
    if collection == "full":
        return Texts([[0, WIDTH - 2]], 1, 7)
    row = Tables(TABLES).row("collections", collection) | {"title_tokens": "0"}
    return assumed_texts(row, 1, why="a benchmark")


def write_step_inputs(form: Form, stage: str, collection: str, *, num_rows: int) -> Path:
    """The folder that `watched_stages.run_updates` reads, with random tokens of such lengths."""
    folder = Path(mkdtemp(prefix=f"{stage}-{collection}-", dir=form.work))
    (folder / "backbone").symlink_to(form.inputs.absolute() / "cls")
    write_random_tokens(folder, f"{stage}.0-of-1", texts_of(collection), num_rows, np.random.default_rng(0))
    (folder / f"{stage}.doc_ids.txt").write_text("".join(f"{row}\n" for row in range(num_rows)))
    return folder


def step_settings(stage: str, *, long: bool, **changed: Any) -> dict[str, Any]:
    """The settings of an objective in the papers' form, at the default's sizes or at the papers'."""
    config = load_config([Path("configs/paper.yaml")] if long else [])
    return {**settings_of(stage, config, "msmarco"), **PAPERS_FORM[stage], **changed}


def steps_in_turn(
    form: Form,
    stage: str,
    collection: str,
    settings: Mapping[str, Any],
    *,
    count: int,
    left_out: int = LEFT_OUT,
) -> Steps:
    """Time `count` of our steps and of the plain way's; the first `left_out` of each do not count.

    Raises:
        AssertionError: the two do not compute the same losses.
    """
    folder = write_step_inputs(form, stage, collection, num_rows=4 * count * settings["batch_size"])
    shape = shape_of(folder, settings)
    width = kinds.load("objectives", stage).longest_row(settings)[1] + 2
    head = settings.get("new_head") or settings
    model = Condenser.load(
        folder / "backbone",
        num_head_layers=head["num_head_layers"],
        skip_from=head["skip_from"],
        use_late_mlm=True,
        missing_head="random",
        seed=0,
        dropout=None,
    )
    plain, plain_seconds, profile = PlainCondenser(model), [], Operators()
    with training_machine(device=form.device, precision="auto", threads=form.threads) as machine:
        place = machine.processes.device
        step = PlainStep(
            plain, device=place, precision=machine.precision, rows_per_chunk=settings["rows_per_chunk"]
        )

        def plain_step(record: StepRecord) -> None:
            chunks = record.batch.content.chunks
            if record.step == 0:
                same_losses(model, plain.cpu(), chunks[-1])
                plain.to(place).train()
            texts = padded_texts(chunks, width=width, device=place)
            if record.step < left_out:  # two rows of it are enough to warm up
                getattr(step, stage)(texts.split(2)[0])
            else:
                plain_seconds.append(seconds_of(lambda: getattr(step, stage)(texts), clock=form.clock))

        updates = run_updates(
            stage,
            folder,
            settings,
            machine,
            count=count,
            seed=0,
            shape=shape,
            between=plain_step,
            clock=form.clock,
            profile=profile,
        )[left_out:]
        peak = measure_device(
            place, precision=machine.precision, threads=torch.get_num_threads(), clock=form.clock
        ).flops_per_s
    return Steps(
        median(update.tokens for update in updates),
        median(update.ended - update.began for update in updates),
        median(plain_seconds),
        median(flops_of(update, shape, settings) for update in updates) / peak,
        machine.precision,
        profile.said,
    )
