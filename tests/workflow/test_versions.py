"""The oldest Snakemake that pyproject.toml allows, under the tests of reruns, errors and signals."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = ("test_reruns.py", "test_signals.py", "test_errors.py")


@pytest.mark.weekly
@pytest.mark.timeout(3600)
def test_the_oldest_snakemake_reruns_stops_and_reports_as_the_newest(root: Path, tmp_path: Path) -> None:
    oldest = re.search(r'"snakemake>=([\d.]+),', (root / "pyproject.toml").read_text())
    assert oldest is not None
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path)]
    done = subprocess.run(
        [*install, f"snakemake=={oldest[1]}.*"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no package index: {done.stderr.strip().splitlines()[-1]}")
    # a process of xdist looks for the finished run beside its folder, where an older commit's may lie
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    environment = {**inherited, "PYTHONPATH": f"{tmp_path}:{root}"}
    said = subprocess.run(
        [sys.executable, "-m", "snakemake", "--version"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout.startswith(f"{oldest[1]}.")
    tests = [str(root / "tests" / "workflow" / name) for name in TESTS]
    options = ["-q", "-p", "no:cacheprovider", "-m", "not ci and not weekly"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
