"""A user's own folders become canonical files: everything kept, rejected or counted."""

from __future__ import annotations

import gzip
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from own_collections import SPLITS, files_of, write_beir, write_tsv

from condenser import progress
from condenser.data.canonical import IdSet
from condenser.data.records import (
    Passage,
    Qrel,
    Query,
    read_doc_ids,
    read_passages,
    read_qrels,
    read_queries,
)
from condenser.data.sources.hub_text import Part
from condenser.data.sources.msmarco import TRIPLES
from condenser.settings import Settings, Texts
from configs import sources


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


def test_carriage_returns_at_line_ends_are_no_part_of_texts_ids_or_grades(tmp_path):
    for write in (write_tsv, write_beir):
        plain = write(tmp_path / "plain")
        crlf = write(tmp_path / "crlf")
        for file in sources.local_files(crlf):
            file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
        sources.collect(tmp_path / "from plain", {}, plain)
        counts = sources.collect(tmp_path / "from crlf", {}, crlf)
        assert files_of(tmp_path / "from crlf") == files_of(tmp_path / "from plain")
        for tally in counts["files"].values():
            assert tally["carriage_returns"] >= tally["rows"]  # BEIR's headers are no rows


def packed(settings: dict, *, rename: bool) -> None:
    """Make each file of a data set gzip, under its own name or with `.gz` behind it."""
    for file in sources.local_files(settings):
        content = gzip.compress(file.read_bytes())
        file.unlink()
        (file.with_name(f"{file.name}.gz") if rename else file).write_bytes(content)


@pytest.mark.parametrize("rename", [True, False])
@pytest.mark.parametrize("write", [write_tsv, write_beir])
def test_gzip_files_are_read_as_plain_ones_whatever_their_names(tmp_path, write, rename):
    plain, gzipped = write(tmp_path / "plain"), write(tmp_path / "gzipped")
    packed(gzipped, rename=rename)
    sources.check_local_files({"mine": gzipped})
    assert [file.suffix == ".gz" for file in sources.local_files(gzipped)] == [rename] * len(
        sources.local_files(plain)
    )
    sources.collect(tmp_path / "from plain", {}, plain)
    sources.collect(tmp_path / "from gzip", {}, gzipped)
    assert files_of(tmp_path / "from gzip") == files_of(tmp_path / "from plain")


def test_of_a_plain_and_a_gzip_file_the_plain_one_is_read(tmp_path):
    settings = write_tsv(tmp_path / "in")
    (tmp_path / "in" / "collection.tsv.gz").write_bytes(gzip.compress(b"d1\tan old text\n"))
    counts = sources.collect(tmp_path / "out", {}, settings)
    assert counts["passages"] == 3 and "collection.tsv" in counts["files"]


def test_a_title_that_is_null_is_no_title(tmp_path):
    rows = '{"_id": "d1", "title": null, "text": "one"}\n{"_id": "d2", "text": "two"}\n'
    sources.collect(tmp_path / "out", {}, write_beir(tmp_path / "in", **{"corpus.jsonl": rows}))
    assert [passage.title for passage in read_passages(tmp_path / "out" / "collection.jsonl")] == ["", ""]


def test_texts_that_occur_again_under_other_ids_are_kept_counted_and_said(tmp_path, caplog):
    rows = "d1\tsame\nd2\tsame\nd3\tother\nd4\tsame\n"
    counts = sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in", collection_tsv=rows))
    assert (counts["passages"], counts["repeated_texts"]) == (4, 2)
    assert json.loads((tmp_path / "out" / "counts.json").read_text())["repeated_texts"] == 2
    assert "passages with the title and text of an earlier one: 2 of 4" in caplog.text


def test_a_query_that_is_a_text_of_the_collection_is_marked_unless_its_text_is_judged_relevant(tmp_path):
    files = {
        name: "".join(
            f'{{"_id": "{one}", "text": "{text}"}}\n' for one, text in zip("abc", texts, strict=True)
        )
        for name, texts in (("corpus.jsonl", ("One.", "two", "3")), ("queries.jsonl", ("one.", "TWO", "4")))
    } | {
        "qrels/train.tsv": "query-id\tcorpus-id\tscore\na\tb\t1\na\ta\t0\nc\ta\t1\n",
        "qrels/dev.tsv": "query-id\tcorpus-id\tscore\nb\tb\t1\nb\ta\t1\n",
    }
    counts = sources.collect(tmp_path / "out", {}, write_beir(tmp_path / "in", **files))
    assert [query.in_collection for query in read_queries(tmp_path / "out/queries.train.jsonl")] == [
        True,
        False,
    ]
    assert [query.in_collection for query in read_queries(tmp_path / "out/queries.dev.jsonl")] == [False]
    assert counts["queries_in_collection"] == {"train": 1}


