"""Lines of a file by number, and their number by text."""

from __future__ import annotations

from pathlib import Path

import pytest

from condenser.data.records import Passage, write_passages
from condenser.live import texts
from condenser.live.texts import Lines, Texts


@pytest.fixture(params=[1, 7, 1 << 20], ids="chunks of {} bytes".format)
def any_chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_CHUNK_BYTES", request.param)


@pytest.mark.usefixtures("any_chunk")
def test_every_line_is_found_by_its_row_and_every_row_by_its_line(tmp_path: Path) -> None:
    ids = ["1", "11", "111", "d-2", "2", "ü", "\u2028", "", "last"]
    file = tmp_path / "doc_ids.txt"
    file.write_bytes("".join(f"{one}\n" for one in ids).encode())
    lines = Lines(file)
    assert len(lines) == len(ids)
    assert [lines[row].decode() for row in range(len(lines))] == ids
    assert [lines.row_of(one.encode()) for one in ids] == list(range(len(ids)))


def test_an_id_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = tmp_path / "doc_ids.txt"
    file.write_bytes(b"12\n21\n")
    for absent in (b"1", b"2", b""):
        with pytest.raises(ValueError, match=r"doc_ids\.txt: expected the id .*, found none"):
            Lines(file).row_of(absent)


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "doc_ids.txt").touch()
    lines = Lines(tmp_path / "doc_ids.txt")
    assert len(lines) == 0
    with pytest.raises(ValueError, match="found none"):
        lines.row_of(b"1")


def collection(folder: Path, passages: list[Passage]) -> Texts:
    write_passages(folder / "collection.jsonl", passages)
    (folder / "doc_ids.txt").write_text("".join(f"{passage.doc_id}\n" for passage in passages))
    return Texts(Lines(folder / "collection.jsonl"), Lines(folder / "doc_ids.txt"))


def test_a_passage_comes_as_it_was_written(tmp_path: Path) -> None:
    passages = [Passage("a", "", "x\u2028y\n<b>"), Passage("b", "Title", "שלום")]
    texts = collection(tmp_path, passages)
    assert [texts.passage(row) for row in range(2)] == passages


def test_a_collection_in_another_order_than_its_ids_is_refused(tmp_path: Path) -> None:
    texts = collection(tmp_path, [Passage("a", "", "x"), Passage("b", "", "y")])
    (tmp_path / "doc_ids.txt").write_text("a\nc\n")
    with pytest.raises(ValueError, match=r"collection\.jsonl:2: expected passage 'c' .* got 'b'"):
        Texts(texts.collection, Lines(tmp_path / "doc_ids.txt")).passage(1)
