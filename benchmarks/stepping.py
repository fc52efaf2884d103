"""Our pre-training steps and a careful loop's (plain.py), in turn on the same batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from typing import Any

import numpy as np
from measuring import ROOT, Form, best_size, lines, load_config, seconds_of
from plain import PlainCondenser, PlainStep, check_condenser, padded_texts
from steps import TEXTS, Update, as_read, run_updates, settings_of, write_random_texts

from condenser.model.pretraining import Condenser
from condenser.train.loop import StepRecord, training_machine

ROWS_PER_CHUNK = {False: (16, 32, 64), True: (64, 128, 256)}  # in the short form, in the long one
WIDTH = 128  # of the longest block: 126 tokens, with [CLS] and [SEP]
PAPERS_FORM: dict[str, dict[str, Any]] = {  # of objectives whose default differs for a trained encoder
    "condenser": {},
    "cocondenser": {"mlm_weight": 1.0, "gradient_cache": "always"},
}


def write_step_inputs(form: Form, job: str, collection: str, *, num_rows: int) -> Path:
    """The folder that `steps.run_updates` reads, with random texts of `TEXTS`, but without titles."""
    folder = Path(mkdtemp(prefix=f"{job}-{collection}-", dir=form.work))
    (folder / "backbone").symlink_to(form.inputs.absolute() / "cls")
    texts = TEXTS[collection]._replace(title=0)
    write_random_texts(folder, job, texts, num_rows, np.random.default_rng(0))
    return folder


def step_settings(job: str, *, long: bool, **changed: Any) -> dict[str, Any]:
    """The settings of an objective in the papers' form, at the default's sizes or at the papers'."""
    config = load_config([ROOT / "configs" / "paper.yaml"] if long else [])
    return {**settings_of(job, config), **PAPERS_FORM[job], **changed}


def lines_of_steps(
    form: Form, what: str, job: str, collection: str, settings: Mapping[str, Any], *, count: int, goal: float
) -> list[dict[str, Any]]:
    """Time `count` of our steps and of the loop's, after one full step of each that does not count.

    Each has the chunk size at which a step of it is fastest. The goal is for the ratio.

    Raises:
        AssertionError: the loop does not compute our losses, vectors and gradients.
    """
    sizes = ROWS_PER_CHUNK[form.long]
    folder = write_step_inputs(form, job, collection, num_rows=4 * (count + 3) * settings["batch_size"])
    head = settings.get("new_head") or settings
    width = as_read(settings).longest_row[1] + 2
    model = Condenser.load(
        folder / "backbone", num_head_layers=head["num_head_layers"], skip_from=head["skip_from"],
        use_late_mlm=True, missing_head="random", seed=0, dropout=None,
    )  # fmt: skip
    seconds: list[float] = []
    with training_machine(device=form.device, precision="auto", threads=form.threads) as machine:
        place, precision = machine.processes.device, machine.precision

        def timed(rows: int, count: int, **more: Any) -> list[Update]:
            more |= {"seed": 0, "clock": form.clock}
            return run_updates(
                job, folder, {**settings, "rows_per_chunk": rows}, machine, count=count, **more
            )[1:]

        own = {rows: median(seconds_of_updates(timed(rows, 3))) for rows in sizes}
        best = min(own, key=own.__getitem__)
        peer = PlainStep(PlainCondenser(model), place, precision, best)

        def peer_steps(record: StepRecord) -> None:
            chunks = record.batch.content.chunks
            texts = padded_texts(chunks, width=width, device=place)

            def step(rows: int) -> None:
                peer.rows_per_chunk = rows
                getattr(peer, job)(texts)

            if record.step == 0:
                check_condenser(model, peer.model.cpu(), chunks[-1])
                peer.model.to(place).train()
                peer.rows_per_chunk = best_size(step, sizes, clock=form.clock)
            else:
                seconds.append(seconds_of(lambda: step(peer.rows_per_chunk), clock=form.clock))

        updates = timed(best, count + 1, between=peer_steps)
    tokens = median(update.tokens for update in updates)
    rate = {f"a careful loop, chunks of {peer.rows_per_chunk}": tokens / median(seconds)}
    count = settings["batch_size"] * (2 if job == "cocondenser" else 1)
    texts = f"spans of {tokens / count:.0f} tokens"
    if job == "condenser":
        texts = f"{count} blocks of {tokens / count:.0f} tokens"
    return lines(
        what, "tokens/s", tokens / median(seconds_of_updates(updates)), rate,
        goals=dict.fromkeys(rate, goal), note=f"{texts}, {precision}, ours in chunks of {best}",
    )  # fmt: skip


def seconds_of_updates(updates: Sequence[Update]) -> list[float]:
    """How long each update took."""
    return [update.ended - update.began for update in updates]