def test_a_text_under_another_title_is_another_text(tmp_path, caplog):
    rows = "d1\ta\tb c\nd2\ta b\tc\nd3\tA\tb c\n"
    counts = sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in", collection_tsv=rows))
    assert "repeated_texts" not in counts and "earlier one" not in caplog.text


def test_a_folder_of_texts_without_files_is_named_by_its_data_set(tmp_path):
    settings = {"source": "hub_text", "parts": [dict(Part(id=str(tmp_path)))]}
    with pytest.raises(ValueError, match=r"^datasets\.wiki: .*expected train\*\.parquet"):
        sources.check_local_files({"wiki": settings})


def test_three_columns_are_id_title_and_text(tmp_path):
    collection = "d1\tT\tfirst\nd2\t\tsecond\nd3\tT3\tthird\n"
    sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in", collection_tsv=collection))
    assert list(read_passages(tmp_path / "out" / "collection.jsonl"))[:2] == [
        Passage("d1", "T", "first"),
        Passage("d2", "", "second"),
    ]


BAD = [
    (
        {"collection_tsv": "d1\ta\nd2\tT\tb\n"},
        "collection.tsv:2: expected 2 tab-separated columns (id, text), got 3",
    ),
    (
        {"collection_tsv": "d1\tT\ta\nd2\tb\n"},
        "collection.tsv:2: expected 3 tab-separated columns (id, title, text)",
    ),
    (
        {"collection_tsv": "d1\ta\tb\tc\n"},
        "collection.tsv:1: expected 2 or 3 tab-separated columns (id, text or id, title, text), got 4",
    ),
    ({"collection_tsv": "d1\ta\rd2\tb\rd3\tc"}, "collection.tsv:1: expected 2 or 3 tab-separated columns"),
    ({"queries_dev_tsv": "q\x08\ta\n"}, "queries.dev.tsv:1: expected a query id without control characters"),
    ({"collection_tsv": b"\x1f\x8b\x08\0\n"}, "collection.tsv: expected a complete archive, got a damaged"),
    ({"collection_tsv": b"\x28\xb5\x2f\xfd\n"}, "collection.tsv:1: expected UTF-8 text, got the byte 0xb5"),
    (
        {"queries_train_tsv": "q1\ta\tb\n"},
        "queries.train.tsv:1: expected 2 tab-separated columns (id, text), got 3",
    ),
    (
        {"queries_train_tsv": "q 1\ta\n"},
        "queries.train.tsv:1: expected a query id without white space, got 'q 1'",
    ),
    ({"queries_train_tsv": "q2\ta\n"}, "qrels.train.tsv:1: expected the id of a query that was kept, got"),
    (
        {"qrels_train_tsv": "q1 0 d1 1 bm25\n"},
        "qrels.train.tsv:1: expected 4 columns (query_id 0 doc_id grade), got 5",
    ),
    ({"qrels_train_tsv": "q1 0 d1 0\nq2 0 d2 0\n"}, "qrels.train.tsv: expected a judgement above grade 0"),
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
    ({"queries_train_tsv": "q1\ta\nq1\tb\n"}, "queries.train.tsv:2: expected unique query ids"),
    ({"queries_train_tsv": "q1\t\n"}, "queries.train.tsv:1: expected a query text that is not empty"),
]


@pytest.mark.parametrize(("files", "message"), BAD)
def test_a_bad_row_ends_the_work_with_file_and_line_and_leaves_no_file(tmp_path, files, message):
    described = write_tsv(tmp_path / "in", **files)
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        sources.collect(tmp_path / "out", {}, described)
    assert message in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_query_whose_only_judgement_is_rejected_is_not_written(tmp_path):
    described = write_tsv(tmp_path / "in", qrels_train_tsv="q1 0 d1 1\nq2 0 gone 1\n") | {"bad_rows": "skip"}
    sources.collect(tmp_path / "out", {}, described)
    assert [query.query_id for query in read_queries(tmp_path / "out" / "queries.train.jsonl")] == ["q1"]


