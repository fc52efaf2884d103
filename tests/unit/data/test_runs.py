"""Runs by query: the same hits and the same errors as line by line, whatever the lines look like."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from condenser.data import runs
from condenser.data.records import ScoredDoc, read_run, write_run
from condenser.data.runs import hits_by_query

Found = list[tuple[str, list[str], list[float]]] | str


def line_by_line(path: Path) -> Found:
    try:
        groups = [(key, list(hits)) for key, hits in groupby(read_run(path), key=attrgetter("query_id"))]
    except ValueError as error:
        return str(error)
    return [(key, [hit.doc_id for hit in hits], [hit.score for hit in hits]) for key, hits in groups]


def by_columns(path: Path) -> Found:
    try:
        return [(key, doc_ids.to_pylist(), scores.tolist()) for key, doc_ids, scores in hits_by_query(path)]
    except ValueError as error:
        return str(error)


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


GOOD = "q Q0 a 1 3.5 s\nq Q0 b 2 2 s\np Q0 a 1 .5e-3 s\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        GOOD,
        GOOD.removesuffix("\n"),
        GOOD + "q Q0 c 3 -inf s\n",
        GOOD.replace(" ", "\t"),
        GOOD.replace("\n", "\r\n"),
        GOOD.replace(" 2 s", "  2 s"),
        GOOD.replace("b", '"b'),
        GOOD.replace("b", "NULL"),
        GOOD.replace("b", "ä"),
        GOOD.replace("b", "\udcff"),  # no UTF-8
        GOOD.replace("b", "b\u00a0"),
        GOOD.replace("b", "b\x1f"),
        GOOD.replace("b", "b\x00"),
        GOOD.replace("b ", " "),
        GOOD.replace("2 s", "+2 s"),
        GOOD.replace("2 s", "1_0 s"),
        GOOD.replace("2 s", "0x2 s"),
        GOOD.replace("2 s", "nan s"),
        GOOD.replace("2 s", "1e999 s"),
        GOOD.replace("2 s", "1e-999 s"),
        GOOD.replace("2 s", "0.1234567890123456789 s"),
        GOOD.replace("2 s", "2"),
        GOOD.replace("2 s", "2 s t"),
        GOOD + "\n",
        "\n" + GOOD,
        " " + GOOD,
        GOOD + "q Q0 c 3 1 s ",
        GOOD + "q",
    ],
)
@pytest.mark.parametrize("block_bytes", [1, 20, 1 << 19])
def test_a_run_is_read_as_it_is_line_by_line(tmp_path, monkeypatch, text, block_bytes):
    monkeypatch.setattr(runs, "_BLOCK_BYTES", block_bytes)
    path = written(tmp_path / "run.trec", text)
    assert by_columns(path) == line_by_line(path)


@given(st.lists(st.text(alphabet="qä 1.-e\t\nn\r", max_size=12), max_size=30), st.integers(1, 60))
def test_any_text_is_read_as_it_is_line_by_line(tmp_path_factory, parts, block_bytes):
    path = written(tmp_path_factory.getbasetemp() / "any.trec", " ".join(parts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "_BLOCK_BYTES", block_bytes)
        assert by_columns(path) == line_by_line(path)


def test_lines_of_the_usual_form_are_not_read_one_by_one(tmp_path, monkeypatch):
    hits = [ScoredDoc(f"q{row // 7}", f"d{row}", 1 / (row + 1)) for row in range(100)]
    write_run(tmp_path / "run.trec", hits, system="s")
    expected = line_by_line(tmp_path / "run.trec")
    monkeypatch.setattr(runs, "parse_hit", None)
    monkeypatch.setattr(runs, "_BLOCK_BYTES", 64)
    assert by_columns(tmp_path / "run.trec") == expected
