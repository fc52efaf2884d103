"""The one training loop: optimiser, schedule, clipping, checkpoints, resuming, stopping; and its machine.

A `Trainable` says what is trained: a model, and functions for its batches, gradients and files. The loop
itself knows no objective and no file format but that of its checkpoints and its log.
"""

from __future__ import annotations

import logging
import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from condenser.data.batches import num_steps, step_items, steps_per_epoch
from condenser.data.row_keys import note_learnt
from condenser.data.tokens import TokenShards
from condenser.files import atomic_folder, full_disk_named, write_json
from condenser.job import Job
from condenser.model.devices import set_up
from condenser.model.operations import weights_unchanged
from condenser.progress import Progress
from condenser.settings import Optimiser
from condenser.shards import prefix_of
from condenser.train.checkpoint import (
    LOG_NAME,
    Checkpoint,
    StepLog,
    load_newest_checkpoint,
    log_totals,
    prepare_work_folder,
    save_checkpoint,
)
from condenser.train.distributed import Processes, joined, sum_gradients
from condenser.train.weights import copied_weights, mix_in

log = logging.getLogger(__name__)

BAD_BATCH_NAME = "bad_batch.json"
BETAS = 0.9, 0.999  # of AdamW
TIMEOUT_S = 600.0  # of processes for each other: the first one writes checkpoints of the largest BERT
LOSSES_FILE = "losses.jsonl"  # one line a step, in the folder of what was trained

Content = TypeVar("Content")


@dataclass(frozen=True)
class Batch(Generic[Content]):
    """The whole batch of one step, the same in every process: a function of (seed, step)."""

    content: Content
    epoch: int
    num_items: int
    num_tokens: int  # with special tokens, without padding
    ids: Callable[[], Mapping[str, Sequence[str]]]  # by kind of text, in the batch's order
    num_in_epoch: int  # items of a whole epoch


@dataclass(frozen=True)
class StepRecord:
    """What one step did."""

    step: int
    batch: Batch[Any]
    losses: Mapping[str, float]
    grad_norm: float  # before clipping
    learning_rate: float
    outcome: str  # "updated"; "overflowed" or "skipped": the weights did not change

    def log_line(self) -> dict[str, Any]:
        """The record as a line of the log, with null for NaN and infinity, which JSON lacks."""

        def number(value: float) -> float | None:
            return value if math.isfinite(value) else None

        return {
            "step": self.step,
            "epoch": self.batch.epoch,
            "items": self.batch.num_items,
            "items_of_epoch": self.batch.num_in_epoch,
            "tokens": self.batch.num_tokens,
            **{name: number(value) for name, value in self.losses.items()},
            "grad_norm": number(self.grad_norm),
            "learning_rate": self.learning_rate,
            "outcome": self.outcome,
        }


@dataclass(frozen=True)
class Trainable(Generic[Content]):
    """What a training is of: a model, its batches and gradients. The loop does the rest.

    Attributes:
        title: in the program's log.
        num_items: of an epoch.
        prepare: gives the whole batch of a step. It must be a pure function; a second thread calls it
            one step ahead.
        backward: `backward(content, loss_scale)` adds this process's part of the gradient of
            `loss_scale * loss` to the weights' `grad`, and gives losses of the whole batch by name,
            "loss" among them, the same in every process.
        save: writes the model's files to a folder, in the first process.
        counts: for the manifest.
    """

    title: str
    model: nn.Module
    num_items: int
    prepare: Callable[[int], Batch[Content]]
    backward: Callable[[Content, float], Mapping[str, float]]
    save: Callable[[Path], None]
    counts: Mapping[str, int]


Trained = TypeVar("Trained", bound=Optimiser)
"""The class of a training's settings: of a recipe, or of a model's entry."""


