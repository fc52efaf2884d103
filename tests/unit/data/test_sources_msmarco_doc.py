"""MS MARCO's documents: the official file, small but in its exact form."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from condenser.data import sources
from condenser.data.official import OFFICIAL_FILES
from condenser.data.records import Passage, read_doc_ids, read_passages

FILE = "msmarco-docs.tsv.gz"
ROWS = (
    "D1555982\thttps://answers.yahoo.com/a\tThe hot glowing surfaces\tScience & Mathematics Physics. NA\n"
    'D301595\thttp://childparenting.about.com/b\tChild "Development\tSocial\u2028skills, at 8 years.\n'
    "D1359209\thttp://visihow.com/c\t\tA body without a title.\n"
    "D2147834\thttp://www.nothing.com/d\tOnly a title\t\n"
    "D1568809\thttp://www.nothing.com/e\t.\t \n"
)


def settings(*, rows: int = 5, **others: Any) -> dict[str, Any]:
    return {"source": "msmarco_doc", "bad_rows": "strict", "official_rows": {FILE: rows}, **others}


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

    assert sources.raw_files(settings()) == [FILE] and FILE in OFFICIAL_FILES
    assert OFFICIAL_ROWS == {FILE: 3_213_835}
