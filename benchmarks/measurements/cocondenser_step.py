"""A step of coCondenser pre-training with the gradient cache against the plain way, and its peak memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from measuring import Form, line, peak_bytes
from stepping import lines_of_steps, step_settings, steps_in_turn, write_step_inputs
from steps import in_new_process, shape_of
from watched_stages import run_updates

from condenser.train.machine import training_machine

SPANS = 512
MOST_SPANS = 1024


def measure(form: Form) -> list[dict[str, Any]]:
    """Spans of MS MARCO's documents, as in the papers."""
    settings = step_settings("cocondenser", long=form.long, batch_size=SPANS // 2)
    steps = steps_in_turn(form, "cocondenser", "msmarco_doc", settings, count=form.size(3, 12))
    peaks = [_peak_mb(form, num_spans) for num_spans in (64, MOST_SPANS)]
    return [
        *lines_of_steps(
            f"coCondenser step with gradient cache, {SPANS} spans",
            steps,
            least_ratio=2.0,
            note=f"spans of {steps.tokens / SPANS:.0f} tokens",
        ),
        line(
            f"its peak memory, 64 to {MOST_SPANS:,} spans",
            "% more",
            100 * (peaks[1] / peaks[0] - 1),
            better="less",
            most=10.0,
            note=f"{peaks[0]:,.0f} and {peaks[1]:,.0f} MB, after {MOST_SPANS:,} spans each",
        ),
    ]


def _peak_mb(form: Form, num_spans: int) -> float:
    settings = step_settings("cocondenser", long=form.long, batch_size=num_spans // 2)
    folder = write_step_inputs(form, "cocondenser", "msmarco_doc", num_rows=4 * MOST_SPANS)
    return in_new_process(peak_mb_of_steps, folder, settings, device=form.device, threads=form.threads)


def peak_mb_of_steps(folder: Path, settings: dict[str, Any], *, device: str, threads: int) -> float:
    """The most memory of this process, in as many steps as have `MOST_SPANS` spans.

    Memory grows with the shapes that were multiplied (docs/log.md, 2026-11-21), and each chunk has its own.
    """
    steps = MOST_SPANS // (2 * settings["batch_size"])
    with training_machine(device=device, precision="auto", threads=threads) as machine:
        shape = shape_of(folder, settings)
        run_updates("cocondenser", folder, settings, machine, count=steps, seed=0, shape=shape)
        return peak_bytes(machine.processes.device) / 1e6
