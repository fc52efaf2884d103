"""Rows left out under bad_rows: skip: the others come back unchanged, and every row is accounted for."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from bad_rows import rejected_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from own_collections import write_beir, write_tsv

from condenser.data import parsing
from condenser.data.records import read_doc_ids, read_passages, read_qrels, read_queries
from configs import sources


def test_bad_rows_are_left_out_counted_and_listed_when_they_may_be_skipped(tmp_path):
    described = write_tsv(
        tmp_path / "in",
        collection_tsv="broken\n\nd1\ta\nd2\tb\n\nd1\tagain\nd3\tc\n",
        qrels_train_tsv="q1 0 d1 1\nq1 0 d1 1\nq1 0 gone 1\nq7 0 d1 1\nq2 0 d2 1\n",
    ) | {"bad_rows": "skip"}
    counts = sources.collect(tmp_path / "out", {}, described)
    assert counts["files"]["collection.tsv"] == {"rows": 5, "kept": 3, "rejected": 2, "blank_lines": 2}
    assert counts["files"]["qrels.train.tsv"] == {"rows": 5, "kept": 2, "rejected": 2, "repeated": 1}
    first, *listed = rejected_rows(tmp_path / "out")
    assert first == {
        "file": "collection.tsv",
        "line": 1,
        "expected": "2 or 3 tab-separated columns (id, text or id, title, text)",
        "got": "1 in 'broken'",
    }
    assert [(row["file"], row["line"]) for row in listed] == [
        *(("collection.tsv", 6), ("qrels.train.tsv", 3), ("qrels.train.tsv", 4)),
    ]
    assert counts["rejected"] == 4
    assert counts["rejected_rows"] == {"passages": 2, "judgements of train": 2}


def test_no_row_of_a_link_out_of_the_folder_is_quoted(tmp_path):
    """A folder of others may lead to a private file."""
    secret = tmp_path / "secret"
    secret.write_text("password\n")
    (tmp_path / "linked").symlink_to(tmp_path / "in")
    for corpus, is_quoted in ((secret, False), ("real.jsonl", True)):
        described = write_beir(tmp_path / "in", **{"corpus.jsonl": "password\n"})
        (tmp_path / "in" / "corpus.jsonl").rename(tmp_path / "in" / "real.jsonl")
        (tmp_path / "in" / "corpus.jsonl").symlink_to(corpus)
        for path in (tmp_path / "in", tmp_path / "linked"):
            with pytest.raises(ValueError, match=r"corpus\.jsonl:1: expected one JSON object, got ") as said:
                sources.collect(tmp_path / "out", {}, described | {"path": str(path)})
            assert ("password" in str(said.value)) == is_quoted
        (tmp_path / "in" / "corpus.jsonl").unlink()
        parsing._leads_out.cache_clear()


def test_what_is_left_out_is_said_at_the_end_by_split(tmp_path, caplog):
    described = write_beir(
        tmp_path / "in",
        **{
            "corpus.jsonl": '{"_id": "d1", "title": "T", "text": ""}\n{"_id": "d2", "text": "two"}\n'
            '{"_id": "d3", "text": " "}\n',
            "qrels/dev.tsv": "query-id\tcorpus-id\tscore\nq2\td2\t2\nq2\td3\t1\nq2\td1\t0\nq1\td3\t1\n",
        },
    ) | {"bad_rows": "skip"}
    counts = sources.collect(tmp_path / "out", {}, described)
    assert caplog.messages[-1] == (
        "Left out as bad rows: 1 passages, 2 judgements of dev; rejected.jsonl lists them."
    )
    assert counts["queries_of_unknown_passages"] == {"dev": 1} and counts["queries"] == {"train": 1, "dev": 1}
    assert counts["passages"] == 2 and counts["qrels"] == {"train": 1, "dev": 2}
    assert next(read_passages(tmp_path / "out" / "collection.jsonl")).title == "T"


class Lines(NamedTuple):
    """A file's lines, what of them is to be kept, and the numbers of the lines that are not."""

    lines: list[bytes]
    kept: list[tuple]
    bad: list[int]


JSON_BAD = [
    *(b"{", b"[]", b'{"_id": "x"}', b'{"_id": "x", "text": ""}', b'{"_id": "x y", "text": "a"}'),
    *(b'{"_id": "anchor", "text": "a"}', b'{"_id": 1, "text": "a"}', b'{"_id": "x", "text": "\xff"}'),
    *(b'{"_id": "x", "text": "\\ud800"}', b'{"_id": "x\\u0000", "text": "a"}'),
    *(b'{"_id": "x", "text": "a", "text": "b"}', b'{"_id": "\\ufeffx", "text": "a"}'),
]
TSV_BAD = [
    *(b"x", b"x\t", b"x\ty\tz", b"\tx", b"anchor\tx", b"x y\tz", b"x\t\xff", b"x\tz\0"),
    *(b"\xef\xbb\xbfx\ty", b"x\x7f\ty", b"x" * 513 + b"\ty"),
]
QREL_BAD = [
    *(("anchor", "gone", "1"), ("gone", "anchor", "1"), ("anchor", "anchor", "2"), ("anchor", "anchor", "x")),
    *(("anchor", "anchor", "1", "1"), ("anchor", "anchor")),
]


