"""Texts in the layout of the hub's Wikipedia and BookCorpus, read by the client that streams them."""

from __future__ import annotations

import json

import pyarrow
import pyarrow.parquet
import pytest

from condenser.data import sources
from condenser.data.records import Passage, read_doc_ids, read_passages

ARTICLES = [
    {
        "id": "12",
        "url": "u",
        "title": "Anarchism",
        "text": "First paragraph here.\nIts second line.\n\nNotes\n\nThird one follows.",
    },
    {"id": "25", "url": "u", "title": "Autism", "text": "A single paragraph only."},
]


@pytest.fixture
def hub(tmp_path):
    wikipedia = tmp_path / "wikipedia" / "20231101.en"
    wikipedia.mkdir(parents=True)
    for number, article in enumerate(ARTICLES):
        table = pyarrow.Table.from_pylist([article])
        pyarrow.parquet.write_table(table, wikipedia / f"train-0000{number}-of-00002.parquet")
    books = tmp_path / "bookcorpus"
    books.mkdir()
    lines = [json.dumps({"text": f"sentence number {i} ."}) for i in range(5)]
    (books / "train-00000-of-00001.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def collected(hub, *parts, bad_rows="strict"):
    described = {"source": "hub_text", "parts": list(parts), "bad_rows": bad_rows}
    return sources.collect(hub / "out", {}, described), list(read_passages(hub / "out" / "collection.jsonl"))


def test_an_article_gives_a_passage_a_paragraph_with_its_title(hub):
    part = {"id": str(hub / "wikipedia"), "config": "20231101.en", "min_words": 2}
    counts, passages = collected(hub, part)
    assert passages == [
        Passage("0", "Anarchism", "First paragraph here.\nIts second line."),
        Passage("1", "Anarchism", "Third one follows."),
        Passage("2", "Autism", "A single paragraph only."),
    ]
    assert counts["short_passages"] == {str(hub / "wikipedia"): 1}  # the heading


def test_sentences_of_a_book_are_joined_and_the_last_few_are_kept(hub):
    _, passages = collected(hub, {"id": str(hub / "bookcorpus"), "rows_per_passage": 2})
    assert [passage.text for passage in passages] == [
        "sentence number 0 . sentence number 1 .",
        "sentence number 2 . sentence number 3 .",
        "sentence number 4 .",
    ]


def test_parts_follow_each_other_with_running_ids_and_no_queries(hub):
    counts, passages = collected(
        hub,
        {"id": str(hub / "bookcorpus"), "max_rows": 2},
        {"id": str(hub / "wikipedia"), "config": "20231101.en", "max_rows": 1},
    )
    assert [passage.doc_id for passage in passages] == ["0", "1", "2", "3", "4"]
    assert read_doc_ids(hub / "out" / "doc_ids.txt") == ["0", "1", "2", "3", "4"]
    assert (counts["passages"], counts["queries"]) == (5, {})
    assert sorted(file.name for file in (hub / "out").iterdir()) == [
        "collection.jsonl",
        "counts.json",
        "doc_ids.txt",
        "rejected.jsonl",
    ]


def test_a_row_without_text_stops_the_work_or_is_counted(hub):
    file = hub / "bookcorpus" / "train-00000-of-00001.jsonl"
    file.write_text('{"text": "good one"}\n{"text": null}\n{"text": "bad \\u0000 one"}\n{"text": "last"}\n')
    with pytest.raises(ValueError, match="bookcorpus:2: expected a text, got None"):
        collected(hub, {"id": str(hub / "bookcorpus")})
    counts, passages = collected(hub, {"id": str(hub / "bookcorpus")}, bad_rows="skip")
    assert counts["files"]["bookcorpus"] == {"rows": 4, "kept": 2, "rejected": 2}
    assert passages == [Passage("0", "", "good one"), Passage("3", "", "last")]  # no id shifts


def test_a_row_without_text_among_those_of_one_passage_takes_no_id(hub):
    file = hub / "bookcorpus" / "train-00000-of-00001.jsonl"
    file.write_text('{"text": "one"}\n{"text": null}\n{"text": "two"}\n{"text": "three"}\n')
    part = {"id": str(hub / "bookcorpus"), "rows_per_passage": 2}
    _, passages = collected(hub, part, bad_rows="skip")
    assert passages == [Passage("0", "", "one"), Passage("1", "", "two three")]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"column": "body"}, "expected a column 'body', got text. Set `column`"),
        ({"split": "test"}, r"expected test\*\.parquet or test\*\.jsonl, got none"),
    ],
)
def test_a_part_that_is_not_as_described_says_so(hub, part, message):
    with pytest.raises(ValueError, match=message):
        collected(hub, {"id": str(hub / "bookcorpus")} | part)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"text": "a"}\n{"text": broken\n', "expected rows to read behind row 0, got damaged ones"),
        (b'{"text": "a"}\n{"text": "\xff"}\n', "expected rows to read behind row [01], got damaged ones"),
        (b"", "expected a dataset of the hub or a folder in its layout"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(hub, content, message):
    (hub / "bookcorpus" / "train-00000-of-00001.jsonl").write_bytes(content)
    with pytest.raises(ValueError, match=f"bookcorpus: {message}") as caught:
        collected(hub, {"id": str(hub / "bookcorpus")}, bad_rows="skip")
    assert "\n" not in str(caught.value)
    assert list((hub / "out").iterdir()) == []


def test_a_parquet_file_that_was_cut_or_changed_is_one_line_and_a_script_beside_it_is_not_run(hub):
    folder = hub / "wikipedia" / "20231101.en"
    (folder / "20231101.en.py").write_text("raise SystemExit('ran')")
    file = folder / "train-00000-of-00002.parquet"
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:8] + bytes(60) + whole[68:]):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"^[^\n]*wikipedia: expected [^\n]*$"):
            collected(hub, {"id": str(hub / "wikipedia"), "config": "20231101.en"})
    file.write_bytes(whole)
    assert len(collected(hub, {"id": str(hub / "wikipedia"), "config": "20231101.en"})[1]) == 4


def test_a_dataset_that_cannot_be_reached_is_one_line(hub):
    with pytest.raises(ValueError, match=r"^nobody/nothing: expected a dataset of the hub[^\n]*$"):
        collected(hub, {"id": "nobody/nothing"})


def test_the_files_of_a_folder_are_declared_in_their_order(hub):
    settings = {"source": "hub_text", "parts": [{"id": str(hub / "wikipedia"), "config": "20231101.en"}]}
    assert [file.name for file in sources.local_files(settings)] == [
        "train-00000-of-00002.parquet",
        "train-00001-of-00002.parquet",
    ]
