"""What `make pages` makes of the code and of files is what the pages hold."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
import yaml


@pytest.fixture(scope="module")
def pages(root: Path) -> ModuleType:
    """The program docs/pages.py."""
    spec = importlib.util.spec_from_file_location("pages", root / "docs" / "pages.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_are_what_make_pages_writes(pages: ModuleType) -> None:
    made = {file: text.encode() for file, text in pages.pages().items()} | pages.pictures()
    assert len(made) > 8
    differ = [file.name for file, content in made.items() if file.read_bytes() != content]
    assert not differ, "run `make pages`"


def test_figures_that_are_written_by_hand_are_those_of_the_file(root: Path, pages: ModuleType) -> None:
    columns = ("value", "difference", "difference_low", "difference_high")
    texts = {line[column] for line in pages.results() for column in columns} - {""}
    known = {pages.as_figure(text).lstrip("-") for text in texts if re.fullmatch(r"-?[\d.]+", text)}
    for name in ("README.md", "docs/results.md"):
        by_hand = re.sub(r"<!-- made.*?<!-- end -->", "", (root / name).read_text(), flags=re.DOTALL)
        figures = re.findall(r"(?<![\d.\w])\.\d{3}\b", by_hand)
        assert figures and not [figure for figure in figures if figure not in known], name


def test_every_key_has_a_meaning(root: Path) -> None:
    rows = re.findall(r"^\| `.*$", (root / "docs" / "config.md").read_text(), flags=re.MULTILINE)
    assert len(rows) > 250
    assert not [row for row in rows if row.endswith("|  |")]


def refused(root: Path, overlay: Any) -> list[str]:
    """What an editor underlines in an overlay."""
    schema = json.loads((root / "docs" / "config.schema.json").read_text())
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(overlay)]


@pytest.mark.parametrize("folder", ["", "configs", "configs/tables", "docs/studies/*"])
def test_the_schema_accepts_every_configuration(root: Path, folder: str) -> None:
    files = sorted(root.glob(f"{folder}/[!.]*.yaml".lstrip("/")))
    assert files
    for file in files:
        assert refused(root, yaml.safe_load(file.read_text()) or {}) == [], file.name


@pytest.mark.parametrize(
    ("overlay", "message"),
    [
        ("seeds: 1", "'seeds' was unexpected"),
        ("datasets: {mine: {source: beir, pth: ../my}}", "'pth' was unexpected"),
        ("datasets: {mine: {source: beeir}}", "'beeir' is not one of"),
        ("objectives: {condenser: {late_mlm_weight: -1.0}}", "-1.0 is less than the minimum of 0"),
        ("systems: {mine: {kind: late, match: some}}", "'some' is not one of"),
    ],
)
def test_the_schema_refuses_what_the_workflow_refuses(root: Path, overlay: str, message: str) -> None:
    assert any(message in error for error in refused(root, yaml.safe_load(overlay)))


def test_tests_of_a_table_are_published_as_lines_of_their_study(
    pages: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "docs" / "studies" / "labels"
    study.mkdir(parents=True)
    (study / "README.md").touch()
    columns = (pages.ROOT / "docs" / "results.tsv").read_text().splitlines()[0]
    published = tmp_path / "docs" / "results.tsv"
    published.write_text(f"{columns}\n")
    tests = tmp_path / "results" / "mine" / "few.tests.tsv"
    tests.parent.mkdir(parents=True)
    names = (
        "row",
        "compared_with",
        "measure",
        "row_mean",
        "difference",
        "holm_p_value",
        "verdict",
        "row_seeds",
    )
    values = ("late", "start", "MRR@10", "0.5", "0.1", "0.01", "better", "1,2")
    tests.write_text("\t".join(names) + "\n" + "\t".join(values) + "\n")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    told = {"study": "labels", "commit": "1a2b3c4d", "settings": "few", "split": "test"}
    pages.publish([tests], told)
    (line,) = pages.results()
    shown = {
        key: line[key] for key in ("study", "dataset", "row", "value", "difference", "seeds", "comparisons")
    }
    assert shown == {
        "study": "labels", "dataset": "mine", "row": "late", "value": "0.5", "difference": "0.1",
        "seeds": "2", "comparisons": "1",
    }  # fmt: skip
    with pytest.raises(ValueError, match="expected new lines, got late in MRR@10"):
        pages.publish([tests], told)
    assert len(pages.results()) == 1
    with pytest.raises(ValueError, match="expected a folder of docs/studies, got 'nothing'"):
        pages.publish([tests], told | {"study": "nothing"})