def test_a_query_judged_irrelevant_alone_is_kept_beside_others(tmp_path):
    described = write_tsv(tmp_path / "in", qrels_train_tsv="q1 0 d1 0\nq1 0 d2 -1\nq2 0 d2 1\n")
    counts = sources.collect(tmp_path / "out", {}, described)
    assert counts["queries"]["train"] == 2
    assert [qrel.grade for qrel in read_qrels(tmp_path / "out" / "qrels.train.tsv")] == [0, -1, 1]


def test_a_line_of_100_mb_is_refused_or_left_out_without_being_held(tmp_path):
    described = write_tsv(tmp_path / "in")
    with (tmp_path / "in" / "collection.tsv").open("wb") as file:
        file.write(b"d1\tfirst\nlong\t")
        for _ in range(100):
            file.write(b"word " * 200_000)
        file.write(b"\nd2\tsecond\nd3\tthird\n")
    with pytest.raises(ValueError, match=r"collection\.tsv:2: expected a line of at most 67,108,864 bytes"):
        sources.collect(tmp_path / "out", {}, described)
    counts = sources.collect(tmp_path / "out", {}, described | {"bad_rows": "skip"})
    assert counts["files"]["collection.tsv"] == {"rows": 4, "kept": 3, "rejected": 1}
    assert read_doc_ids(tmp_path / "out" / "doc_ids.txt") == ["d1", "d2", "d3"]


def test_an_evaluation_query_with_the_text_of_a_train_query_is_counted(tmp_path):
    described = write_tsv(
        tmp_path / "in",
        queries_train_tsv="1\tfirst?\n2\tsecond?\n3\tthird?\n",
        qrels_train_tsv="1 0 d1 1\n2 0 d2 1\n3 0 d3 1\n",
        queries_dev_tsv="1\tSecond? \n2\tsecond?\n3\tother?\n",  # numbers of another file
        qrels_dev_tsv="1 0 d3 1\n2 0 d3 1\n3 0 d1 1\n",
    )
    counts = sources.collect(tmp_path / "out", {}, described)
    assert counts["queries_shared_by_splits"] == {"dev+train": 2}


def test_further_evaluation_sets_are_collected_and_what_they_share_is_counted(tmp_path):
    more = {"queries_late_tsv": "q2\tsecond?\n", "qrels_late_tsv": "q2 0 d1 1\n"}
    in_beir = {"qrels/late.tsv": HEADER + "q2\td1\t1\nq1\td2\t1\n"}
    of_tsv, of_beir = write_tsv(tmp_path / "tsv", **more), write_beir(tmp_path / "beir", **in_beir)
    for settings, shared in (
        (of_tsv, {"late+train": 1}),
        (of_beir, {"dev+late": 1, "late+train": 1}),
    ):
        settings["other_eval_splits"] = ["late"]
        assert sources.splits(settings) == ["train", "dev", "late"]
        assert sources.eval_splits(settings) == ["dev", "late"]
        sources.check_local_files({"mine": settings})
        out = tmp_path / f"from {settings['source']}"
        counts = sources.collect(out, {}, settings)
        assert counts["queries_shared_by_splits"] == shared
        assert counts["queries"]["late"] == len(list(read_queries(out / "queries.late.jsonl")))
        assert Qrel("q2", "d1", 1) in list(read_qrels(out / "qrels.late.tsv"))
        assert sources.has_more_splits(settings)
    assert not sources.has_more_splits({"source": "pydoc"})


def test_a_beir_judgement_file_without_header_is_refused_rather_than_robbed_of_a_row(tmp_path):
    described = write_beir(tmp_path / "in", **{"qrels/dev.tsv": "q2\td2\t1\n"}) | {"bad_rows": "skip"}
    with pytest.raises(ValueError, match=r"dev\.tsv:1: expected the header query-id corpus-id score"):
        sources.collect(tmp_path / "out", {}, described)


