"""MS MARCO's documents: the official file, small but in its exact form."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from condenser.data.official import OFFICIAL_FILES
from condenser.data.records import Passage, Qrel, Query, read_doc_ids, read_passages, read_qrels, read_queries
from condenser.data.sources import msmarco_doc
from condenser.data.sources.msmarco_doc import Settings
from configs import sources

FILE = "msmarco-docs.tsv.gz"
ROWS = (
    "D1555982\thttps://answers.yahoo.com/a\tThe hot glowing surfaces\tScience & Mathematics Physics. NA\n"
    'D301595\thttp://childparenting.about.com/b\tChild "Development\tSocial\u2028skills, at 8 years.\n'
    "D1359209\thttp://visihow.com/c\t\tA body without a title.\n"
    "D2147834\thttp://www.nothing.com/d\tOnly a title\t\n"
    "D1568809\thttp://www.nothing.com/e\t.\t \n"
)
NO_SPLITS = {"train_split": None, "eval_split": None}
FEW = {  # rows of the files of queries
    "msmarco-doctrain-queries.tsv.gz": 3,
    "msmarco-doctrain-qrels.tsv.gz": 2,
    "msmarco-docdev-queries.tsv.gz": 1,
    "msmarco-docdev-qrels.tsv.gz": 1,
    "msmarco-test2019-queries.tsv.gz": 2,
    "2019qrels-docs.txt": 4,
}


def settings(*, rows: int = 5, **others: Any) -> dict[str, Any]:
    return {
        "source": "msmarco_doc",
        "bad_rows": "strict",
        "official_rows": {FILE: rows, **FEW},
        **NO_SPLITS,
        **others,
    }


def written(folder: Path, content: str | bytes) -> dict[str, Path]:
    path = folder / FILE
    path.write_bytes(gzip.compress(content.encode() if isinstance(content, str) else content))
    return {FILE: path}


def test_documents_keep_id_title_and_body_and_those_without_a_body_are_counted(tmp_path: Path) -> None:
    out = tmp_path / "out"
    counts = sources.collect(out, written(tmp_path, ROWS), settings())
    assert list(read_passages(out / "collection.jsonl")) == [
        Passage("D1555982", "The hot glowing surfaces", "Science & Mathematics Physics. NA"),
        Passage("D301595", 'Child "Development', "Social\u2028skills, at 8 years."),
        Passage("D1359209", "", "A body without a title."),
    ]
    assert read_doc_ids(out / "doc_ids.txt") == ["D1555982", "D301595", "D1359209"]
    assert counts["files"] == {FILE: {"rows": 5, "kept": 3, "rejected": 0, "without_text": 2}}
    assert counts["passages"] == 3 and counts["queries"] == {}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("D9\thttp://a\tA title and no body\n", r":2: expected 4 tab-separated columns \(id, url, title, bo"),
        ("D9\thttp://a\ttitle\tbody\tmore\n", ":2: expected 4 tab-separated columns .*, got 5"),
        ("D1\thttp://a\ttitle\tbody\n", ":2: expected unique passage ids, got 'D1' again"),
        ("\thttp://a\ttitle\tbody\n", ":2: expected a passage id without white space, got ''"),
        (b"D9\thttp://a\ttitle\tb\xe9\n", ":2: expected UTF-8 text, got the byte 0xe9"),
        ("D9\thttp://a\ttitle\tbo\0dy\n", ":2: expected a passage text without NUL"),
    ],
)
def test_a_malformed_row_is_an_error_and_can_be_skipped(
    tmp_path: Path, row: str | bytes, message: str
) -> None:
    content = b"D1\thttp://a\tt\tone\n" + (row if isinstance(row, bytes) else row.encode())
    raw = written(tmp_path, content + b"D2\thttp://b\tt\ttwo\n")
    with pytest.raises(ValueError, match=message):
        sources.collect(tmp_path / "strict", raw, settings(rows=3))
    counts = sources.collect(tmp_path / "out", raw, settings(rows=3, bad_rows="skip"))
    assert counts["files"][FILE] == {"rows": 3, "kept": 2, "rejected": 1}
    assert read_doc_ids(tmp_path / "out" / "doc_ids.txt") == ["D1", "D2"]
    rejected = (tmp_path / "out" / "rejected.jsonl").read_text().splitlines()
    assert [json.loads(line)["line"] for line in rejected] == [2]


def test_another_number_of_rows_than_the_official_one_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"msmarco-docs.tsv.gz: expected the official 6 rows, got 5"):
        sources.collect(tmp_path / "out", written(tmp_path, ROWS), settings(rows=6))
    assert not list((tmp_path / "out").iterdir())


def test_a_shortened_file_is_named(tmp_path: Path) -> None:
    raw = written(tmp_path, ROWS)
    raw[FILE].write_bytes(raw[FILE].read_bytes()[:-6])
    with pytest.raises(ValueError, match=r"msmarco-docs.tsv.gz: expected a complete archive"):
        sources.collect(tmp_path / "out", raw, settings())


def test_the_file_that_is_read_is_official_and_all_of_it_is_wanted() -> None:
    from condenser.data.sources.msmarco_doc import OFFICIAL_ROWS

    assert sources.raw_files(settings()) == [FILE] and set(OFFICIAL_ROWS) <= set(OFFICIAL_FILES)
    assert OFFICIAL_ROWS[FILE] == 3_213_835
    assert set(OFFICIAL_ROWS) == {FILE, *FEW}
    assert OFFICIAL_ROWS["msmarco-docdev-qrels.tsv.gz"] == 5_193  # a judgement a query


def test_without_splits_it_is_texts_as_the_papers_overlay_has_it() -> None:
    assert Settings(source="msmarco_doc").model_dump()["train_split"] is None
    assert sources.splits(Settings(source="msmarco_doc").model_dump()) == []


def with_queries(folder: Path, **replaced: str) -> dict[str, Path]:
    """All files; those given by name are other ones."""
    content = {
        "msmarco-doctrain-queries.tsv.gz": "3\thot surfaces\n5\tnever judged\n6\tnothing\n",
        "msmarco-doctrain-qrels.tsv.gz": "3 0 D1555982 1\n6 0 D2147834 1\n",
        "msmarco-docdev-queries.tsv.gz": "2\tsocial\u2028skills\n",
        "msmarco-docdev-qrels.tsv.gz": "2 0 D301595 1\n",
        "msmarco-test2019-queries.tsv.gz": "9\tgraded\n10\tof the 157 that are not judged\n",
        "2019qrels-docs.txt": "9 Q0 D1555982 0\n9 Q0 D301595 3\n9 Q0 D1359209 1\n9 Q0 D77 2\n",
        **replaced,
    }
    raw = written(folder, ROWS + "D77\thttp://www.nothing.com/f\t\t\n")
    for name, text in content.items():
        raw[name] = folder / name
        raw[name].write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return raw


def test_queries_and_judgements_make_it_a_data_set(tmp_path: Path) -> None:
    raw = with_queries(tmp_path)
    full = settings(rows=6, train_split="train", eval_split="dev")
    assert set(sources.raw_files(full)) == {FILE, *(name for name in FEW if "msmarco-doc" in name)}
    counts = sources.collect(tmp_path / "out", raw, full)
    # one without a body is found by its title; one without either cannot be
    passages = list(read_passages(tmp_path / "out" / "collection.jsonl"))
    assert [passage.doc_id for passage in passages[:3]] == ["D1555982", "D301595", "D1359209"]
    assert passages[3:] == [Passage("D2147834", "", "Only a title"), Passage("D1568809", "", ".")]
    assert counts["files"][FILE] == {
        "rows": 6,
        "kept": 5,
        "rejected": 0,
        "without_text": 1,
        "title_as_text": 2,
    }
    assert counts["queries"] == {"train": 2, "dev": 1} and counts["qrels"] == {"train": 2, "dev": 1}
    assert list(read_queries(tmp_path / "out" / "queries.dev.jsonl")) == [Query("2", "social\u2028skills")]
    assert list(read_qrels(tmp_path / "out" / "qrels.train.tsv")) == [
        Qrel("3", "D1555982", 1), Qrel("6", "D2147834", 1),
    ]  # fmt: skip


def test_topics_of_trec_keep_their_grades_and_grade_1_is_relevant(tmp_path: Path) -> None:
    full = settings(rows=6, train_split="train", eval_split="dl19")
    counts = sources.collect(tmp_path / "out", with_queries(tmp_path), full)
    qrels = list(read_qrels(tmp_path / "out" / "qrels.dl19.tsv"))
    assert qrels == [Qrel("9", "D1555982", 0), Qrel("9", "D301595", 3), Qrel("9", "D1359209", 1)]
    assert counts["queries"]["dl19"] == 1
    assert counts["files"]["2019qrels-docs.txt"]["of_documents_without_text"] == 1
    assert not hasattr(msmarco_doc, "LEAST_GRADES")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "msmarco-docdev-qrels.tsv.gz",
            "2 0 D7 1\n",
            "qrels.tsv.gz:1: expected the id of a passage of the coll",
        ),
        ("msmarco-docdev-qrels.tsv.gz", "2 D301595 1\n", r"qrels.tsv.gz:1: expected 4 columns"),
        (
            "msmarco-docdev-queries.tsv.gz",
            "2 social\n",
            r"queries.tsv.gz:1: expected 2 tab-separated columns",
        ),
        ("msmarco-docdev-queries.tsv.gz", "2\ta\n3\tb\n", "expected the official 1 rows, got 2"),
    ],
)
def test_malformed_queries_and_judgements_are_errors(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    full = settings(rows=6, train_split="train", eval_split="dev")
    with pytest.raises(ValueError, match=message):
        sources.collect(tmp_path / "out", with_queries(tmp_path, **{name: text}), full)
