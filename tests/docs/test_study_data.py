"""The script that makes the studies' collections, on small files in the form of the real ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ASKED = {"id": "q1", "question": "Which is even?", "answers": [{"text": "Two", "answer_start": 0}]}
ARTICLES = [
    {"title": "Warsaw", "paragraphs": [{"context": "It is large.", "qas": []}]},
    {"title": "Prime_number", "paragraphs": [{"context": "Two is prime.", "qas": [ASKED]}]},
]
DOCUMENT = """<?xml version="1.0" encoding="UTF-8"?>
<Document id="{id}" source="CancerGov" url="http://example.org"><Focus>Rust</Focus>
<QAPairs>{pairs}</QAPairs></Document>
"""
PAIR = """<QAPair pid="{pid}"><Question qid="{pid}" qtype="information">{question}</Question>
<Answer>{answer}</Answer></QAPair>"""


def made(root: Path, *arguments: Path | str) -> str:
    program = [sys.executable, str(root / "docs/studies/data/make.py"), *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, check=True, timeout=60).stdout


def rows(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_squad_is_split_by_article(root: Path, tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text(json.dumps({"data": ARTICLES, "version": "1.1"}))
    said = made(root, "squad", tmp_path / "dev.json", tmp_path / "squad")
    assert said.count("DIFFERS from the studies") == 5
    passages = rows(tmp_path / "squad/corpus.jsonl")
    assert [row["_id"] for row in passages] == ["Prime_number#0", "Warsaw#0"]
    assert passages[0]["title"] == "Prime number"
    assert (tmp_path / "squad/qrels/test.tsv").read_text().splitlines()[1:] == ["q1\tPrime_number#0\t1"]


def test_medquad_has_each_answer_and_each_question_once(root: Path, tmp_path: Path) -> None:
    def write(folder: str, name: str, *pairs: tuple[str, str, str]) -> None:
        text = "".join(PAIR.format(pid=pid, question=asked, answer=answer) for pid, asked, answer in pairs)
        (tmp_path / "clone" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "clone" / folder / f"{name}.xml").write_text(DOCUMENT.format(id=name, pairs=text))

    write("1_CancerGov_QA", "0000001_6", ("1", "What is  rust ?", "Iron\n oxide."), ("2", "Why ?", ""))
    write("2_GARD_QA", "0000002", ("1", "What is rust ?", "Decay."), ("1", "Who rusts ?", "Iron oxide."))
    made(root, "medquad", tmp_path / "clone", tmp_path / "medquad")
    passages, queries = (rows(tmp_path / f"medquad/{name}.jsonl") for name in ("corpus", "queries"))
    assert [(row["_id"], row["text"]) for row in passages] == [
        ("1:0000001_6-1", "Iron oxide."),
        ("2:0000002-1", "Decay."),
    ]
    assert [(row["_id"], row["split"]) for row in queries] == [
        ("1:0000001_6-1", "test"),  # by medquad_splits.tsv
        ("2:0000002-1~1", "train"),
    ]
    test, train = ((tmp_path / f"medquad/qrels/{split}.tsv").read_text() for split in ("test", "train"))
    assert test.splitlines()[1:] == ["1:0000001_6-1\t1:0000001_6-1\t1", "1:0000001_6-1\t2:0000002-1\t1"]
    assert train.splitlines()[1:] == ["2:0000002-1~1\t1:0000001_6-1\t1"]
