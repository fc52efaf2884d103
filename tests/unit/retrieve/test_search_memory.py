"""What benchmarks/search_scale.py measures, at sizes that take seconds."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from condenser.retrieve.exact import READ_BYTES

DIM = 256
ONE_READ = READ_BYTES // (4 * DIM)  # rows


@pytest.mark.weekly
def test_three_times_the_collection_takes_no_more_memory(root: Path, tmp_path: Path) -> None:
    options = {
        "folder": tmp_path / "vectors", "output": tmp_path / "scale.tsv", "dim": DIM, "rows": ONE_READ,
        "queries": 64, "depth": 10, "block-rows": 1024, "threads": 1, "seed": 1,
    }  # fmt: skip
    done = subprocess.run(
        [
            *[sys.executable, str(root / "benchmarks" / "search_scale.py"), "--factors", "1", "3"],
            *[str(part) for name, value in options.items() for part in (f"--{name}", value)],
        ],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with (tmp_path / "scale.tsv").open() as file:
        small, large = csv.DictReader(file, delimiter="\t")
    assert int(large["rows"]) == 3 * int(small["rows"]) == 3 * ONE_READ
    more_vectors_mb = 2 * READ_BYTES / 1e6
    for memory in ("peak_mb", "anonymous_mb"):
        assert float(large[memory]) - float(small[memory]) < more_vectors_mb / 8
    assert float(small["peak_mb"]) - float(small["before_mb"]) > READ_BYTES / 1e6  # it is the search's
    assert not (tmp_path / "vectors").exists()
