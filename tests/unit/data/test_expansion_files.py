"""Expansions of passages and queries: their forms, their order, and what is refused."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from condenser.data.expansions import expanded

TEXTS = [("a", "one"), ("b", "two"), ("c", "three")]


def expand(
    file: Path, lines: list[Any], *, by: str, field: str = "contents", weights: float | None = None
) -> tuple[list[str], Counter[str]]:
    rows = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    content = "".join(f"{row}\n" for row in rows).encode()
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)
    counts: Counter[str] = Counter()
    read = list(expanded(iter(TEXTS), file, by=by, field=field, weights=weights, counts=counts))
    assert [text_id for text_id, _ in read] == ["a", "b", "c"]
    return [text for _, text in read], counts


def test_line_i_of_a_text_file_stands_behind_text_i(tmp_path: Path) -> None:
    texts, counts = expand(
        tmp_path / "predicted_queries_topk.txt-1004000", ["what is 1", "", "x\ty"], by="row"
    )
    assert texts == ["one\nwhat is 1", "two", "three\nx\ty"]
    assert counts == {"expanded": 2, "not_expanded": 1}


def test_rows_of_jsonl_do_not_read_the_id_of_their_object(tmp_path: Path) -> None:
    """As GAR's expansions are released: ids are numbers of rows, titles one string."""
    rows = [{"id": str(number), "predicted_titles": [f"T{number} *** U"]} for number in range(3)]
    texts, _ = expand(tmp_path / "test.jsonl", rows, by="row", field="predicted_titles")
    assert texts == ["one\nT0 *** U", "two\nT1 *** U", "three\nT2 *** U"]


@pytest.mark.parametrize("name", ["q.jsonl", "q.tsv", "q.jsonl.gz", "q.tsv.gz"])
def test_lines_by_id_may_have_any_order_and_lack_texts(tmp_path: Path, name: str) -> None:
    pairs = [("c", "3"), ("none", "x"), ("a", "1 1"), ("other", "y")]
    lines: list[Any] = [{"id": of, "predicted_queries": text.split()} for of, text in pairs]
    if ".tsv" in name:
        lines = [f"{of}\t{text}" for of, text in pairs]
    texts, counts = expand(tmp_path / name, lines, by="id", field="predicted_queries")
    assert texts == ["one\n1 1", "two", "three\n3"]
    assert counts == {"expanded": 2, "not_expanded": 1, "unused_expansions": 2}


@pytest.mark.parametrize(
    ("by", "name", "lines"),
    [
        ("id", "q.tsv", ["\ufeffa\tx", "c\tz", "", "b\ty\r"]),
        ("id", "q.tsv.gz", ["\ufeffc\tz", "b\ty", "a\tx"]),
        ("row", "q.txt", ["\ufeffx", "y\r", "z"]),
        ("row", "q.jsonl.gz", ['\ufeff{"contents": "x"}', {"contents": ["y"]}, {"contents": "z"}]),
    ],
)
def test_marks_of_windows_are_no_words_and_gzip_is_unpacked(
    tmp_path: Path, by: str, name: str, lines: list[Any]
) -> None:
    texts, counts = expand(tmp_path / name, lines, by=by)
    assert texts == ["one\nx", "two\ny", "three\nz"]
    assert counts["expanded"] == 3 and not counts["unused_expansions"]


def test_weights_are_deepcts_equation_4_in_each_of_its_forms(tmp_path: Path) -> None:
    """round(100 y): .026 gives 3, .031 too, .004 none, a negative none; of equal words the largest counts."""
    by_term = [
        {"id": of, "contents": {"essay": 0.031, "bomb": 0.004, "of": -0.1, "is": 0.006}} for of in "abc"
    ]
    assert expand(tmp_path / "t.jsonl", by_term, by="id", weights=100)[0] == ["essay essay essay is"] * 3
    repeated = [{"id": "b", "contents": "essay essay essay"}]
    texts, counts = expand(tmp_path / "r.jsonl", repeated, by="id", weights=100)
    assert texts == ["one", "essay essay essay", "three"]  # a text without a line stays as it is
    assert counts["not_expanded"] == 2
    line = (
        "[CLS] 0.5\tob 0.02\t##lite 0.9\t##rated 0.0\tthe -0.002\tsea 0.01\tsea 0.026\tsea 0.02"
        "\t[SEP] -0.0\t[PAD] 0.4"
    )
    predicted = expand(tmp_path / "test_results.tsv", [line] * 3, by="row", weights=100)[0]
    assert predicted == ["obliterated obliterated sea sea sea"] * 3


@pytest.mark.parametrize(
    ("name", "lines", "by", "message"),
    [
        ("q.txt", ["x"], "row", r"q\.txt: expected a line for each text, got 1, none for 'b'\. Is it"),
        ("q.txt", ["x"] * 4, "row", r"q\.txt:4: expected 3 lines, one for each text, got more\. Is it"),
        ("q.tsv", ["a x"], "id", r"q\.tsv:1: expected an id, a tab and an expansion, got 'a x'\. Is it"),
        ("q.tsv", ["d1\tx", "d2\ty"], "id", r"q\.tsv: expected the ids of these texts, got 2 lines of"),
        ("q.jsonl", ["{"], "row", r"q\.jsonl:1: expected one JSON object, got "),
        ("q.jsonl", [{"id": "a"}], "row", r'q\.jsonl:1: expected a text, a list of texts in "contents", got'),
        ("q.jsonl", [{"contents": "x"}], "id", r'q\.jsonl:1: expected a field "id", got only '),
        ("q.jsonl", [{"id": "a", "contents": {"x": 1}}], "id", r'texts in "contents", got \{\'x\': 1\}'),
        ("q.tsv", ["a\tx", "a\ty", "b\tz"], "id", r"q\.tsv:2: expected one line for each id, got 'a' again"),
        ("q.tsv", ["c\tx", "b\ty", "a\tz", "", "c\t"], "id", r"q\.tsv:5: expected one .* id, got 'c' again"),
    ],
)  # fmt: skip
def test_a_line_that_does_not_fit_is_refused_with_its_place(
    tmp_path: Path, name: str, lines: list[Any], by: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        expand(tmp_path / name, lines, by=by)


@pytest.mark.parametrize("cell", ["essay", "essay nan", " 0.5"])
def test_a_cell_without_a_weight_is_refused(tmp_path: Path, cell: str) -> None:
    with pytest.raises(ValueError, match=r"t\.tsv:1: expected cells of a term, a space and its weight, got "):
        expand(tmp_path / "t.tsv", [f"a 0.1\t{cell}", "", ""], by="row", weights=100)
