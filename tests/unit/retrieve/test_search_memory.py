"""The memory of a search, as `make bench` measures it."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from condenser.retrieve.exact import READ_BYTES

DIM = 256
ONE_READ = READ_BYTES // (4 * DIM)  # rows


@pytest.mark.weekly
def test_three_times_the_collection_takes_no_more_memory(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    measuring, searching = (importlib.import_module(f) for f in ("measuring", "measurements.searching"))
    searching.write_vectors(tmp_path / "queries.npy", 64, DIM, seed=0)
    sizes = {"depth": 10, "block_rows": 1024, "threads": 1}
    small, large = (
        searching.write_vectors(tmp_path / "passages.npy", factor * ONE_READ, DIM, seed=factor)
        and measuring.in_new_process(searching.measure_search, tmp_path, **sizes)
        for factor in (1, 3)
    )
    more_vectors_mb = 2 * READ_BYTES / 1e6
    for memory in ("peak_mb", "anonymous_mb"):
        assert large[memory] - small[memory] < more_vectors_mb / 8
    assert small["peak_mb"] - small["before_mb"] > READ_BYTES / 1e6  # it is the search's