HEADER = "query-id\tcorpus-id\tscore\n"
BAD_BEIR = [
    (
        "corpus.jsonl",
        '{"_id": "d1", "text": "a"}\n{"_id": "d1", "text": "b"}\n',
        "2: expected unique passage ids",
    ),
    ("corpus.jsonl", '{"_id": "d 1", "text": "a"}\n', "1: expected a passage id without white space"),
    (
        "corpus.jsonl",
        '{"_id": "d1", "text": "one", "text": "OTHER"}\n',
        "1: expected each key once in an object, got 'text' again",
    ),
    (
        "corpus.jsonl",
        '{"_id": "d1", "text": ["a"]}\n',
        "1: expected a string in \"text\", got ['a']. Write it as one text.",
    ),
    ("corpus.jsonl", '{"_id": 5, "text": "a"}\n', '1: expected a string in "_id", got 5'),
    ("corpus.jsonl", '{"id": "5", "text": "a"}\n', '1: expected a field "_id"'),
    (
        "corpus.jsonl",
        '{"_id": "5", "text": null}\n',
        '1: expected a string in "text", got null. Add a text, or remove the row.',
    ),
    (
        "corpus.jsonl",
        '{"_id": "5", "title": 7, "text": "a"}\n',
        '1: expected a string in "title", got 7. Put it in quotation marks.',
    ),
    ("corpus.jsonl", '{"_id": "5", "text": "a\\ud800"}\n', "1: expected a passage text in valid Unicode"),
    ("corpus.jsonl", b'{"_id": "d1", "text": "\xe9"}\n', "1: expected UTF-8 text, got the byte 0xe9"),
    ("corpus.jsonl", '{"_id": "d1", "text": "a\\u0000"}\n', "1: expected a passage text without NUL"),
    ("corpus.jsonl", '{"_id": "d1", "text": "a"} {"_id": "d2"}\n', "1: expected one JSON object"),
    ("queries.jsonl", '{"_id": "q1", "text": " "}\n', "1: expected a query text that is not empty"),
    ("queries.jsonl", '{"_id": "q1", "text": "a"}\n' * 2, "2: expected unique query ids"),
    (
        "queries.jsonl",
        '{"_id": "q1", "text": "a", "answers": null}\n',
        '1: expected a list of strings in "answers"',
    ),
    ("qrels/dev.tsv", "", "1: expected the header query-id corpus-id score, tab-separated, got ''"),
    ("qrels/dev.tsv", "q2 0 d2 1\nq2 d2 1\n", "2: expected 4 columns (query_id 0 doc_id grade), got 3"),
    ("qrels/dev.tsv", "query-id 0 corpus-id score\n", "1: expected the header query-id corpus-id score"),
    (
        "qrels/dev.tsv",
        f"{HEADER}q2\td2\n",
        "2: expected 3 tab-separated columns (query-id, corpus-id, score), got 2",
    ),
    ("qrels/dev.tsv", f"{HEADER}q2\td2\t0.5\n", "2: expected an integer grade, got '0.5'"),
    ("qrels/dev.tsv", f"{HEADER}q2\td9\t1\n", "2: expected the id of a passage of the collection, got 'd9'"),
    (
        "qrels/dev.tsv",
        f"{HEADER}q2\td2\t1\nq9\td2\t1\n",
        "3: expected the id of a query that was kept, got 'q9'",
    ),
    ("qrels/dev.tsv", f"{HEADER}q2\td2\t0\n", " expected a judgement above grade 0 in the split 'dev'"),
]
EMPTY = [
    (write_beir, "qrels/dev.tsv", HEADER, "dev.tsv: expected judgements of the split 'dev', got a file"),
    (write_beir, "queries.jsonl", "", "queries.jsonl: expected queries of the split 'train' and 'dev',"),
    (write_tsv, "qrels_train_tsv", "", "qrels.train.tsv: expected judgements of the split 'train', "),
    (write_tsv, "queries_dev_tsv", "\n\n", "queries.dev.tsv: expected queries of the split 'dev', got "),
]


@pytest.mark.parametrize("bad_rows", ["strict", "skip"])
@pytest.mark.parametrize(("write", "file", "content", "message"), EMPTY)
def test_a_file_of_a_split_without_rows_is_named(tmp_path, write, file, content, message, bad_rows):
    described = write(tmp_path / "in", **{file: content}) | {"bad_rows": bad_rows}
    with pytest.raises(ValueError, match=r"^[^\n]+ to null if there are none\.$") as caught:
        sources.collect(tmp_path / "out", {}, described)
    assert str(caught.value).startswith(message)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(("file", "content", "message"), BAD_BEIR)
def test_a_bad_row_of_a_beir_folder_ends_the_work_in_the_same_way(tmp_path, file, content, message):
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        sources.collect(tmp_path / "out", {}, write_beir(tmp_path / "in", **{file: content}))
    assert f"{file}:{message}" in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_old_files_stay_when_the_new_ones_fail(tmp_path):
    sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in"))
    before = files_of(tmp_path / "out")
    with pytest.raises(ValueError, match="unique"):
        sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in", collection_tsv="d1\ta\nd1\ta\n"))
    assert files_of(tmp_path / "out") == before


