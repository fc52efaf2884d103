"""Measure what this workflow does against what people would run instead, and print one table.

    make bench                  # two cores, within ten minutes
    make bench LONG=1           # the papers' sizes, for a GPU
    python benchmarks/bench.py --threads 2 --device cpu --only searching --output results/bench.tsv

Each measurement is a file of benchmarks/measurements/ and runs in a process of its own, with the environment
of the workflow's programs. Ours and the peer run in turn on the same weights, inputs, dtype and threads, and
their medians are compared; a ratio above 1 says that ours is better. `limit` is what the hardware allows,
where it can be computed. A measurement that fails leaves a line that says so, and status 1.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from measuring import COLUMNS, ROOT, Form, write_inputs, write_tsv

from condenser import program
from condenser.pipeline.environment import program_environment

ORDER = "condenser_step", "cocondenser_step", "finetuning_step", "encoding", "searching", "nothing_to_do"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--threads", type=int, required=True)
    add("--device", choices=["auto", "cpu", "cuda"], required=True)
    add("--clock", choices=["wall", "cpu"], default="wall", help="cpu: for one thread on a busy machine")
    add("--long", action="store_true", help="the papers' sizes")
    add("--only", nargs="+", choices=ORDER, default=ORDER, help="some of the measurements")
    add("--output", type=Path, required=True)
    add("--one", choices=["inputs", *ORDER], help=argparse.SUPPRESS)  # in a process of its own
    given = parser.parse_args(argv)
    folder = given.output.parent / ".work" / "bench"
    if given.one:
        inputs, is_cpu_time = folder / "inputs", given.clock == "cpu"
        form = Form(inputs, folder / given.one, given.threads, given.long, given.device, is_cpu_time)
        (folder / f"{given.one}.json").write_text(json.dumps(_measure(given.one, form)))
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines, failed = list[dict[str, str]](), []
    try:
        for name in ("inputs", *given.only):
            began, done = (
                time.monotonic(),
                _in_new_process(name, sys.argv[1:] if argv is None else argv, given),
            )
            if done.returncode:
                failed.append(name)
                note = (done.stderr.strip().splitlines() or ["no message"])[-1]
                new = [dict.fromkeys(COLUMNS, "") | {"what": name, "note": f"failed: {note}"}]
                print(done.stderr, file=sys.stderr)
            else:
                new = [_cells(line) for line in json.loads((folder / f"{name}.json").read_text())]
            lines += new
            write_tsv(given.output, COLUMNS, lines, heading=_machine(given))
            print(f"# {name}: {time.monotonic() - began:.0f} s", *map(_row, new), sep="\n", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    header = [_row(dict(zip(COLUMNS, cells, strict=True))) for cells in (COLUMNS, ["---"] * len(COLUMNS))]
    print("", _machine(given), *header, *map(_row, lines), f"# {given.output}", sep="\n")
    if failed:
        sys.exit(f"error: {', '.join(failed)}: expected measurements, got errors (above).")


def _measure(name: str, form: Form) -> list[dict[str, Any]]:
    if name == "inputs":
        write_inputs(form.inputs, threads=form.threads, long=form.long)
        return []
    form.work.mkdir()
    lines: list[dict[str, Any]] = importlib.import_module(f"measurements.{name}").measure(form)
    shutil.rmtree(form.work)
    return lines


def _in_new_process(
    name: str, arguments: Sequence[str], given: argparse.Namespace
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(Path(__file__).resolve()), *arguments, "--one", name]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "RAYON_NUM_THREADS"), str(given.threads))
    work = given.output.parent / ".work" / "bench"
    environment = {**os.environ, **program_environment(root=ROOT, work=work), **threads}
    return subprocess.run(
        command, env=environment, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, check=False
    )


def _machine(given: argparse.Namespace) -> str:
    """The machine and the command, in words."""
    import torch  # not in every process of a measurement

    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() and given.device != "cpu" else "no GPU"
    machine = [
        found[1] if found else "a processor",
        f"{os.cpu_count()} cores",
        gpu,
        f"torch {torch.__version__}",
    ]
    form = [f"{given.threads} threads", "long form" if given.long else "short form", f"clock: {given.clock}"]
    load = f"load {os.getloadavg()[0]:.1f} at the end"
    return ", ".join([f"# {datetime.now(UTC):%Y-%m-%d}", *machine, *form, load])


def _cells(line: Mapping[str, Any]) -> dict[str, str]:
    def cell(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
        return "" if value is None else str(value)

    return {name: cell(line[name]) for name in COLUMNS}


def _row(cells: Mapping[str, str]) -> str:
    """A row of a table in Markdown."""
    return f"| {' | '.join(cells.values())} |"


if __name__ == "__main__":
    program.run(main)
