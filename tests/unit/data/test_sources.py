"""A user's own folders become canonical files: everything kept, rejected or counted."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from condenser.data import sources
from condenser.data.canonical import CanonicalFiles, IdSet
from condenser.data.records import (
    Passage,
    Qrel,
    Query,
    read_doc_ids,
    read_passages,
    read_qrels,
    read_queries,
)

SPLITS = {"train_split": "train", "eval_split": "dev"}


def write_tsv(folder: Path, **files: str | bytes) -> dict:
    """A folder in MS MARCO's plain form; files given by name with `_` for `.` replace the good ones."""
    content: dict[str, str | bytes] = {
        "collection_tsv": "d1\tfirst text\nd2\tsecond text\nd3\tthird text\n",
        "queries_train_tsv": "q1\tfirst?\nq2\tsecond?\n",
        "queries_dev_tsv": "q3\tthird?\n",
        "qrels_train_tsv": "q1 0 d1 1\nq2 0 d2 1\n",
        "qrels_dev_tsv": "q3\t0\td3\t1\n",
    } | files
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in content.items():
        data = text if isinstance(text, bytes) else text.encode()
        (folder / name.replace("_", ".")).write_bytes(data)
    return {"source": "tsv", "path": str(folder), "bad_rows": "strict", **SPLITS}


def write_beir(folder: Path, **files: str) -> dict:
    content = {
        "corpus.jsonl": '{"_id": "d1", "title": "T", "text": "one"}\n{"_id": "d2", "text": "two"}\n',
        "queries.jsonl": '{"_id": "q1", "text": "1?", "answers": ["one"]}\n{"_id": "q2", "text": "2?"}\n'
        '{"_id": "q3", "text": "of no split"}\n',
        "qrels/train.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
        "qrels/dev.tsv": "query-id\tcorpus-id\tscore\nq2\td2\t2\nq2\td1\t0\n",
    } | files
    for name, text in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return {"source": "beir", "path": str(folder), "bad_rows": "strict", **SPLITS}


def test_a_beir_folder_gives_its_passages_queries_answers_and_judgements(tmp_path):
    counts = sources.collect(tmp_path / "out", {}, write_beir(tmp_path / "in"))
    out = tmp_path / "out"
    assert list(read_passages(out / "collection.jsonl")) == [
        Passage("d1", "T", "one"),
        Passage("d2", "", "two"),
    ]
    assert read_doc_ids(out / "doc_ids.txt") == ["d1", "d2"]
    assert list(read_queries(out / "queries.train.jsonl")) == [Query("q1", "1?", ("one",))]
    assert list(read_queries(out / "queries.dev.jsonl")) == [Query("q2", "2?")]
    assert list(read_qrels(out / "qrels.dev.tsv")) == [Qrel("q2", "d2", 2), Qrel("q2", "d1", 0)]
    assert counts["files"]["queries.jsonl"] == {"rows": 3, "kept": 2, "rejected": 0, "without_judgement": 1}
    assert json.loads((out / "counts.json").read_text()) == counts


def test_a_tsv_folder_keeps_quotes_na_and_line_separators_as_they_are(tmp_path):
    texts = ['a lone " quote', "NA", "one\u2028two\u0085three", "nan", " led and trailed by spaces "]
    collection = "".join(f"d{i}\t{text}\n" for i, text in enumerate(texts, start=1))
    sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in", collection_tsv=collection))
    assert [passage.text for passage in read_passages(tmp_path / "out" / "collection.jsonl")] == texts


def test_three_columns_are_id_title_and_text(tmp_path):
    collection = "d1\tT\tfirst\nd2\t\tsecond\nd3\tT3\tthird\n"
    sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in", collection_tsv=collection))
    assert list(read_passages(tmp_path / "out" / "collection.jsonl"))[:2] == [
        Passage("d1", "T", "first"),
        Passage("d2", "", "second"),
    ]


