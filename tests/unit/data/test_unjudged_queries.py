"""Files of queries without judgements: what is read, what is refused, what is counted."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from bad_rows import rejected_rows

from condenser.data.records import Passage, Query, read_queries, write_passages, write_queries
from condenser.data.unjudged import collect_unjudged, new_queries
from configs import sources

JSON_LINES = '{"_id": "q1", "text": "first?"}\n{"_id": "q2", "text": "second?", "metadata": {}}\n'
TABLE = "q1\tfirst?\nq2\tsecond?\n"
JSON_LINE = '{{"_id": "{}", "text": "x"}}'


def collected(
    folder: Path,
    name: str,
    content: str | bytes,
    *,
    bad_rows: str = "strict",
    passages: Sequence[Passage] = (),
    is_split: bool = False,
) -> dict:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    write_passages(folder / "collection.jsonl", passages)
    (folder / "doc_ids.txt").write_text("".join(f"{one.doc_id}\n" for one in passages))
    texts = {"collection": folder / "collection.jsonl", "doc_ids": folder / "doc_ids.txt"}
    return collect_unjudged(
        folder / name, folder / "out", **texts, is_split=is_split, name="log", bad_rows=bad_rows
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("log.jsonl", JSON_LINES),
        ("log.tsv", TABLE),
        ("log.jsonl.gz", gzip.compress(JSON_LINES.encode(), mtime=0)),
        ("log.tsv.gz", gzip.compress(TABLE.encode(), mtime=0)),
        ("log.tsv", gzip.compress(TABLE.encode(), mtime=0)),  # gzip under a plain name, as of a collection
        ("log.tsv", "\ufeffq1\tfirst?\r\n\r\nq2\tsecond?\r\n"),
    ],
)
def test_both_forms_give_the_same_queries_in_their_order_plain_or_gzip(
    tmp_path: Path, name: str, content: str | bytes
) -> None:
    counts = collected(tmp_path, name, content)
    queries = list(read_queries(tmp_path / "out" / "queries.log.jsonl"))
    assert queries == [Query("q1", "first?"), Query("q2", "second?")]
    assert counts["queries"] == {"log": 2} and counts["rejected"] == 0
    assert {"rows": 2, "kept": 2, "rejected": 0}.items() <= counts["files"][name].items()
    assert json.loads((tmp_path / "out" / "counts.json").read_text()) == counts


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("log.tsv", "q2", "2 tab-separated columns (id, text), got 1 in 'q2'"),
        ("log.tsv", "q1\tb", "unique query ids, got 'q1' again"),
        ("log.jsonl", "q2\tb", "one JSON object, got 'q2\\tb'"),
        ("log.jsonl", '{"_id": "q2", "text": ""}', "a query text that is not empty"),
    ],
)
def test_a_bad_row_is_refused_with_file_and_line_or_left_out(
    tmp_path: Path, name: str, line: str, expected: str
) -> None:
    first, last = (
        ("q1\tx", "q3\tx") if name == "log.tsv" else (JSON_LINE.format("q1"), JSON_LINE.format("q3"))
    )
    content = f"{first}\n{line}\n{last}\n"
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        collected(tmp_path, name, content)
    assert f"{name}:2: expected {expected}" in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []
    counts = collected(tmp_path, name, content, bad_rows="skip")
    assert [query.query_id for query in read_queries(tmp_path / "out" / "queries.log.jsonl")] == ["q1", "q3"]
    assert counts["files"][name] == {"rows": 3, "kept": 2, "rejected": 1} and counts["rejected"] == 1
    assert [row["line"] for row in rejected_rows(tmp_path / "out")] == [2]


def test_a_file_without_queries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"log\.tsv: expected queries, got none that can be used"):
        collected(tmp_path, "log.tsv", "", bad_rows="skip")


@pytest.mark.parametrize("is_split", [False, True])
def test_a_query_that_is_a_text_of_the_collection_is_marked_and_counted(
    tmp_path: Path, is_split: bool
) -> None:
    """By id and text together; a title alone is no text: such a passage may be the answer."""
    texts = {"q1": ("", "FIRST? "), "q2": ("Second?", "It is."), "q3": ("The", "third?"), "q4": ("", "other")}
    end = "#1" if is_split else ""
    passages = [Passage(f"{doc_id}{end}", *of_doc) for doc_id, of_doc in texts.items()]
    log = "q1\tfirst?\nq2\tsecond?\nq3\tthe third?\nq4\tfourth?\n"
    counts = collected(tmp_path, "log.tsv", log, passages=passages, is_split=is_split)
    queries = read_queries(tmp_path / "out" / "queries.log.jsonl")
    assert [query.query_id for query in queries if query.in_collection] == ["q1", "q3"]
    assert counts["queries_in_collection"] == {"log": 2}


def test_a_file_of_queries_must_be_there_before_anything_runs(tmp_path: Path) -> None:
    settings = {"source": "pydoc", "queries": {"log": str(tmp_path / "log.tsv")}}
    message = r"^datasets\.mine\.queries\.log: expected a file of queries at .*log\.tsv, found none"
    with pytest.raises(ValueError, match=message):
        sources.check_local_files({"mine": settings})
    (tmp_path / "log.tsv.gz").write_bytes(gzip.compress(TABLE.encode(), mtime=0))
    sources.check_local_files({"mine": settings})
    assert sources.unjudged(settings) == {"log": tmp_path / "log.tsv.gz"}


def test_a_query_of_a_split_is_not_new_by_its_text_whatever_its_id(tmp_path: Path) -> None:
    of_files = {
        "train": [Query("1", "What is a matrix?")],
        "dev": [Query("2", "who wrote  it")],
        "log": [
            *(Query("1", "another text"), Query("a", "what is a\tmatrix?"), Query("b", "Who wrote it")),
            *(Query("c", "who wrote it?"), Query("d", "who wrote it?")),
        ],
    }
    files = {name: tmp_path / f"{name}.jsonl" for name in of_files}
    for name, queries in of_files.items():
        write_queries(files[name], queries)
    assert new_queries(files["log"], [files["train"], files["dev"]]) == {"1", "c", "d"}
    assert len(new_queries(files["log"], [])) == 5
