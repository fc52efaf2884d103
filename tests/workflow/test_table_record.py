"""The record of a table is made from what is there, and tells whether another run gave the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from runs import edit, finished, run, started_rules

from condenser.pipeline.record import read_record

RECORD = "results/tiny/table2.record.json"


@pytest.mark.ci
def test_verify_names_the_first_job_whose_results_differ_from_a_record(
    copy_of_golden: Callable[[], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copy_of_golden()
    said = finished(folder, target=RECORD)
    assert started_rules(said) == {"record"}
    assert started_rules(finished(folder, target=RECORD)) == set()
    table = folder / "results/tiny/table2.tsv"
    table.unlink()
    Path(f"{table}.manifest.json").unlink()
    assert started_rules(finished(folder)) == {"table"}
    assert started_rules(finished(folder, target=RECORD)) == {"record"}  # a manifest in it has other times
    record = read_record(folder / RECORD)
    assert f"{len(record['jobs'])} jobs, digest of all results {record['digest']}" in said
    assert [job["rule"] for job in record["jobs"]][-1] == "table"
    moved = (folder / RECORD).rename(tmp_path / "of another machine.json")
    (folder / f"{RECORD}.manifest.json").unlink()

    monkeypatch.setenv("AGAINST", str(moved))
    said = finished(folder, target="verify")
    assert (
        f" of {len(record['jobs'])} jobs compared, all with the same results; digest {record['digest']}"
        in said
    )

    edit(folder, "config.yaml", "label: BM25,", "label: BM 25,")
    finished(folder)
    differs = run(folder, target="verify")
    assert differs.returncode != 0
    assert re.search(
        rf"^{re.escape(str(moved))}: the first job with other results is "
        r"table tiny table2: results/tiny/table2\.tsv has other bytes$",
        differs.stdout,
        re.MULTILINE,
    )
    assert "0 findings" in differs.stdout
