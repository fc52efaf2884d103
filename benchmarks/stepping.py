"""Our pre-training steps and the plain way's, in turn on the same batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np
import torch
from measuring import Form, Operators, line, load_config, seconds_of
from plain import PaddedTexts, PlainCondenser, PlainStep, check_condenser, padded_texts
from random_inputs import write_random_tokens
from steps import TABLES, flops_of, settings_of, shape_of
from watched_stages import Update, run_updates

from condenser import kinds
from condenser.model.pretraining import Condenser
from condenser.pipeline.costs.measure import measure_device
from condenser.pipeline.costs.tables import Tables
from condenser.pipeline.costs.texts import Texts, assumed_texts
from condenser.train.loop import StepRecord
from condenser.train.machine import training_machine

ROWS_PER_CHUNK = {False: (16, 32, 64), True: (64, 128, 256)}  # in the short form, in the long one
WIDTH = 128  # of the longest block: 126 tokens, with [CLS] and [SEP]
PAPERS_FORM: dict[str, dict[str, Any]] = {  # of objectives whose default differs for a trained encoder
    "condenser": {},
    "cocondenser": {"mlm_weight": 1.0, "gradient_cache": "always"},
}


class Steps(NamedTuple):
    """Medians of steps on the same batches."""

    tokens: float  # with specials, without padding
    seconds: float
    rows_per_chunk: int  # of ours; the best of ROWS_PER_CHUNK
    peers: dict[str, float]  # seconds, by what they are called
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
    form: Form, stage: str, collection: str, settings: Mapping[str, Any], *, count: int
) -> Steps:
    """Time `count` of our steps and of the peers', after one full step of each that does not count.

    Ours and the peers have the chunk size at which a step of theirs is fastest.

    Raises:
        AssertionError: a peer does not compute our losses, vectors and gradients.
    """
    sizes = ROWS_PER_CHUNK[form.long]
    folder = write_step_inputs(form, stage, collection, num_rows=4 * (count + 2) * settings["batch_size"])
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
    peer_seconds: dict[str, list[float]] = {}
    with training_machine(device=form.device, precision="auto", threads=form.threads) as machine:
        place = machine.processes.device
        arguments: dict[str, Any] = {"shape": shape, "seed": 0, "clock": form.clock}

        def timed(rows: int, count: int, **more: Any) -> list[Update]:
            chosen = {**settings, "rows_per_chunk": rows}
            return run_updates(stage, folder, chosen, machine, count=count, **arguments, **more)[1:]

        own = {rows: median(seconds_of_updates(timed(rows, 3))) for rows in sizes}
        best = min(own, key=own.__getitem__)
        peers = {
            name.format(width=width): PlainStep(
                PlainCondenser(model, careful=careful),
                device=place,
                precision=machine.precision,
                rows_per_chunk=best,
                careful=careful,
            )
            for name, careful in (("the authors' way, padded to {width}", False), ("a careful loop", True))
        }

        def peer_steps(record: StepRecord) -> None:
            chunks = record.batch.content.chunks
            texts = padded_texts(chunks, width=width, device=place)
            for name, peer in peers.items():
                if record.step == 0:
                    check_condenser(model, peer.model.cpu(), chunks[-1])
                    peer.model.to(place).train()
                    peer.rows_per_chunk = _best_size(form, peer, getattr(peer, stage), texts, sizes)
                else:
                    took = seconds_of(lambda peer=peer: getattr(peer, stage)(texts), clock=form.clock)
                    peer_seconds.setdefault(f"{name}, chunks of {peer.rows_per_chunk}", []).append(took)

        profile = Operators()
        updates = timed(best, count + 1, between=peer_steps, profile=profile)
        peak = measure_device(
            place, precision=machine.precision, threads=torch.get_num_threads(), clock=form.clock
        ).flops_per_s
    return Steps(
        median(update.tokens for update in updates),
        median(seconds_of_updates(updates)),
        best,
        {name: median(seconds) for name, seconds in peer_seconds.items()},
        median(flops_of(update, shape, settings) for update in updates) / peak,
        machine.precision,
        profile.said,
    )


def seconds_of_updates(updates: Sequence[Update]) -> list[float]:
    """How long each update took."""
    return [update.ended - update.began for update in updates]


def _best_size(
    form: Form,
    peer: PlainStep,
    step: Callable[[PaddedTexts], None],
    texts: PaddedTexts,
    sizes: Sequence[int],
) -> int:
    """The chunk size at which a full step of a peer is fastest; the first step is repeated: it warms up."""
    seconds = {}
    for rows in (sizes[0], *sizes):
        peer.rows_per_chunk = rows
        seconds[rows] = seconds_of(lambda: step(texts), clock=form.clock)
    return min(seconds, key=seconds.__getitem__)


def lines_of_steps(what: str, steps: Steps, *, least_ratio: float, note: str) -> list[dict[str, Any]]:
    """A line for each peer; the goal is for the careful one, which comes last."""
    *_, careful = steps.peers
    return [
        line(
            what,
            "tokens/s",
            steps.tokens / steps.seconds,
            better="more",
            against=name,
            peer=steps.tokens / seconds,
            least_ratio=least_ratio if name == careful else None,
            limit=steps.tokens / steps.limit_seconds,
            profile=steps.profile,
            note=f"{note}, {steps.precision}, ours in chunks of {steps.rows_per_chunk}",
        )
        for name, seconds in steps.peers.items()
    ]
