"""What Snakemake needs to see what there is to do for the default's table."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from measuring import ROOT, Form, line, seconds_of

TARGET = "results/msmarco/table2.tsv"


def measure(form: Form) -> list[dict[str, Any]]:
    """A dry run in the checkout as it is; where the table is up to date, it has nothing to do."""
    said = ""

    def dry_run() -> None:
        nonlocal said
        command = [str(Path(sys.executable).with_name("snakemake")), "-n", "--cores", "2", TARGET]
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    seconds = median(seconds_of(dry_run, clock=form.clock) for _ in range(3))
    jobs = re.findall(r"^total\s+(\d+)$", said, re.MULTILINE)
    state = f"{jobs[0]} jobs to do here" if jobs else "nothing to do"
    return [line("dry run of the default's table", "s", seconds, better="less", most=3.0, note=state)]