def test_the_files_that_are_read_are_declared_and_each_must_be_there_before_anything_runs(tmp_path):
    for described in (write_tsv(tmp_path / "tsv"), write_beir(tmp_path / "beir")):
        for file in sources.local_files(described):
            kept = file.read_bytes()
            file.unlink()
            with pytest.raises(
                ValueError, match=r"^datasets\.mine\.path: expected the file .*, found none"
            ) as one:
                sources.check_local_files({"mine": described})
            assert str(file) in str(one.value)
            with pytest.raises(FileNotFoundError, match=file.name):
                sources.collect(tmp_path / "out", {}, described)
            file.write_bytes(kept)
        sources.check_local_files({"mine": described})
        sources.collect(tmp_path / "out", {}, described)


def test_files_that_are_not_the_sources_stay_in_the_folder(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in"))
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


def test_an_unknown_source_or_a_missing_setting_is_told(tmp_path):
    with pytest.raises(ValueError, match=r"expected one of beir, .*tsv.*, got 'os'"):
        sources.collect(tmp_path, {}, Settings(source="os"))
    with pytest.raises(ValueError, match="source beir: expected the setting path, bad_rows, got none"):
        sources.collect(tmp_path, {}, {"source": "beir", **SPLITS})


def test_keys_that_collecting_does_not_use_are_no_part_of_what_a_collection_is_made_of():
    beir = {"source": "beir", "path": "mine", "bad_rows": "strict", **SPLITS}
    later = {"recipe": "marco", "measures": ["R@20"], "relevant_grade": 2}
    assert sources.settings_of_collect(beir | later) == {"split": None, **beir}
    msmarco = {"source": "msmarco", "titles": "none", **SPLITS}
    assert sources.settings_of_collect(msmarco | later | {"triples": "bm25"}) == {"split": None, **msmarco}


def test_official_negatives_are_those_of_the_system_that_a_data_set_names():
    msmarco = {"source": "msmarco", "triples": "bm25"}
    assert sources.example_files(msmarco, "bm25") == [TRIPLES]
    assert sources.example_files(msmarco, "condenser-round1") == []
    assert sources.example_files(msmarco | {"triples": None}, "bm25") == []
    assert sources.example_files({"source": "beir"}, "bm25") == []


def test_texts_without_queries_have_no_splits():
    assert sources.splits({"source": "hub_text", "parts": []}) == []
    assert sources.splits({"source": "beir", "eval_split": None, "train_split": None}) == []
    assert sources.splits({"source": "beir", "eval_split": "test", "train_split": None}) == ["test"]
    assert sources.splits({"source": "beir", "eval_split": "test", "train_split": "train"}) == [
        "train",
        "test",
    ]


@pytest.mark.parametrize("write", [write_beir, write_tsv])
def test_a_folder_of_ones_own_may_lack_train_queries_or_all(tmp_path, write):
    described = write(tmp_path / "in")
    both = sources.collect(tmp_path / "both", {}, described)
    one = described | {"train_split": None}
    for file in set(sources.local_files(described)) - set(sources.local_files(one)):
        file.unlink()
    counts = sources.collect(tmp_path / "one", {}, one)
    assert counts["queries"] == {"dev": both["queries"]["dev"]}
    none = one | {"eval_split": None}
    (texts,) = sources.local_files(none)
    for file in set(sources.local_files(one)) - {texts}:
        file.unlink()
    sources.check_local_files({"mine": none})
    counts = sources.collect(tmp_path / "none", {}, none)
    assert counts["queries"] == counts["qrels"] == {} and counts["passages"] == both["passages"]
    made = {name: {file.name for file in (tmp_path / name).iterdir()} for name in ("one", "none")}
    assert made["none"] == {"collection.jsonl", "doc_ids.txt", "rejected.jsonl", "counts.json"}
    assert made["one"] == made["none"] | {"queries.dev.jsonl", "qrels.dev.tsv"}
    name = "collection.jsonl"
    assert (tmp_path / "none" / name).read_bytes() == (tmp_path / "both" / name).read_bytes()


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


def test_an_unknown_policy_for_bad_rows_is_refused():
    with pytest.raises(ValueError, match=r"bad_rows\n.*'strict' or 'skip'.*'ignore'"):
        Texts(source="beir", bad_rows="ignore")


@pytest.mark.parametrize(
    ("write", "first"), [(write_beir, "1 of 2 rows (50 %)"), (write_tsv, "1 of 3 rows (33 %)")]
)
def test_the_time_left_is_told_by_the_lines_of_the_collection(tmp_path, write, first, monkeypatch, capsys):
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    sources.collect(tmp_path / "out", {}, write(tmp_path / "in"))
    assert capsys.readouterr().err.startswith(f"collection: {first}")


@pytest.mark.parametrize("packing", [bytes, gzip.compress])
def test_trec_judgements_in_beirs_place_are_read_as_beirs(tmp_path, packing):
    trec = b"q2 0 d2 2\nq2\t0\td1\t0.0\n"
    beir = write_beir(tmp_path / "beir")
    other = write_beir(tmp_path / "trec", **{"qrels/dev.tsv": packing(trec)})
    sources.collect(tmp_path / "from beir", {}, beir)
    counts = sources.collect(tmp_path / "from trec", {}, other)
    assert files_of(tmp_path / "from trec") == files_of(tmp_path / "from beir")
    assert counts["files"]["dev.tsv"] == {"rows": 2, "kept": 2, "rejected": 0}


def refused(tmp_path, **files) -> str:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in", **files))
    return str(caught.value)


def test_the_first_bad_row_is_named_and_those_below_it_are_counted_by_kind(tmp_path):
    rows = "d1\tfirst\nno tab\nd2\tsecond\nd3\n" + "d1\tagain\n" * 39 + "d2\tagain\n" + "d4\t\n"
    said = refused(tmp_path, collection_tsv=rows)
    assert "collection.tsv:2: expected 2 tab-separated columns (id, text), got 1 in 'no tab'. " in said
    assert said.endswith(" And 42 more bad rows of 3 kinds in this file; bad_rows: skip leaves them out.")
    described = write_tsv(tmp_path / "in", collection_tsv=rows + "d3\tthird\n") | {"bad_rows": "skip"}
    assert sources.collect(tmp_path / "out", {}, described)["rejected"] == 43


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"collection_tsv": "d1\ta\nd1\tb\nd2\tc\nd3\td\n"}, "got 'd1' again. Remove one of the"),
        (
            {"qrels_train_tsv": "q1 0 d1 1\nq1 0 gone 1\n"},
            "got 'gone'. Do both files belong to the",
        ),
        (
            {"qrels_train_tsv": "q1 0 d1 1\ngone 0 d1 1\n"},
            "got 'gone'. Is the query in the file of",
        ),
        ({"queries_dev_tsv": "q3\tb\nq 3\ta\n"}, "got 'q 3'. Give every row its own id."),
    ],
)
def test_a_single_bad_row_says_how_to_leave_it_out(tmp_path, files, said):
    message = refused(tmp_path, **files)
    assert said in message and message.endswith(" bad_rows: skip leaves it out.")
    counts = sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in", **files) | {"bad_rows": "skip"})
    assert counts["rejected"] == 1


