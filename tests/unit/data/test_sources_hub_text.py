"""Texts in the layout of the hub's Wikipedia and BookCorpus, read by the client that streams them."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from bad_rows import refuse_and_skip, rejected_rows

from condenser.data.records import Passage, read_doc_ids, read_items, read_passages
from condenser.data.sources import hub_text
from condenser.settings import partly
from configs import sources

PARAGRAPHS = "First paragraph here.\nIts second line.\n\nNotes\n\nThird one follows."
ARTICLES = [
    {"id": "12", "url": "u", "title": "Anarchism", "text": PARAGRAPHS},
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


def described(*parts, bad_rows="strict"):
    made = [dict(hub_text.Part(**part)) for part in parts]
    return {"source": "hub_text", "parts": made, "bad_rows": bad_rows}


def collected(hub, *parts, bad_rows="strict"):
    counts = sources.collect(hub / "out", {}, described(*parts, bad_rows=bad_rows))
    return counts, list(read_passages(hub / "out" / "collection.jsonl"))


def test_neighbouring_sentences_are_pairs_of_rows_that_follow_each_other(hub):
    books = hub / "bookcorpus"
    (books / "train-00001-of-00001.jsonl").write_text(
        '{"text": "again one"}\n{"text": 3}\n{"text": "last"}\n'
    )
    parts = described({"id": str(books), "max_rows": 8}, {"id": str(books), "max_rows": 2})
    settings = {**parts, "source": "neighbours", "train_split": "train"}
    counts, listed = refuse_and_skip(hub / "out", {}, settings, "jsonl:2: expected a text, got 3.")
    text = "sentence number {} .".format
    pairs = [(text(0), text(1)), (text(1), text(2)), (text(2), text(3)), (text(3), text(4))]
    pairs += [(text(4), "again one"), (text(0), text(1))]  # not over the row of no text, nor over parts
    items = list(read_items(hub / "out" / "items.train.jsonl"))
    assert [item.texts for item in items] == pairs and all(item.label is None for item in items)
    assert [item.item_id for item in items] == [f"train-{number}" for number in range(1, 7)]
    assert counts["items"] == {"train": 6} and len(listed) == 1


def test_an_article_gives_a_passage_a_paragraph_with_its_title_or_one_where_rows_stay_whole(hub):
    part = {"id": str(hub / "wikipedia"), "config": "20231101.en", "min_words": 2}
    counts, passages = collected(hub, part)
    assert passages == [
        Passage("0", "Anarchism", "First paragraph here.\nIts second line."),
        Passage("1", "Anarchism", "Third one follows."),
        Passage("2", "Autism", "A single paragraph only."),
    ]
    assert counts["short_passages"] == {str(hub / "wikipedia"): 1}  # the heading
    whole = part | {"whole_rows": True}
    counts, passages = collected(hub, whole)
    assert passages == [
        Passage("0", "Anarchism", "First paragraph here.\nIts second line.\nThird one follows."),
        Passage("1", "Autism", "A single paragraph only."),
    ]
    assert counts["short_passages"] == {str(hub / "wikipedia"): 1}
    assert collected(hub, whole | {"min_words": 5})[0]["passages"] == 1  # no article without a paragraph


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
    files = {file.name for file in (hub / "out").iterdir()}
    assert files == {"collection.jsonl", "counts.json", "doc_ids.txt", "rejected.jsonl"}


def test_texts_of_json_lines_come_as_they_stand_whatever_they_look_like(hub):
    texts = [
        "no date",
        "2001-09-11",
        "2001-09-11T00:00:00Z",
        "1.10",
        "007",
        "true",
        "null",
        "\ufeffa",
        "a\rb",
    ]
    texts += ['{"a": 1}', "one\u2028two\u0085three", " \u00e9\U0001f600 "]
    for number, text in enumerate(texts):
        file = hub / "bookcorpus" / f"train-{number:05}-of-00012.jsonl"
        end = "\r\n" if number % 2 else "\n"
        file.write_bytes((json.dumps({"text": text, "score": float("nan")}) + end).encode())
    (hub / "bookcorpus" / "train-00000-of-00001.jsonl").unlink()
    counts, passages = collected(hub, {"id": str(hub / "bookcorpus")})
    assert [passage.text for passage in passages] == [text.strip() for text in texts]
    assert counts["files"] == {"bookcorpus": {"rows": 12, "kept": 12, "rejected": 0, "carriage_returns": 6}}


def test_titles_of_parquet_that_are_dates_or_numbers_are_bad_rows_and_no_texts(hub):
    """Also in a later file, which the hub's client would cast to the first one's strings."""
    folder = hub / "wikipedia" / "20231101.en"
    for number, title in enumerate([2001, datetime(2001, 9, 11), ["a"], float("nan"), None, "T"], start=2):
        table = pyarrow.Table.from_pylist([{"title": title, "text": f"text {number}"}])
        pyarrow.parquet.write_table(table, folder / f"train-0000{number}-of-00008.parquet")
    settings = described({"id": str(hub / "wikipedia"), "config": "20231101.en"})
    message = "train-00002-of-00008.parquet:1: expected a title that is text, got 2001"
    counts, listed = refuse_and_skip(hub / "out", {}, settings, message)
    assert counts["files"]["wikipedia"] == {"rows": 10, "kept": 6, "rejected": 4}
    passages = list(read_passages(hub / "out" / "collection.jsonl"))
    assert passages[-2:] == [Passage("8", "", "text 6"), Passage("9", "T", "text 7")]
    assert listed[0] == ("wikipedia/20231101.en/train-00002-of-00008.parquet", 1)


@pytest.mark.parametrize("values", [[1, 2], [datetime(2001, 9, 11)], [["a"]]])
def test_a_column_of_parquet_that_holds_no_strings_is_refused_in_any_file(hub, values):
    file = hub / "wikipedia" / "20231101.en" / "train-00002-of-00003.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": values}), file)
    with pytest.raises(ValueError, match=rf"^{file}: expected strings in the column 'text', got [^\n]*$"):
        collected(hub, {"id": str(hub / "wikipedia"), "config": "20231101.en"}, bad_rows="skip")


def test_strings_of_every_kind_of_parquet_are_texts(hub):
    folder = hub / "strings"
    folder.mkdir()
    strings = (pyarrow.string(), pyarrow.large_string(), pyarrow.string_view())
    for number, kind in enumerate([*strings, pyarrow.dictionary("int32", "string")]):
        texts = pyarrow.array(["2001-09-11"], pyarrow.string()).cast(kind)
        pyarrow.parquet.write_table(pyarrow.table({"text": texts}), folder / f"train-{number}.parquet")
    _, passages = collected(hub, {"id": str(folder)})
    assert [passage.text for passage in passages] == ["2001-09-11"] * 4


@pytest.mark.parametrize("end", ["\r\n\r\n", "\r\n \t\r\n", "\n\r\n", "\n\n", "\r\n\r\n\r\n"])
def test_blank_lines_part_paragraphs_whatever_ends_them(hub, end):
    file = hub / "bookcorpus" / "train-00000-of-00001.jsonl"
    file.write_text(json.dumps({"text": f"one\r\nmore{end}two"}) + "\n")
    _, passages = collected(hub, {"id": str(hub / "bookcorpus")})
    assert [passage.text for passage in passages] == ["one\r\nmore", "two"]


def test_files_of_one_name_in_two_parts_are_told_apart_among_the_rejected(hub):
    (hub / "more").mkdir()
    for folder in ("bookcorpus", "more"):
        (hub / folder / "train-00000-of-00001.jsonl").write_text('{"text": "good"}\n{\n')
    parts = [{"id": str(hub / folder)} for folder in ("bookcorpus", "more")]
    counts, _ = collected(hub, *parts, bad_rows="skip")
    tally = {"rows": 2, "kept": 1, "rejected": 1}
    assert counts["files"] == {"bookcorpus": tally, "more": tally}
    assert [(row["file"], row["line"]) for row in rejected_rows(hub / "out")] == [
        (f"{folder}/train-00000-of-00001.jsonl", 2) for folder in ("bookcorpus", "more")
    ]


def test_a_row_without_text_among_those_of_one_passage_takes_no_id(hub):
    file = hub / "bookcorpus" / "train-00000-of-00001.jsonl"
    file.write_text('{"text": "one"}\n{"text": null}\n{"text": "two"}\n{"text": "three"}\n')
    part = {"id": str(hub / "bookcorpus"), "rows_per_passage": 2}
    _, passages = collected(hub, part, bad_rows="skip")
    assert passages == [Passage("0", "", "one"), Passage("1", "", "two three")]


@pytest.mark.parametrize(
    ("parts", "bad_rows", "message"),
    [
        ([("bookcorpus", {"column": "body"})], "strict",
         r"jsonl:1: expected a column 'body', got only \['text'\]. Set `column`"),
        ([("bookcorpus", {"split": "test"})], "strict", r"expected test\*\.parquet or test\*\.jsonl, got"),
        ([("wikipedia", {}), ("bookcorpus", {"column": "body"})], "skip",
         "bookcorpus: expected rows with a column 'body', got none"),
        ([("bookcorpus", {}), ("wikipedia", {"column": "body"})], "skip",
         r"-00002\.parquet: expected a column 'body', got only \['id', 'text', "),
    ],
)  # fmt: skip
def test_a_part_that_is_not_as_described_says_so(hub, parts, bad_rows, message):
    with pytest.raises(ValueError, match=message):
        collected(hub, *({"id": str(hub / name)} | keys for name, keys in parts), bad_rows=bad_rows)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"text": broken', "expected one JSON object"),
        (b'{"text": "\xff"}', "expected UTF-8 text, got the byte 0xff"),
        (b'{"text": "b", "text": "c"}', "expected each key once in an object, got 'text' again"),
        (b'{"text": null}', "expected a text, got None"),
        (b'{"text": "bad \\u0000 one"}', "expected a passage text without NUL"),
        (b'{"text": "b", "title": NaN}', "expected a title that is text, got nan"),
        (b'{"text": "b", "title": {"a": "b"}}', "expected a title that is text, got {'a': 'b'}"),
        (b'{"title": "b"}', "expected a column 'text', got only ['title']"),
    ],
)
def test_a_bad_line_of_json_is_named_or_left_out_and_the_others_are_kept(hub, line, message):
    file = hub / "bookcorpus" / "train-00000-of-00001.jsonl"
    file.write_bytes(b'{"text": "a"}\n\n' + line + b'\n{"text": "d"}\n')
    settings = described({"id": str(hub / "bookcorpus")})
    counts, _ = refuse_and_skip(hub / "out", {}, settings, f"{file}:3: {message}")
    assert counts["files"] == {"bookcorpus": {"rows": 3, "kept": 2, "rejected": 1, "blank_lines": 1}}
    passages = list(read_passages(hub / "out" / "collection.jsonl"))
    assert passages == [Passage("0", "", "a"), Passage("2", "", "d")]


@pytest.mark.parametrize("content", [b"", b"\n", b"<html>\n"])
def test_a_part_without_rows_is_refused(hub, content):
    (hub / "bookcorpus" / "train-00000-of-00001.jsonl").write_bytes(content)
    parts = [{"id": str(hub / "wikipedia")}, {"id": str(hub / "bookcorpus")}]
    with pytest.raises(ValueError, match=r"bookcorpus: expected rows with a column 'text', got none[^\n]*$"):
        collected(hub, *parts, bad_rows="skip")
    assert list((hub / "out").iterdir()) == []


def test_a_parquet_file_that_was_cut_or_changed_is_one_line_and_a_script_beside_it_is_not_run(hub):
    folder = hub / "wikipedia" / "20231101.en"
    (folder / "20231101.en.py").write_text("raise SystemExit('ran')")
    file = folder / "train-00000-of-00002.parquet"
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:8] + bytes(60) + whole[68:]):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=rf"^{file}: expected [^\n]*$"):
            collected(hub, {"id": str(hub / "wikipedia"), "config": "20231101.en"})
    file.write_bytes(whole)
    assert len(collected(hub, {"id": str(hub / "wikipedia"), "config": "20231101.en"})[1]) == 4


def test_a_dataset_that_cannot_be_reached_is_one_line(hub):
    with pytest.raises(ValueError, match=r"^nobody/nothing: expected a dataset of the hub[^\n]*$"):
        collected(hub, {"id": "nobody/nothing"})


def test_the_files_of_a_folder_are_declared_in_their_order(hub):
    settings = described({"id": str(hub / "wikipedia"), "config": "20231101.en"})
    names = [f"train-0000{number}-of-00002.parquet" for number in range(2)]
    assert [file.name for file in sources.local_files(settings)] == names


def test_texts_of_the_hub_are_recorded_with_their_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub's part is a stand-in: a real builder of a local file, with a commit as its hash."""
    import datasets

    pyarrow.parquet.write_table(
        pyarrow.table({"text": ["a text of words", "another"]}), tmp_path / "a.parquet"
    )
    real = datasets.load_dataset_builder

    def of_hub(name: str, config: str | None, *, revision: str | None) -> Any:
        assert (name, config, revision) == ("someone/texts", None, "main")
        builder = real("parquet", data_files={"train": [str(tmp_path / "a.parquet")]})
        builder.hash = "0123abcd"
        return builder

    monkeypatch.setattr(datasets, "load_dataset_builder", of_hub)
    (tmp_path / "out").mkdir()
    parts = [hub_text.Part(id="someone/texts", revision="main")]
    settings = partly(hub_text.Settings, {"parts": parts, "bad_rows": "strict"})
    counts = hub_text.collect(tmp_path / "out", {}, settings)
    assert counts["revisions"] == {"someone/texts": "0123abcd"}
    assert len((tmp_path / "out" / "collection.jsonl").read_text().splitlines()) == 2
