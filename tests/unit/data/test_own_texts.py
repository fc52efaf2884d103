"""A user's folder or table of texts as a collection: what is read, what is left out, what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from condenser.config import validated
from condenser.data.judged import Judgements
from condenser.data.own_texts import described, note_judged, write_index_overlay
from condenser.settings import merged


def rows_of(results: Path, name: str = "mine") -> list[tuple[str, str, str]]:
    lines = (results / name / "texts" / "corpus.jsonl").read_text().splitlines()
    return [(row["_id"], row["title"], row["text"]) for row in map(json.loads, lines)]


def test_each_text_file_of_a_folder_is_read_and_all_else_is_counted(tmp_path: Path) -> None:
    texts, results = tmp_path / "texts", tmp_path / "results"
    (texts / "deep er").mkdir(parents=True)
    (texts / ".git").mkdir()
    files = {
        "salt.md": b"# Salt #\n\nSalt dissolves.\n",
        "heading.md": b"# Only a heading\n",
        "deep er/100%.txt": "\ufeffIron rusts.".encode(),
        "wide.TXT": "Wörter".encode("utf-16"),
        "empty.txt": b" \n",
        "latin.txt": "café".encode("latin-1"),
        "binary.txt": b"a\0b",
        "paper.pdf": b"%PDF",
        ".hidden.txt": b"x",
        ".git/config.txt": b"x",
    }
    for name, content in files.items():
        (texts / name).write_bytes(content)
    (texts / "link.md").symlink_to("salt.md")
    (texts / "loop").symlink_to(texts)
    count, left_out = write_index_overlay(texts, results, name="mine")
    assert rows_of(results) == [
        ("heading.md", "heading", "# Only a heading"),
        ("salt.md", "Salt", "Salt dissolves."),
        ("wide.TXT", "wide", "Wörter"),
        ("deep%20er/100%25.txt", "100%", "Iron rusts."),
    ]
    assert count == 4 and left_out == {
        "hidden": [".git", ".hidden.txt"],
        "binary": ["binary.txt"],
        "empty": ["empty.txt"],
        "not in UTF-8": ["latin.txt"],
        "links": ["link.md", "loop"],
        "of another kind than .txt and .md": ["paper.pdf"],
    }
    assert (
        described({"links": left_out["links"], "empty": ["a"]}) == "2 links (the first: link.md), 1 empty (a)"
    )


def test_odd_names_and_places_are_read_or_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = tmp_path / "texts"
    for folder in ("a", "b", "b/c"):
        (texts / folder).mkdir(parents=True)
        (texts / folder / "x.txt").write_text(folder)
    Path(os.fsdecode(bytes(texts) + b"/caf\xe9.txt")).write_text("not named in UTF-8")
    (texts / "a" / "\x1b[31m.txt").write_text("its name steers a terminal")
    os.mkfifo(texts / "pipe.txt")  # to read it would wait for ever
    monkeypatch.chdir(texts)
    for level in range(20):  # at last the path is longer than Linux takes
        Path("z" * 250).mkdir()
        os.chdir("z" * 250)
        if level == 2:
            Path("deep.txt").write_text("its id would be too long")
    count, left_out = write_index_overlay(texts, tmp_path / "results", name="mine")
    assert rows_of(tmp_path / "results") == [
        ("caf%E9.txt", "caf\ufffd", "not named in UTF-8"),
        ("a/%1B[31m.txt", "\x1b[31m", "its name steers a terminal"),
        ("a/x.txt", "x", "a"),
        ("b/x.txt", "x", "b"),
        ("b/c/x.txt", "x", "b/c"),
    ]
    (too_long,) = left_out.pop("unreadable")
    assert count == 5 and left_out == {
        "of another kind than .txt and .md": ["pipe.txt"],
        "with a path longer than 512 bytes": [f"{'/'.join(['z' * 250] * 3)}/deep.txt"],
    }
    assert described({"unreadable": [too_long]}) == f"1 unreadable ({too_long[:200]})"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'id,Title,Body\n7,T,"two\nlines"\n8,,\n9,U,next\n'),
        ("a.tsv", "id\ttitle\ttext\n7\tT\ttwo\\nlines\n8\t\t\n9\tU\tnext\n".replace("\\n", " ")),
        ("a.jsonl", '{"_id": 7, "title": "T", "text": "two lines"}\n\n{"_id": 8, "text": null}\n'
         '{"_id": 9, "title": "U", "text": "next"}\n'),
    ],
)  # fmt: skip
def test_a_table_gives_a_text_a_row(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    count, left_out = write_index_overlay(tmp_path / name, tmp_path / "results", name="mine")
    (first, second) = rows_of(tmp_path / "results")
    assert (first[0], first[1], first[2].split()) == ("7", "T", ["two", "lines"])
    assert second == ("9", "U", "next")
    assert count == 2 and [*left_out] == ["empty"]


def test_columns_can_be_named_and_rows_without_ids_have_their_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("headline,story,text\nA,one,no\nB,two,no\n")
    write_index_overlay(tmp_path / "a.csv", tmp_path / "results", name="mine", title="headline", text="story")
    assert rows_of(tmp_path / "results") == [("2", "A", "one"), ("3", "B", "two")]


def test_long_texts_are_split_and_the_overlay_is_valid(tmp_path: Path, root: Path) -> None:
    written = yaml.safe_load((root / "config.yaml").read_text())
    for words, is_split in ((240, False), (241, True)):
        (tmp_path / "a.jsonl").write_text(json.dumps({"text": "word " * words}))
        name = f"of-{words}"
        write_index_overlay(tmp_path / "a.jsonl", tmp_path / "results", name=name)
        overlay = yaml.safe_load((tmp_path / "results" / name / "index.yaml").read_text())
        assert ("split" in overlay["datasets"][name]) == is_split
        validated(merged(written, overlay))


def test_judged_queries_become_those_to_evaluate_on_and_stay_so(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}')
    results = tmp_path / "results"

    def eval_split() -> str | None:
        overlay = yaml.safe_load((results / "mine" / "index.yaml").read_text())
        return overlay["datasets"]["mine"]["eval_split"]

    write_index_overlay(tmp_path / "a.jsonl", results, name="mine")
    folder = results / "mine" / "texts"
    assert eval_split() is None
    judged = Judgements(folder)
    judged.add(["what?"])
    judged.pool("j1", {"bm25": ["1"]})
    judged.grade("j1", {"1": 0})
    note_judged(folder)
    assert eval_split() is None  # nothing relevant: nothing to measure
    judged.grade("j1", {"1": 1})
    note_judged(folder)
    assert eval_split() == "judged"
    write_index_overlay(tmp_path / "a.jsonl", results, name="mine")
    assert eval_split() == "judged"
    (tmp_path / "a.jsonl").write_text('{"id": "2", "text": "two"}')  # the relevant text is gone
    write_index_overlay(tmp_path / "a.jsonl", results, name="mine")
    assert eval_split() is None
    note_judged(tmp_path)  # a folder of the user's own: nothing is written there
    assert not (tmp_path / "index.yaml").exists() and Judgements(folder).done


def test_the_same_texts_give_the_same_bytes_and_a_name_belongs_to_one_folder(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.txt").write_text(folder)
    results = tmp_path / "results"
    kept = []
    for _ in range(2):
        write_index_overlay(tmp_path / "a", results, name="mine")
        kept.append([file.read_bytes() for file in sorted(results.rglob("*.*")) if file.is_file()])
    assert kept[0] == kept[1]
    with pytest.raises(ValueError, match=r"expected the texts of .*/a, got those of .*/b"):
        write_index_overlay(tmp_path / "b", results, name="mine")
    assert rows_of(results) == [("x.txt", "x", "a")]
    (results / "other").mkdir()
    with pytest.raises(ValueError, match="expected no results of this name"):
        write_index_overlay(tmp_path / "b", results, name="other")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "text,id\na,1\nb\n", r"a\.csv:3: expected a row of csv \(2 columns expected\)"),
        ("a.tsv", "text\tid\na\t1\n\nb\t1\n", r"a\.tsv:4: expected each id once"),
        ("a.jsonl", '{"text": "a"}\n[1]\n', r"a\.jsonl:2: expected a row of jsonl"),
        ("a.jsonl", '{"text": "a"}\n{"text": "\\ud800"}\n', r"a\.jsonl:2: expected a passage text in valid"),
        ("a.csv", "id,text\na b,x\n", r"a\.csv:2: expected a passage id without white space, got 'a b'"),
        ("a.csv", "a,b\n1,2\n", r"expected a column text or body or content, got a, b\. Name it: TEXT="),
        ("a.csv", "text\n", r"expected texts, got none \(it is empty\)"),
        ("a.csv", "t\xe9xt\n", r"expected UTF-8"),
        ("a.pdf", "x", r"expected a folder, or a file that ends in \.jsonl, \.csv, \.tsv"),
        ("missing", None, "expected a folder or a file, found none"),
    ],
)
def test_what_cannot_be_read_is_refused_and_leaves_nothing(
    tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(ValueError, match=message):
        write_index_overlay(tmp_path / name, tmp_path / "results", name="mine")
    assert not (tmp_path / "results").exists()