def lines_of(rows: Sequence[tuple | bytes], write) -> Lines:
    """A row of bytes is a bad line; another is a record, which `write` makes a line of."""
    bad = [number for number, row in enumerate(rows, start=1) if isinstance(row, bytes)]
    kept = [row for row in rows if not isinstance(row, bytes)]
    return Lines([row if isinstance(row, bytes) else write(*row) for row in rows], kept, bad)


def json_line(record_id: str, text: str) -> bytes:
    return json.dumps({"_id": record_id, "text": text}, ensure_ascii=len(text) % 2 == 0).encode()


def tsv_line(record_id: str, text: str) -> bytes:
    return f"{record_id}\t{text}".encode()


def beir_judgement(query_id: str, *rest: str) -> bytes:
    return "\t".join((query_id, *map(str, rest))).encode()


def trec_judgement(query_id: str, *rest: str) -> bytes:
    return " ".join((query_id, "0", *map(str, rest))).encode()


@st.composite
def texts(draw, prefix: str, *, is_json: bool) -> Lines:
    """An anchor, then rows with any text among lines that fit nowhere."""
    characters = st.characters(codec="utf-8", exclude_characters="\0" if is_json else "\0\t\n\r")
    good = st.text(alphabet=characters, min_size=1, max_size=12).filter(str.strip)
    drawn = draw(st.lists(good | st.sampled_from(JSON_BAD if is_json else TSV_BAD), max_size=8))
    rows = [row if isinstance(row, bytes) else (f"{prefix}{i}", row) for i, row in enumerate(drawn)]
    return lines_of([("anchor", "holds the rest"), *rows], json_line if is_json else tsv_line)


@pytest.mark.parametrize("source", ["tsv", "beir"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_good_rows_among_bad_ones_are_kept_unchanged_and_the_bad_ones_listed(source, data):
    is_beir = source == "beir"
    write_judgement = beir_judgement if is_beir else trec_judgement
    passages = data.draw(texts("d", is_json=is_beir))
    queries = data.draw(texts("q", is_json=is_beir))
    last = passages.kept[-1][0]
    pairs = [
        ("anchor", "anchor", 1),
        *((query, last, grade) for grade, (query, _) in enumerate(queries.kept[1:])),
    ]
    bad = [
        write_judgement(*row)
        for row in data.draw(st.lists(st.sampled_from(QREL_BAD), max_size=4, unique=True))
    ]
    judgements = lines_of([*pairs, *bad], write_judgement)
    contents = {
        "corpus.jsonl" if is_beir else "collection.tsv": passages.lines,
        "queries.jsonl" if is_beir else "queries.train.tsv": queries.lines,
        "qrels/train.tsv" if is_beir else "qrels.train.tsv": judgements.lines,
    }
    anchored = {"qrels/dev.tsv" if is_beir else "qrels.dev.tsv": judgements.lines[:1]}
    if not is_beir:
        anchored["queries.dev.tsv"] = queries.lines[:1]
    with tempfile.TemporaryDirectory() as place:
        folder, out = Path(place, "in"), Path(place, "out")
        described = (write_beir if is_beir else write_tsv)(folder) | {"bad_rows": "skip"}
        for name, lines in (contents | anchored).items():
            header = [b"query-id\tcorpus-id\tscore"] if name.startswith("qrels/") else []
            (folder / name).write_bytes(b"".join(line + b"\n" for line in header + lines))
        counts = sources.collect(out, {}, described)
        assert [(p.doc_id, p.text) for p in read_passages(out / "collection.jsonl")] == passages.kept
        assert read_doc_ids(out / "doc_ids.txt") == [doc_id for doc_id, _ in passages.kept]
        assert [(q.query_id, q.text) for q in read_queries(out / "queries.train.jsonl")] == queries.kept
        assert [(q.query_id, q.doc_id, q.grade) for q in read_qrels(out / "qrels.train.tsv")] == pairs
        listed = rejected_rows(out)
    for path, rows in zip(contents, (passages, queries, judgements), strict=True):
        name = Path(path).name
        tally = counts["files"][name]
        assert tally["rows"] == tally["kept"] + tally["rejected"] == len(rows.lines)
        assert (tally["kept"], tally["rejected"]) == (len(rows.kept), len(rows.bad))
        offset = 1 if path.startswith("qrels/") else 0  # the header
        assert sorted(row["line"] - offset for row in listed if row["file"] == name) == rows.bad
