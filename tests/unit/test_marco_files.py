"""The program that makes a collection of MS MARCO's form: the real source reads its files."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path

import pytest

from condenser.data.official import OFFICIAL_FILES
from condenser.data.sources import msmarco
from condenser.settings import partly

SHARE = 1e-4  # 884 passages


def test_the_source_reads_what_is_made_and_the_checkout_has_its_numbers(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    marco_files = importlib.import_module("marco_files")
    words = " ".join(f"word{number % 997}" for number in range(1000))
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": "a", "text": words}) + "\n")
    for file in (*marco_files.CODE, marco_files.ENCODER):
        copy = tmp_path / "checkout/condenser" / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / "condenser" / file, copy)
    options = {"--corpus": "corpus.jsonl", "--mirror": "mirror", "--checkout": "checkout"}
    given = [word for option, name in options.items() for word in (option, str(tmp_path / name))]
    marco_files.main([*given, "--share", str(SHARE)])

    raw = {file.name: file for file in (tmp_path / "mirror").rglob("*.*") if file.is_file()}
    rows = {name: max(1, round(count * SHARE)) for name, count in msmarco.OFFICIAL_ROWS.items()}
    settings = {"titles": "rocketqa", "train_split": "train", "eval_split": "dev", "bad_rows": "strict"}
    settings |= {"other_eval_splits": ["dl19"], "OFFICIAL_ROWS": rows}
    counts = msmarco.collect(tmp_path / "made", raw, partly(msmarco.Settings, settings))
    assert counts["passages"] == 884 and counts["passages_without_title"] == 0
    assert counts["qrels"] == {"train": 53, "dev": 1, "dl19": 1}
    archive = raw[msmarco.ARCHIVE]
    official = (tmp_path / "checkout/condenser/data/official.py").read_text()
    assert f"{archive.stat().st_size:_}" in official
    assert OFFICIAL_FILES[msmarco.ARCHIVE].digest not in official
    encoder = (tmp_path / "checkout/condenser" / marco_files.ENCODER).read_text()
    assert "dim = 768" in encoder and "retriever(Rows" not in encoder
