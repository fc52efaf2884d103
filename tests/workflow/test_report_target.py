"""The report of the tiny run makes nothing else, shows what is there, and follows what changes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graphs import Load
from runs import checkout, digests, finished, rows_of, run, started_rules

from condenser.files import read_json

REPORT = "results/tiny/report.html"
OVERLAY = {
    "figures": {"losses": {"kind": "loss_curve", "table": "table2", "epochs": 1, "updates": 2}},
    # a table that cannot be made
    "models": {"gone": {"objective": "checkpoint", "source": "folder", "path": "no/such/folder"}},
    "systems": {"gone": {"kind": "biencoder", "initial": "gone", "negatives": ["bm25"]}},
    "tables": {"gone": {"rows": ["gone"], "measures": ["MRR@10"]}},
}


def test_a_report_has_no_job_behind_it(load: Load) -> None:
    graph = load()
    assert graph.jobs("results/msmarco/report.html") == ["report msmarco"]
    assert all(
        file.startswith("condenser/report/") or "/condenser/report/" in file
        for file in graph.inputs("report msmarco")
    )


@pytest.mark.ci
def test_a_report_shows_what_is_there_and_makes_nothing_else(copy_of_golden: Callable[[], Path]) -> None:
    folder = copy_of_golden()
    before = digests(folder)
    options: dict[str, Any] = {"target": REPORT, "cores": 1}
    said = finished(folder, **options)
    assert started_rules(said) == {"report"}
    after = digests(folder)
    assert {name: after[name] for name in before} == before and set(after) - set(before) == {
        "tiny/report.html"
    }

    text = (folder / REPORT).read_text()
    for row in rows_of(folder / "results/tiny/table2.tsv"):
        assert row["method"] in text and row["MRR@10"] in text and row["R@1000_high"] in text
    command = "make results/tiny/table2.tests.tsv CONFIG=configs/tiny.yaml"
    assert command in text
    manifest = read_json(folder / f"{REPORT}.manifest.json")
    counts = manifest["counts"]
    assert counts["out_of_date"] == 0 and counts["tables"] == 1 and counts["missing"] > 3
    assert counts["queries"] == counts["queries_of_evaluation"] > 10
    inputs = set(manifest["inputs"])
    assert {"table2.tsv", "data/collection.jsonl", "systems/bm25/untrained/run.dev.trec"} <= inputs
    assert "models/cocondenser/losses.jsonl" in inputs  # learning curves of models, too
    assert not any(name.endswith(".manifest.json") for name in inputs)

    # more is there: a figure and tests
    (folder / "overlay.yaml").write_text(json.dumps(OVERLAY))
    overlays = ["overlay.yaml"]
    finished(
        folder, "results/tiny/table2.tests.tsv", target="results/tiny/losses.svg", cores=1, overlays=overlays
    )
    assert run(folder, target="verify", overlays=overlays).returncode == 0  # what it shows is still so
    assert started_rules(finished(folder, **options, overlays=overlays)) == {"report"}
    text = (folder / REPORT).read_text()
    assert command not in text and "Which differences hold" in text
    (why,) = re.findall(r"tiny/gone\.tsv</strong>\s*<span[^>]*>([^<]*)", text)
    assert why.startswith("config: models.gone.path: expected a Hugging Face folder")
    assert "data:image/svg+xml;base64," in text
    assert started_rules(finished(folder, "-n", **options, overlays=overlays)) == set()


@pytest.mark.ci
def test_what_is_asked_for_with_a_report_is_made_before_it(copy_of_golden: Callable[[], Path]) -> None:
    folder = copy_of_golden()
    asked = folder / "results/tiny/table2.tsv"
    asked.unlink()
    Path(f"{asked}.manifest.json").unlink()
    said = finished(folder, "./results/tiny/table2.tsv", target=REPORT, cores=2)
    assert started_rules(said) == {"table", "report"}
    assert "results/tiny/table2.tsv" in (folder / REPORT).read_text()
    assert not any(
        "table2" in file for file in read_json(folder / f"{REPORT}.manifest.json")["spec"]["lineage"]
    )
    assert started_rules(finished(folder, "-n", target=REPORT, cores=2)) == set()  # alone


@pytest.mark.ci
def test_snakemakes_own_report_has_the_tables_with_their_captions(
    copy_of_golden: Callable[[], Path], root: Path
) -> None:
    folder = copy_of_golden()
    shutil.copytree(root / "docs" / "captions", folder / "docs" / "captions")
    finished(folder, "--report", "own.html", cores=1)
    page = (folder / "own.html").read_text()
    assert "trained the Condenser and coCondenser way" in page and "table2.tsv" in page
    assert "Measures of the systems of table table2 on tiny" in page


def test_a_report_of_nothing_says_what_to_do(root: Path, tmp_path: Path) -> None:
    folder = checkout(root, tmp_path / "fresh")
    assert started_rules(finished(folder, target=REPORT, cores=1)) == {"report"}
    text = (folder / REPORT).read_text()
    assert "Nothing has been measured yet" in text
    assert "make results/tiny/table2.tsv CONFIG=configs/tiny.yaml" in text
