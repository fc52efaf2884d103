"""Run a few updates of a stage, as its program does, and note when each ended and what it computed."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from measuring import Operators
from plain import rows_of
from torch import nn

from condenser import kinds
from condenser.data.text_files import TextFiles
from condenser.model.devices import Compute
from condenser.model.retriever import Retriever
from condenser.model.rows import Rows
from condenser.pipeline.costs.arithmetic import Chunk, Shape
from condenser.retrieve.encode import encode_texts
from condenser.systems import biencoder
from condenser.train.examples import TrainingFiles
from condenser.train.loop import Run, StepRecord
from condenser.train.machine import Machine
from condenser.train.masked_texts import MaskedRows
from condenser.train.pretrain import pretrain


class Update(NamedTuple):
    """What a stage computed from `began` until `ended`, in seconds of `run_updates`' clock."""

    ended: float
    items: int
    tokens: int
    chunks: list[Chunk]
    began: float  # NaN for the first update


class DoesNotFit(Exception):
    """The memory is too small for what was to be measured."""


class _Enough(Exception):
    """All updates that were asked for have been computed."""


def run_updates(
    stage: str,
    folder: Path,
    settings: Mapping[str, Any],
    machine: Machine,
    *,
    count: int,
    seed: int,
    shape: Shape,
    between: Callable[[StepRecord], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
    profile: Operators | None = None,
) -> list[Update]:
    """The first `count` updates of a stage, or blocks of an encoding.

    Args:
        between: called after each update of a training; no update's time.
        clock: seconds.
        profile: told of one more update, which is not among those that are returned.

    Raises:
        DoesNotFit: the stage needs more memory than there is, or than the settings' memory_gb.
        ValueError: too few texts are long enough for so many updates.
    """
    if settings.get("gradient_cache") == "never" and machine.processes.device.type == "cpu":
        _refuse_large_graphs(settings, shape)
    watch = _Watch(
        count, block_rows=settings.get("block_rows", 0), between=between, clock=clock, profile=profile
    )
    try:
        with _less_memory_refused():
            _run(stage, folder, settings, machine, watch, seed=seed)
    except _Enough:
        return watch.updates
    except torch.OutOfMemoryError as error:
        raise DoesNotFit(str(error).partition("\n")[0]) from error
    raise ValueError(f"--tokens: expected longer texts: {stage} ended after {len(watch.updates)} updates.")


def _run(
    stage: str, folder: Path, settings: Mapping[str, Any], machine: Machine, watch: _Watch, *, seed: int
) -> None:
    """Call the stage on the files of `random_inputs.write_inputs`; only this function knows how."""
    backbone, tokens, work = folder / "backbone", folder / f"{stage}.0-of-1", folder / "work"
    if stage == "encode":
        hook = nn.modules.module.register_module_forward_pre_hook(watch.on_forward)
        try:
            encode_texts(
                backbone, tokens, work / "embeddings.npy", rows=None, role="passage",
                max_tokens=settings["lengths"]["passage"], batch_tokens=settings["batch_tokens"],
                block_rows=settings["block_rows"],
                compute=Compute(machine.processes.device, machine.precision), work_folder=work,
                name_of_row=str,
            )  # fmt: skip
        finally:
            hook.remove()
        return
    settings = {
        **settings,
        "epochs": 1,
        "updates": None,
    }  # which has at least as many updates as are measured
    doc_ids = folder / f"{stage}.doc_ids.txt"
    run = Run(
        settings, seed, machine.precision, machine.processes, fingerprint=stage, work_folder=work,
        checkpoint_every_s=sys.maxsize, checkpoints_kept=1, bad_loss_patience=0, on_step=watch.on_step,
    )  # fmt: skip
    if stage == "train":
        texts = TextFiles([tokens], folder / "queries.train", doc_ids, folder / "queries.jsonl")
        biencoder.train(TrainingFiles([folder / "examples.jsonl"], texts), backbone, work / "model", run)
    else:
        objective = kinds.load("objectives", settings["objective"]).training
        pretrain(objective, [tokens], backbone, work / "model", run, title=stage, doc_ids=doc_ids)


class _Watch:
    """Collects `count` updates without changing them, then ends the stage by raising `_Enough`."""

    def __init__(
        self,
        count: int,
        *,
        block_rows: int,
        between: Callable[[StepRecord], None] | None,
        clock: Callable[[], float],
        profile: Operators | None,
    ) -> None:
        self.updates: list[Update] = []
        self._count, self._block_rows, self._between, self._clock = count, block_rows, between, clock
        self._profile, self._is_profiling = profile, False
        self._began = math.nan
        self._passes: list[Rows] = []  # of the current block

    def _note(
        self, items: int, tokens: int, chunks: Sequence[Chunk], record: StepRecord | None = None
    ) -> None:
        if self._profile and self._is_profiling:
            self._profile.stop()
            raise _Enough
        self.updates.append(Update(self._clock(), items, tokens, list(chunks), self._began))
        if record is not None and self._between is not None:
            self._between(record)
        if len(self.updates) == self._count:
            if not self._profile:
                raise _Enough
            self._is_profiling = True
            self._profile.start()
        self._began = self._clock()

    def on_step(self, record: StepRecord) -> None:
        """Note an update, as the hook of a training."""
        inputs = [chunk.inputs for chunk in record.batch.content.chunks]
        chunks = [
            _size(rows_of(each), len(each.masked.tokens) if isinstance(each, MaskedRows) else 0)
            for each in inputs
        ]
        self._note(record.batch.num_items, record.batch.num_tokens, chunks, record)

    def on_forward(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Note the blocks of an encoding, as PyTorch's hook before every forward pass of a module.

        A block has ended when the first pass of the next one begins, so one more row must be encoded.
        """
        if isinstance(module, Retriever):
            if sum(len(rows.lengths) for rows in self._passes) == self._block_rows:
                done, self._passes = self._passes, []
                num_tokens = sum(rows.layout.num_tokens for rows in done)
                self._note(self._block_rows, num_tokens, [_size(rows) for rows in done])
            self._passes.append(inputs[0])


def _size(rows: Rows, num_masked: int = 0) -> Chunk:
    groups = rows.layout.groups
    places, squares = (
        float(sum(group.num_rows * group.width**power for group in groups)) for power in (1, 2)
    )
    return Chunk(len(rows.lengths), len(rows.ids), places, squares, num_masked)


@contextmanager
def _less_memory_refused() -> Iterator[None]:
    """Raise `DoesNotFit` when a training logs that it goes on with less memory."""
    log = logging.getLogger("condenser.train.memory")

    def refuse(record: logging.LogRecord) -> bool:
        raise DoesNotFit(f"does not fit: {record.getMessage()}")

    log.setLevel(logging.INFO)
    log.addFilter(refuse)
    try:
        yield
    finally:
        log.removeFilter(refuse)


def _refuse_large_graphs(settings: Mapping[str, Any], shape: Shape) -> None:
    """Refuse a training without the gradient cache if the graphs of a batch may need more than memory_gb.

    A GPU refuses by itself what does not fit. A CPU would kill the process, or another one. A contrast is
    of two texts an item.
    """
    _, tokens = kinds.load("objectives", settings["objective"]).longest_row(settings)
    num_rows, width = 2 * settings["batch_size"], tokens + 2
    num_tokens = num_rows * width
    num_masked = num_tokens * settings.get("mask_probability", 0.0)
    longest = Chunk(num_rows, num_tokens, num_tokens, num_tokens * width, num_masked)
    needed_gb = 4e-9 * shape.graph_numbers([longest])
    if needed_gb > settings["memory_gb"]:
        raise DoesNotFit(f"does not fit: graphs of up to {needed_gb:.3g} GB, memory_gb is less")