BAD = [
    ({"collection_tsv": "d1\ta\nd2\n"}, "collection.tsv:2: expected 2 tab-separated columns"),
    ({"collection_tsv": "d1\ta\nd1\tb\n"}, "collection.tsv:2: expected unique passage ids, got 'd1' again"),
    ({"collection_tsv": "d1\ta\nd 2\tb\n"}, "collection.tsv:2: expected a passage id without white space"),
    ({"collection_tsv": "d1\t \n"}, "collection.tsv:1: expected a passage text that is not empty"),
    ({"collection_tsv": b"d1\ta\nd2\t\xe9\n"}, "collection.tsv:2: expected UTF-8 text, got the byte 0xe9"),
    ({"collection_tsv": b"d1\ta\0b\n"}, "collection.tsv:1: expected a passage text without NUL"),
    ({"collection_tsv": ""}, "collection.tsv: expected passages, got none"),
    ({"qrels_train_tsv": "q1 0 d9 1\n"}, "qrels.train.tsv:1: expected the id of a passage of the collection"),
    ({"qrels_train_tsv": "q1 0 d1 1\nq9 0 d1 1\n"}, "qrels.train.tsv:2: expected the id of a query"),
    ({"qrels_train_tsv": "q1 0 d1 1\nq1 0 d1 2\n"}, "qrels.train.tsv:2: expected grade 1 as above"),
    ({"qrels_train_tsv": "q1\td1\t1\n"}, "qrels.train.tsv:1: expected 4 columns"),
    ({"queries_train_tsv": "q1\ta\nq1\tb\n"}, "queries.train.tsv:2: expected unique query ids"),
    ({"queries_train_tsv": "q1\t\n"}, "queries.train.tsv:1: expected a query text that is not empty"),
    ({"qrels_dev_tsv": "\n"}, "expected queries with judgements in the split 'dev', got none"),
]


@pytest.mark.parametrize(("files", "message"), BAD)
def test_a_bad_row_ends_the_work_with_file_and_line_and_leaves_no_file(tmp_path, files, message):
    described = write_tsv(tmp_path / "in", **files)
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        sources.collect(tmp_path / "out", {}, described)
    assert message in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_bad_rows_are_left_out_counted_and_listed_when_they_may_be_skipped(tmp_path):
    described = write_tsv(
        tmp_path / "in",
        collection_tsv="d1\ta\n\nbroken\nd2\tb\nd1\tagain\nd3\tc\n",
        qrels_train_tsv="q1 0 d1 1\nq1 0 d1 1\nq1 0 gone 1\nq7 0 d1 1\nq2 0 d2 1\n",
    ) | {"bad_rows": "skip"}
    counts = sources.collect(tmp_path / "out", {}, described)
    assert counts["files"]["collection.tsv"] == {"rows": 5, "kept": 3, "rejected": 2, "blank_lines": 1}
    assert counts["files"]["qrels.train.tsv"] == {"rows": 5, "kept": 2, "rejected": 2, "repeated": 1}
    rejected = [json.loads(line) for line in (tmp_path / "out" / "rejected.jsonl").read_text().splitlines()]
    assert [(row["file"], row["line"]) for row in rejected] == [
        ("collection.tsv", 3),
        ("collection.tsv", 5),
        ("qrels.train.tsv", 3),
        ("qrels.train.tsv", 4),
    ]
    assert counts["rejected"] == 4


def test_a_query_whose_only_judgement_is_rejected_is_not_written(tmp_path):
    described = write_tsv(tmp_path / "in", qrels_train_tsv="q1 0 d1 1\nq2 0 gone 1\n") | {"bad_rows": "skip"}
    sources.collect(tmp_path / "out", {}, described)
    assert [query.query_id for query in read_queries(tmp_path / "out" / "queries.train.jsonl")] == ["q1"]


def test_a_query_of_both_splits_is_counted(tmp_path):
    described = write_tsv(tmp_path / "in", queries_dev_tsv="q1\tfirst?\n", qrels_dev_tsv="q1 0 d3 1\n")
    counts = sources.collect(tmp_path / "out", {}, described)
    assert counts["queries_shared_by_splits"] == {"dev+train": 1}


def test_a_beir_judgement_file_without_header_is_refused_rather_than_robbed_of_a_row(tmp_path):
    described = write_beir(tmp_path / "in", **{"qrels/dev.tsv": "q2\td2\t1\n"}) | {"bad_rows": "skip"}
    with pytest.raises(ValueError, match=r"dev\.tsv:1: expected the header query-id corpus-id score"):
        sources.collect(tmp_path / "out", {}, described)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"_id": 5, "text": "a"}', 'a string in "_id", got 5'),
        ('{"id": "5", "text": "a"}', 'a field "_id"'),
        ('{"_id": "5", "text": null}', 'a string in "text", got None'),
        ('{"_id": "5", "text": "a\\ud800"}', "in valid Unicode"),
        ("<html>", "one JSON object"),
    ],
)
def test_a_corpus_row_that_is_not_beirs_says_so(tmp_path, line, message):
    described = write_beir(tmp_path / "in", **{"corpus.jsonl": line + "\n"})
    with pytest.raises(ValueError, match=r"corpus\.jsonl:1: ") as caught:
        sources.collect(tmp_path / "out", {}, described)
    assert message in str(caught.value)


