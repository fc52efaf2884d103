"""A step of coCondenser pre-training with the gradient cache against the plain way, and its peak memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from measuring import Form, in_new_process, line, peak_bytes
from stepping import lines_of_steps, step_settings, write_step_inputs
from steps import run_updates

from condenser.train.loop import training_machine

SPANS = 512
MOST_SPANS = 1024


def measure(form: Form) -> list[dict[str, Any]]:
    """Spans of MS MARCO's documents, as in the papers."""
    settings = step_settings("cocondenser", long=form.long, batch_size=SPANS // 2)
    what, count = f"coCondenser step with gradient cache, {SPANS} spans", form.size(3, 12)
    lines = lines_of_steps(form, what, "cocondenser", "msmarco_doc", settings, count=count, goal=2.0)
    few, many = (_peak_mb(form, num_spans) for num_spans in (64, MOST_SPANS))
    what, note = f"its peak memory, 64 to {MOST_SPANS:,} spans", f"after {MOST_SPANS:,} spans each"
    note = f"{few:,.0f} and {many:,.0f} MB, {note}"
    return [*lines, line(what, "% more", 100 * (many / few - 1), better="less", most=10.0, note=note)]


def _peak_mb(form: Form, num_spans: int) -> float:
    settings = step_settings("cocondenser", long=form.long, batch_size=num_spans // 2)
    folder = write_step_inputs(form, "cocondenser", "msmarco_doc", num_rows=4 * MOST_SPANS)
    return in_new_process(peak_mb_of_steps, folder, settings, device=form.device, threads=form.threads)


def peak_mb_of_steps(folder: Path, settings: dict[str, Any], *, device: str, threads: int) -> float:
    """The most memory of this process, in as many steps as have `MOST_SPANS` spans.

    Memory grows with the shapes that were multiplied (docs/studies/engineering), and each chunk has its own.
    """
    steps = MOST_SPANS // (2 * settings["batch_size"])
    with training_machine(device=device, precision="auto", threads=threads) as machine:
        run_updates("cocondenser", folder, settings, machine, count=steps, seed=0)
        return peak_bytes(machine.processes.device) / 1e6
