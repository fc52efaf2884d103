"""What benchmarks/gpu.py measures, at sizes for a processor."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.weekly
def test_one_command_measures_all_that_the_plan_states_of_gpus(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "benchmarks" / "gpu.py"),
            "--tiny",
            "--output",
            str(tmp_path / "gpu.tsv"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with (tmp_path / "gpu.tsv").open() as file:
        lines = list(csv.DictReader(file, delimiter="\t"))
    kinds = ["condenser", "cocondenser", "train", "encode", "search"]
    assert [line["what"] for line in lines] == kinds
    for line in lines:
        assert float(line["seconds"]) > 0 and float(line["items_per_s"]) > 0
        assert line["what"].startswith("search") or float(line["tokens_per_s"]) > 0

    printed = done.stdout.split("lines for seconds.tsv:")[1].strip().splitlines()
    known = (ROOT / "condenser" / "pipeline" / "rates" / "seconds.tsv").read_text()
    columns = known.splitlines()[0].split("\t")
    rates = [dict(zip(columns, line.split("\t"), strict=True)) for line in printed]
    assert all(float(rate["seconds"]) > 0 for rate in rates)
    of_gpu = set(re.findall(r"^\S+\tH200\t(\S+)", known, re.MULTILINE))
    assert {rate["unit"] for rate in rates} == of_gpu - {"job"}