@dataclass(frozen=True)
class Run(Generic[Trained]):
    """How one training runs. Only `settings`, `seed` and `precision` change its result.

    Attributes:
        settings: the recipe, or the model's entry. `max_grad_norm` is that of all weights together.
        precision: of the forward and backward pass: fp32, bf16 or fp16.
        fingerprint: identifies everything that the result depends on; other checkpoints are refused.
        work_folder: of its checkpoints and its log.
        checkpoint_every_s: seconds between checkpoints; 0 saves one after every step. The last step
            always gets one.
        bad_loss_patience: how many updates in a row may be skipped because the loss or the gradient is
            NaN or infinite. One more stops the training.
        first_step: the batches of a soup's earlier trainings, which are not drawn again.
        on_step: called in every process after each step, before its checkpoint is saved.
    """

    settings: Trained
    seed: int
    precision: str
    processes: Processes
    fingerprint: str
    work_folder: Path
    checkpoint_every_s: int
    checkpoints_kept: int
    bad_loss_patience: int
    first_step: int = 0
    on_step: Callable[[StepRecord], None] | None = None

    def num_steps(self, num_items: int, *, title: str) -> int:
        """The updates of this training on so many items; the log says how many epochs they are."""
        epochs, bounds = self.settings.epochs, self.settings.updates
        steps = num_steps(num_items, epochs=epochs, updates=bounds, **self._batches)
        if self.processes.is_first:
            made = steps / steps_per_epoch(num_items, **self._batches)
            said = f"{steps:,} updates, {made:.{2 if made >= 0.01 else 4}f} epochs of {num_items:,} items"
            if epochs is not None:
                asked = num_steps(num_items, epochs=epochs, **self._batches)
                name = "least" if asked < steps else "most"
                of_epochs = f"epochs {epochs} would be {asked:,}"
                said += f"; at {name} {steps:,} asked, {of_epochs}" if asked != steps else ""
            log.info("%s: %s", title, said)
        return steps

    @property
    def _batches(self) -> dict[str, Any]:
        """How an epoch is cut into batches."""
        return {"batch_size": self.settings.batch_size, "drop_last": self.settings.drop_last}

    def items_of(self, step: int, num_items: int, *, stream: str) -> tuple[int, Int[np.ndarray, " item"]]:
        """The epoch of a step and its items, in an order that is a function of seed, stream and step."""
        epoch, _, items = step_items(num_items, step=step, seed=self.seed, stream=stream, **self._batches)
        return epoch, items


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
    job: Job,
    settings: Trained,
    training: Callable[[Run[Trained]], Trainable[Any]],
    *,
    output: Path | None = None,
) -> dict[str, int]:
    """Do a training job on this machine; gives its counts.

    Args:
        settings: the recipe, or the model's entry.
        training: gives what is trained in a run.
        output: the folder that is written; None for that of the job's model.
    """
    options = job.options
    with training_machine(**vars(job.settings.compute)) as machine:
        job.device = machine.device_name
        run = Run(
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
        counts = train_to_folder(training(run), run, output or job.output.model.parent)
    if "learnt" in vars(options) and run.processes.is_first:
        note_learnt(Path(options.learnt), TokenShards(list(map(prefix_of, job.input.tokens))))
    return counts


def train_to_folder(trainable: Trainable[Any], run: Run[Any], output: Path) -> dict[str, int]:
    """Train, and write the model and its log to the folder `output`; gives counts, with sums of the log.

    Each training of a soup begins at the same weights and draws the batches after those of the one before;
    the model is the mean of their weights. Source: Wortsman et al. 2022, "Model soups" (the uniform soup).
    """
    model, size = trainable.model, run.settings.num_trainings
    start = mean = copied_weights(model) if size > 1 else {}
    first_step, logs = run.first_step, []
    for number in range(size):
        folder = run.work_folder / f"training-{number}" if size > 1 else run.work_folder
        if size > 1 and run.processes.is_first:
            log.info("%s: training %d of %d, whose mean is kept", trainable.title, number + 1, size)
        first_step += train(trainable, replace(run, first_step=first_step, work_folder=folder))
        logs.append(folder / LOG_NAME)
        if number:
            mix_in(model, mean, share=number / (number + 1))
        if number + 1 < size:
            mean = copied_weights(model)
            mix_in(model, start, share=1.0)
    if run.processes.is_first:
        with atomic_folder(output) as folder:
            trainable.save(folder)
            (folder / LOSSES_FILE).write_bytes(b"".join(log.read_bytes() for log in logs))
    return {**trainable.counts, **log_totals(*logs)}


def train(trainable: Trainable[Content], run: Run[Any]) -> int:
    """Train the model in place, all updates, or those left after the newest checkpoint; gives their number.

    In float16 the loss is scaled. The scale doubles every 2,000 good steps; if a gradient overflows, it is
    halved and the update skipped.

    Order, masks and dropout are functions of the step. So a training that was stopped and resumed gives
    the same bytes as an uninterrupted one, on the same machine with as many threads and processes.
    After SIGTERM and Ctrl-C the current step is finished and saved first.

    Raises:
        ValueError: too many updates in a row had a NaN or infinite loss or gradient, or an update left
            NaN or infinity in the weights. The checkpoints in the folder have only finite weights;
            `bad_batch.json` beside them has the ids of the last batch.
        SystemExit: with status 143, after SIGTERM to any process.
        KeyboardInterrupt: after Ctrl-C.
    """
    model, title, prepare = trainable.model, trainable.title, trainable.prepare
    num_steps = run.num_steps(trainable.num_items, title=title)
    settings, processes, work_folder = run.settings, run.processes, run.work_folder
    epsilon, is_bias_corrected = settings.adamw
    use_loss_scale = run.precision == "fp16"
    weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    device = next(iter(weights.values())).device
    optimiser = torch.optim.AdamW(
        weight_groups(model, weight_decay=settings.weight_decay),
        lr=settings.learning_rate,
        betas=BETAS,
        eps=epsilon,
        fused=True,  # the fastest; elementwise, so its result depends on no order of summation
    )
    start, log_bytes, loss_scale = 0, 0, _FIRST_LOSS_SCALE if use_loss_scale else 1.0
    state: dict[str, Any] = {"loss_scale": loss_scale, "good_steps": 0, "bad_streak": 0}
    if processes.is_first:
        prepare_work_folder(work_folder)
    processes.barrier()
    checkpoint = load_newest_checkpoint(work_folder, fingerprint=run.fingerprint, device=device)
    if checkpoint is not None:
        checkpoint.restore(weights, optimiser)
        start, state, log_bytes = checkpoint.step, checkpoint.state, checkpoint.log.num_bytes
        log.info("%s: resuming after step %d of %d", title, start, num_steps)
    del checkpoint  # a second copy of all weights on the device
    if processes.sum_floats([float(start)])[0] != start * processes.world_size:
        raise ValueError(
            f"{work_folder}: expected all processes to find the checkpoint of step {start}, but some "
            "found another. Is the work folder on a file system that all machines share?"
        )
    warmup = num_warmup_steps(num_steps, warmup_ratio=settings.warmup_ratio)

    with ExitStack() as stack:
        stack.enter_context(full_disk_named(work_folder))
        step_log = progress = None
        if processes.is_first:
            step_log = StepLog(work_folder / LOG_NAME, num_bytes=log_bytes)
            stack.callback(step_log.close)
            progress = stack.enter_context(Progress(title, total=num_steps, unit="steps", start=start))
        stop = stack.enter_context(_stop_signals())
        pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prepare")
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        first = run.first_step
        upcoming: Future[Batch[Content]] | None = (
            pool.submit(prepare, first + start) if start < num_steps else None
        )
        began = last_saved = time.monotonic()
        waited_s, num_tokens = 0.0, 0

        for step in range(start, num_steps):
            assert upcoming is not None
            waiting_since = time.monotonic()
            batch = upcoming.result()
            waited_s += time.monotonic() - waiting_since
            upcoming = pool.submit(prepare, first + step + 1) if step + 1 < num_steps else None

            factor = linear_factor(step, num_steps=num_steps, num_warmup_steps=warmup)
            rate = settings.learning_rate * factor
            for group in optimiser.param_groups:
                group["lr"] = rate
            if not is_bias_corrected:
                undo_bias_correction(optimiser, epsilon=epsilon, weight_decay=settings.weight_decay)
            with weights_unchanged():
                losses = trainable.backward(batch.content, state["loss_scale"])
            sum_gradients(weights.values(), processes)
            due = step_log is not None and time.monotonic() - last_saved >= run.checkpoint_every_s
            num_stopping, num_due = processes.sum_floats([float(stop.signal != 0), float(due)])
            norm = _unscale_and_clip(weights.values(), state["loss_scale"], settings.max_grad_norm)
            outcome = _judge(losses["loss"], norm, state, use_loss_scale=use_loss_scale)
            if outcome == "updated":
                optimiser.step()
            optimiser.zero_grad(set_to_none=True)

            record = StepRecord(first + step, batch, losses, norm, rate, outcome)
            if step_log is not None and progress is not None:
                step_log.append(record.log_line())
                progress.advance(note=f"loss {losses['loss']:.4f}")
            if run.on_step is not None:
                run.on_step(record)
            num_tokens += batch.num_tokens
            if state["bad_streak"] > run.bad_loss_patience:
                what = (
                    f"a number for loss and gradient norm, got {losses['loss']} and {norm} at step {step} "
                    f"({state['bad_streak']} in a row)"
                )
                raise _bad_batch(what, batch, step, work_folder, processes)
            if num_stopping or num_due or step + 1 == num_steps:
                if name := _not_finite(weights, optimiser):
                    what = f"finite weights and moments, got NaN or infinity in {name} after step {step}"
                    raise _bad_batch(what, batch, step, work_folder, processes)
                if step_log is not None:
                    save_checkpoint(
                        work_folder,
                        Checkpoint.of(step + 1, weights, optimiser, state, step_log),
                        fingerprint=run.fingerprint,
                        keep=run.checkpoints_kept,
                    )
                last_saved = time.monotonic()
            if num_stopping and step + 1 < num_steps:
                log.info("%s: stopped after step %d of %d, will resume there", title, step + 1, num_steps)
                if stop.signal == signal.SIGINT:
                    raise KeyboardInterrupt
                raise SystemExit(128 + signal.SIGTERM)
    if start < num_steps:
        elapsed_s = max(time.monotonic() - began, 1e-9)
        log.info(
            "%s: %.0f tokens a second, %.1f %% of the time waiting for data",
            title, num_tokens / elapsed_s, 100 * waited_s / elapsed_s,
        )  # fmt: skip
    return num_steps


def num_warmup_steps(num_steps: int, *, warmup_ratio: float) -> int:
    """The number of warm-up steps: `warmup_ratio` of all steps, rounded up.

    The ratio counts as the decimal number that a person wrote: 0.1 of 70 steps is 7, although
    70 * 0.1 = 7.000000000000001 in floating point.
    """
    return math.ceil(Fraction(str(warmup_ratio)) * num_steps)


def linear_factor(step: int, *, num_steps: int, num_warmup_steps: int) -> float:
    """The factor of the learning rate at update `step`, which counts from 0.

    It rises from 0 at step 0 to 1 at step `num_warmup_steps` and falls to 0 at step `num_steps`, one
    after the last. So with warm-up the first update changes only the optimiser's averages, as in the
    authors' trainings (Hugging Face's linear schedule).
    """
    if step < num_warmup_steps:
        return step / num_warmup_steps
    return max(0.0, (num_steps - step) / max(1, num_steps - num_warmup_steps))


def undo_bias_correction(optimiser: torch.optim.Optimizer, *, epsilon: float, weight_decay: float) -> None:
    """Set rate, epsilon and decay so that torch's next AdamW update is one without bias correction.

    Without it, update t is `rate * m / (sqrt(v) + epsilon)`; torch's is
    `lr / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + eps)`, with a decay of `lr * weight_decay`.
    Source: BERT's optimiser, in Hugging Face's AdamW `correct_bias=False`.
    """
    first: Mapping[str, Any] = next(iter(optimiser.state.values()), {})
    update = int(first.get("step", 0)) + 1  # updates that were skipped do not count
    root = math.sqrt(1 - BETAS[1] ** update)
    scale = (1 - BETAS[0] ** update) / root
    for group in optimiser.param_groups:
        group["lr"] *= scale
        group["eps"] = epsilon / root
        if group["weight_decay"]:
            group["weight_decay"] = weight_decay / scale


def weight_groups(model: nn.Module, *, weight_decay: float) -> list[dict[str, Any]]:
    """The trained weights in two groups: with weight decay, and without it.

    Biases and LayerNorms have no weight decay, as in the authors' trainer (Hugging Face's), nor has MPNet's
    bias by relative positions, which is a matrix. Frozen weights are in neither group.
    """
    norms = {
        id(weight)
        for module in model.modules()
        if isinstance(module, nn.LayerNorm)
        for weight in module.parameters()
    }
    decayed: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            (others if id(weight) in norms or "bias" in name else decayed).append(weight)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]