def test_old_files_stay_when_the_new_ones_fail(tmp_path):
    sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in"))
    before = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    with pytest.raises(ValueError, match="unique"):
        sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in", collection_tsv="d1\ta\nd1\ta\n"))
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == before


def test_files_that_are_not_the_sources_stay_in_the_folder(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in"))
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


def test_the_declared_files_are_those_that_are_read(tmp_path):
    for described in (write_tsv(tmp_path / "tsv"), write_beir(tmp_path / "beir")):
        for file in sources.local_files(described):
            kept = file.read_bytes()
            file.unlink()
            with pytest.raises(FileNotFoundError, match=file.name):
                sources.collect(tmp_path / "out", {}, described)
            file.write_bytes(kept)
        sources.collect(tmp_path / "out", {}, described)


def test_an_unknown_source_or_a_missing_setting_is_told(tmp_path):
    with pytest.raises(ValueError, match="expected a source out of beir, hub_text, msmarco, pydoc, tsv"):
        sources.collect(tmp_path, {}, {"source": "os"})
    with pytest.raises(ValueError, match="source beir: expected the setting path, bad_rows, got none"):
        sources.collect(tmp_path, {}, {"source": "beir", **SPLITS})


def test_the_two_splits_must_differ(tmp_path):
    described = write_tsv(tmp_path / "in") | {"eval_split": "train"}
    with pytest.raises(ValueError, match="expected different splits"):
        sources.collect(tmp_path / "out", {}, described)


fields = st.text(alphabet=st.characters(codec="utf-8"), max_size=12).filter(
    lambda text: not set(text) & set("\t\n")
)
ids = st.one_of(st.sampled_from(["d1", "d2", "7", "07", ""]), fields)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(ids, fields), min_size=1, max_size=15))
def test_rows_in_are_rows_kept_and_rejected_and_what_is_kept_is_unchanged(rows):
    with tempfile.TemporaryDirectory() as place:
        collection = "anchor\tholds the judgements\n" + "".join(
            f"{doc_id}\t{text}\n" for doc_id, text in rows
        )
        described = write_tsv(
            Path(place, "in"),
            collection_tsv=collection,
            qrels_train_tsv="q1 0 anchor 1\nq2 0 anchor 1\n",
            qrels_dev_tsv="q3 0 anchor 1\n",
        ) | {"bad_rows": "skip"}
        counts = sources.collect(Path(place, "out"), {}, described)
        kept = list(read_passages(Path(place, "out", "collection.jsonl")))
        listed = Path(place, "out", "rejected.jsonl").read_bytes().splitlines()
    tally = counts["files"]["collection.tsv"]
    assert tally["rows"] == tally["kept"] + tally["rejected"] == 1 + len(rows) - tally.get("blank_lines", 0)
    assert (len(kept), len(listed)) == (tally["kept"], tally["rejected"])
    first = {}
    for doc_id, text in rows:
        text = text.removesuffix("\r")
        if doc_id.split() == [doc_id] and text.strip() and "\0" not in doc_id + text and doc_id != "anchor":
            first.setdefault(doc_id, text)
    assert [(passage.doc_id, passage.text) for passage in kept[1:]] == list(first.items())


@given(
    st.lists(st.one_of(st.integers(0, 3000).map(str), st.sampled_from(["01", "x", "٣", "268435456", "-1"])))
)
def test_an_id_set_is_a_set(values):
    ids, truth = IdSet(), set()
    for value in values:
        assert ids.add(value) == (value not in truth)
        truth.add(value)
        assert value in ids
    assert len(ids) == len(truth)
    assert all((str(number) in ids) == (str(number) in truth) for number in range(50))


def test_an_unknown_policy_for_bad_rows_is_refused(tmp_path):
    with pytest.raises(ValueError, match="strict or skip, got 'ignore'"):
        CanonicalFiles(tmp_path, bad_rows="ignore")
