"""Documents become passages: every word is in one, and each passage names its document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from own_collections import write_beir, write_tsv

from condenser.data.passages import passages_of, windows
from condenser.data.records import Passage, document_of, first_passage, read_passages, read_qrels
from configs import sources

SPLIT = {"words": 4, "stride": 2}


@pytest.mark.parametrize(("words", "stride"), [(1, 1), (4, 2), (5, 3), (5, 5), (120, 60), (7, 1)])
def test_windows_have_every_word_and_the_last_one_is_needed(words: int, stride: int) -> None:
    for num_words in range(400):
        found = windows(num_words, words=words, stride=stride)
        assert {word for start, end in found for word in range(start, end)} == set(range(num_words))
        assert all(end - start == words for start, end in found[:-1])
        assert [start for start, _ in found] == [stride * number for number in range(len(found))]
        assert found[-1][1] == num_words
        assert all(end < num_words for _, end in found[:-1]), "no window after the end is reached"


def test_a_passage_keeps_the_white_space_of_its_text_and_the_title() -> None:
    document = Passage("d#1", "A title", " one  two\nthree four\tfive\n")
    assert passages_of(document, **SPLIT) == [
        Passage("d#1#1", "A title", "one  two\nthree four"),
        Passage("d#1#2", "A title", "three four\tfive"),
    ]


@pytest.mark.parametrize("by", ["words", "headings"])
@pytest.mark.parametrize("text", ["", "short text", " \n\n", "\n\n\n"])
def test_a_short_document_is_one_passage_with_a_number(text: str, by: str) -> None:
    assert passages_of(Passage("d", "T", text), **SPLIT, by=by) == [Passage("d#1", "T", text.strip())]


def test_scripts_without_spaces_are_split_by_their_characters() -> None:
    texts = [one.text for one in passages_of(Passage("d", "", "本日は晴天なり。 ok กำไร"), **SPLIT)]
    assert texts[0] == "本日は晴" and all(len(text) <= 9 for text in texts)
    assert texts[-1].endswith("ร")


def test_by_headings_a_passage_is_of_one_section_and_names_its_headings() -> None:
    text = (
        "before all\n\n# A\n\none two\n \nthree\n\nfour five\n## B ##\n```\n# no heading\n```\n"
        "## Empty\n# C\na b c d e f\n\n#no heading\n   ### D\nend"
    )
    found = passages_of(Passage("d.md", "T", text), words=4, stride=2, by="headings")
    assert [(one.title, one.text) for one in found] == [
        ("T", "before all"),
        ("T > A", "one two\n\nthree"),
        ("T > A", "four five"),
        ("T > A > B", "```\n# no heading"),
        ("T > A > B", "no heading\n```"),
        ("T > A > Empty", ""),
        ("T > C", "a b c d"),
        ("T > C", "c d e f"),
        ("T > C", "#no heading"),
        ("T > C > D", "end"),
    ]
    assert [one.doc_id for one in found] == [f"d.md#{number}" for number in range(1, 11)]


@given(
    st.lists(st.sampled_from(["word ", "\n", "\n\n", "# h\n", "\n## h\n", "```\n", "語", " "]), max_size=40)
)
def test_by_headings_no_word_is_lost(parts: list[str]) -> None:
    text = "".join(parts)
    found = passages_of(Passage("d", "", text), words=5, stride=5, by="headings")
    lost = (
        {*text.split()} - {word for one in found for word in f"{one.title} {one.text}".split()} - {"#", "##"}
    )
    assert all(set(word) <= {"#", "語"} or "語" in word for word in lost), lost


def test_ids_tell_the_document_whatever_its_own_id_is() -> None:
    for doc_id in ("d", "d#1", "#", "a#b#2"):
        ids = [one.doc_id for one in passages_of(Passage(doc_id, "", "a b c d e f g h"), **SPLIT)]
        assert [document_of(one) for one in ids] == [doc_id] * 3
        assert ids[0] == first_passage(doc_id)


def collected(folder: Path, settings: dict) -> dict:
    return sources.collect(folder, {}, {**settings, "split": SPLIT, "other_eval_splits": []})


@pytest.mark.parametrize("write", [write_tsv, write_beir])
def test_any_source_gives_passages_and_judgements_of_documents(tmp_path: Path, write) -> None:
    whole = tmp_path / "whole"
    settings = write(tmp_path / "mine")
    plain = sources.collect(whole, {}, settings)
    counts = collected(tmp_path / "data", settings)
    documents = list(read_passages(whole / "collection.jsonl"))
    passages = list(read_passages(tmp_path / "data" / "collection.jsonl"))
    assert passages == [one for document in documents for one in passages_of(document, **SPLIT)]
    ids = (tmp_path / "data" / "doc_ids.txt").read_text().splitlines()
    assert ids == [passage.doc_id for passage in passages]
    for name in ("queries.dev.jsonl", "qrels.dev.tsv", "qrels.train.tsv", "queries.train.jsonl"):
        assert (tmp_path / "data" / name).read_bytes() == (whole / name).read_bytes()
    judged = {qrel.doc_id for qrel in read_qrels(tmp_path / "data" / "qrels.train.tsv")}
    assert judged <= {document_of(one) for one in ids}
    assert counts["documents"] == plain["passages"] and counts["passages"] == len(ids)
    assert json.loads((tmp_path / "data" / "counts.json").read_text()) == counts


def test_documents_and_those_that_are_split_are_counted(tmp_path: Path) -> None:
    rows = "d1\tone two three four five\nd2\tone\nd1#1\t" + "w " * 9 + "end\n"
    settings = write_tsv(tmp_path / "mine", collection_tsv=rows, qrels_dev_tsv="q3\t0\td1#1\t1\n")
    counts = collected(tmp_path / "data", settings)
    ids = (tmp_path / "data" / "doc_ids.txt").read_text().split()
    assert ids == ["d1#1", "d1#2", "d2#1", "d1#1#1", "d1#1#2", "d1#1#3", "d1#1#4"]
    found = {name: counts[name] for name in ("passages", "documents", "documents_split", "most_passages")}
    assert found == {"passages": 7, "documents": 3, "documents_split": 2, "most_passages": 4}