@pytest.mark.parametrize(
    ("rows", "more"),
    [
        ("q1 0 d1 1\nq1 0 d7 1\nq1 0 d1 2\nq1 0 d1 1\nq2 0 d2 1\nq2 0 d2 3\n", "2 more bad rows of 1 kind"),
        ("q1 0 d1 1\nq8 0 d1 1\nq9 0 d2 1\nq2 0 d2 1\n", "1 more bad row of 1 kind"),
    ],
)
def test_bad_judgements_are_counted_too(tmp_path, rows, more):
    said = refused(tmp_path, qrels_train_tsv=rows)
    assert "qrels.train.tsv:2: expected the id of a " in said
    assert said.endswith(f" And {more} in this file; bad_rows: skip leaves them out.")


def test_counting_on_takes_a_limited_time_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("condenser.data.canonical.COUNTING_S", -1.0)
    said = refused(tmp_path, collection_tsv="d1\ta\nbad\nbad\nbad\nbad\n")
    assert "collection.tsv:2: " in said and " And at least 1 more bad row of 1 kind in this file" in said


def test_a_fault_of_the_file_below_the_first_bad_row_does_not_hide_that(tmp_path):
    whole = gzip.compress(b"q1\ta\nbad\nq1\tb\n" + random.Random(0).randbytes(4 << 20).hex().encode())
    said = refused(tmp_path, queries_train_tsv=whole[: len(whole) // 2])
    assert "queries.train.tsv:2: expected 2 tab-separated columns" in said
    assert " And at least 1 more bad row of 1 kind in this file" in said