def _bad_batch(
    what: str, batch: Batch[Any], step: int, work_folder: Path, processes: Processes
) -> ValueError:
    """The error that says `what` was expected and names the batch, whose ids are written beside the log."""
    ids = batch.ids()
    named = " with ".join(f"{kind} {_first_names(names)}" for kind, names in ids.items())
    if processes.is_first:
        write_json(work_folder / BAD_BATCH_NAME, {"step": step, **ids})
    return ValueError(
        f"{work_folder / LOG_NAME}:{step + 1}: expected {what}, on {named} (all: {BAD_BATCH_NAME} beside the "
        "log). Look at these texts, or lower learning_rate."
    )


def _not_finite(weights: Mapping[str, Tensor], optimiser: torch.optim.Optimizer) -> str | None:
    """The first weight that is NaN or infinite somewhere, or whose moments in the optimiser are."""
    for name, weight in weights.items():
        for value in (weight, *optimiser.state[weight].values()):
            if not torch.isfinite(value).all():
                return name
    return None


def _first_names(names: Sequence[str], *, most: int = 64) -> str:
    """The first names, and how many more there are, for a line of text.

    >>> _first_names(["d5", "d1", "d9"], most=2)
    'd5, d1 and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


_FIRST_LOSS_SCALE, _GOOD_STEPS_TO_DOUBLE = 2.0**16, 2000  # the defaults of torch.amp.GradScaler


def _judge(loss: float, norm: float, state: dict[str, Any], *, use_loss_scale: bool) -> str:
    """The outcome of a step; updates `state` (loss scale, counters).

    In float16 the scaled gradient of a finite loss may overflow. That is normal: the scale is halved
    and the update skipped, and it does not count as a bad loss.
    """
    if math.isfinite(loss) and math.isfinite(norm):
        state["bad_streak"] = 0
        state["good_steps"] += 1
        if use_loss_scale and state["good_steps"] % _GOOD_STEPS_TO_DOUBLE == 0:
            state["loss_scale"] *= 2
        return "updated"
    state["good_steps"] = 0
    if math.isfinite(loss) and state["loss_scale"] > 1.0:
        state["loss_scale"] /= 2
        return "overflowed"
    state["bad_streak"] += 1
    return "skipped"


def _unscale_and_clip(weights: Any, loss_scale: float, max_grad_norm: float) -> float:
    """Undo the loss scale (exactly, as it is a power of two) and clip; gives the norm before clipping."""
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    if loss_scale != 1.0:
        torch._foreach_mul_(gradients, 1.0 / loss_scale)
    norm = float(nn.utils.get_total_norm(gradients))
    if max_grad_norm > 0 and math.isfinite(norm):
        factor = max_grad_norm / (norm + 1e-6)  # as torch's clip_grad_norm_, with one wait for the device
        if factor < 1.0:
            torch._foreach_mul_(gradients, factor)
    return norm


class _Stop:
    signal = 0


@contextmanager
def _stop_signals() -> Iterator[_Stop]:
    """Note SIGTERM and Ctrl-C, so that the step can finish; a second Ctrl-C ends the process at once."""
    stop = _Stop()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def note(number: int, _: object) -> None:
        stop.signal = number
        signal.signal(signal.SIGINT, handlers[signal.SIGINT])

    for number in handlers:
        signal.signal(number, note)
    try:
        yield stop
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
