"""A user's own folders become canonical files: everything kept, rejected or counted."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
from bad_rows import refuse_and_skip
from own_collections import SPLITS, files_of, write_beir, write_tsv

from condenser import progress
from condenser.data.judged import Judgements
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
from condenser.settings import Settings
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


def test_queries_of_one_split_may_have_a_file_of_their_own_and_say_how_they_were_pooled(tmp_path):
    settings = write_beir(tmp_path / "in")
    judged = Judgements(tmp_path / "in")
    judged.add(["one?", "never judged?"])
    judged.pool("j1", {"bm25": ["d1"], "hybrid": ["d2", "d1"]})
    judged.grade("j1", {"d1": 0, "d2": 1})
    settings = {**settings, "other_eval_splits": {"judged": {}}}
    counts = sources.collect(tmp_path / "out", {}, settings)
    assert list(read_queries(tmp_path / "out" / "queries.judged.jsonl")) == [Query("j1", "one?")]
    assert list(read_queries(tmp_path / "out" / "queries.dev.jsonl")) == [Query("q2", "2?")]
    judgements = {(qrel.doc_id, qrel.grade) for qrel in read_qrels(tmp_path / "out" / "qrels.judged.tsv")}
    assert judgements == {("d1", 0), ("d2", 1)}
    assert counts["pooled"]["judged"]["systems"] == ["bm25", "hybrid"]
    files = {file.name for file in sources.local_files(settings)}
    assert files >= {"queries.judged.jsonl", "queries.jsonl", "judged.tsv", "judged.jsonl"}


def test_a_tsv_folder_keeps_quotes_na_and_line_separators_as_they_are(tmp_path):
    texts = ['a lone " quote', "NA", "one\u2028two\u0085three", "nan", " led and trailed by spaces "]
    collection = "".join(f"d{i}\t{text}\n" for i, text in enumerate(texts, start=1))
    sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in", collection_tsv=collection))
    assert [passage.text for passage in read_passages(tmp_path / "out" / "collection.jsonl")] == texts


@pytest.mark.parametrize("write", [write_tsv, write_beir])
def test_carriage_returns_at_line_ends_are_no_part_of_texts_ids_or_grades(tmp_path, write):
    plain, crlf = write(tmp_path / "plain"), write(tmp_path / "crlf")
    for file in sources.local_files(crlf):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    sources.collect(tmp_path / "from plain", {}, plain)
    counts = sources.collect(tmp_path / "from crlf", {}, crlf)
    assert files_of(tmp_path / "from crlf") == files_of(tmp_path / "from plain")
    for tally in counts["files"].values():
        assert tally["carriage_returns"] >= tally["rows"]  # BEIR's headers are no rows


@pytest.mark.parametrize(("write", "rename"), [(write_tsv, True), (write_beir, True), (write_beir, False)])
def test_gzip_files_are_read_as_plain_ones_whatever_their_names(tmp_path, write, rename):
    plain, gzipped = write(tmp_path / "plain"), write(tmp_path / "gzipped")
    for file in sources.local_files(gzipped):
        content = gzip.compress(file.read_bytes())
        file.unlink()
        (file.with_name(f"{file.name}.gz") if rename else file).write_bytes(content)
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
    """A text under another title is another text."""
    rows = "d1\ta\tb c\nd2\ta b\tc\nd3\tA\tb c\nd4\ta\tb c\nd5\ta\tb c\n"
    counts = sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in", collection_tsv=rows))
    assert (counts["passages"], counts["repeated_texts"]) == (5, 2)
    assert "passages with the title and text of an earlier one: 2 of 5" in caplog.text


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
    for split, marked in (("train", [True, False]), ("dev", [False])):
        queries = read_queries(tmp_path / "out" / f"queries.{split}.jsonl")
        assert [query.in_collection for query in queries] == marked
    assert counts["queries_in_collection"] == {"train": 1}


def test_a_folder_of_texts_without_files_is_named_by_its_data_set(tmp_path):
    settings = {"source": "hub_text", "parts": [dict(Part(id=str(tmp_path)))]}
    with pytest.raises(ValueError, match=r"^datasets\.wiki: .*expected train\*\.parquet"):
        sources.check_local_files({"wiki": settings})


def test_three_columns_are_id_title_and_text(tmp_path):
    collection = "d1\tT\tfirst\nd2\t\tsecond\nd3\tT3\tthird\n"
    counts = sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in", collection_tsv=collection))
    assert "repeated_texts" not in counts
    assert list(read_passages(tmp_path / "out" / "collection.jsonl"))[:2] == [
        Passage("d1", "T", "first"),
        Passage("d2", "", "second"),
    ]


REJECTED = " 2 rows were rejected: bad_rows: strict shows the first one."
HEADER = "query-id\tcorpus-id\tscore\n"
BAD_TSV = [  # a line that stands before the last one of a good file, and what was expected in its place
    ("collection.tsv", "no tab", "2 tab-separated columns (id, text), got 1 in 'no tab'. Is it"),
    ("collection.tsv", "d4\tT\ttext", "2 tab-separated columns (id, text), got 3"),
    ("collection.tsv", "d1\tx", "unique passage ids, got 'd1' again. Remove one of the"),
    ("collection.tsv", "d 4\tx", "a passage id without white space"),
    ("collection.tsv", "d4\t ", "a passage text that is not empty"),
    ("collection.tsv", b"d4\t\xe9", "UTF-8 text, got the byte 0xe9"),
    ("queries.train.tsv", "q4\ta\tb", "2 tab-separated columns (id, text), got 3"),
    ("queries.train.tsv", "q 4\ta", "a query id without white space, got 'q 4'. Give every row"),
    ("queries.train.tsv", "q1\ta", "unique query ids, got 'q1' again"),
    ("queries.train.tsv", "q4\t", "a query text that is not empty"),
    ("qrels.train.tsv", "q1 0 d1 1 bm25", "4 columns (query_id 0 doc_id grade), got 5"),
    ("qrels.train.tsv", "q1 0 gone 1", "the id of a passage of the collection, got 'gone'. Do both"),
    ("qrels.train.tsv", "gone 0 d1 1", "the id of a query that was kept, got 'gone'. Is the query"),
    ("qrels.train.tsv", "q1 0 d1 2", "grade 1 as above for query 'q1' and passage 'd1', got grade"),
]
BAD_BEIR = [
    ("corpus.jsonl", '{"_id": "d1", "text": "x"}', "unique passage ids"),
    ("corpus.jsonl", '{"_id": "d4", "text": "x", "text": "y"}', "each key once in an object"),
    ("corpus.jsonl", '{"_id": "d4", "text": ["x"]}', "a string in \"text\", got ['x']. Write it as one"),
    ("corpus.jsonl", '{"_id": 5, "text": "x"}', 'a string in "_id", got 5'),
    ("corpus.jsonl", '{"id": "d4", "text": "x"}', 'a field "_id", got only '),
    ("corpus.jsonl", '{"_id": "d4", "text": null}', 'a string in "text", got null. Add a text'),
    ("corpus.jsonl", '{"_id": "d4", "title": 7, "text": "x"}', 'a string in "title", got 7. Put it in'),
    ("corpus.jsonl", '{"_id": "d4", "text": "x"} {}', "one JSON object"),
    ("queries.jsonl", '{"_id": "q4", "text": " "}', "a query text that is not empty"),
    ("queries.jsonl", '{"_id": "q4", "text": "x", "answers": null}', "a list of strings in"),
    ("qrels/dev.tsv", "q2\td2", "3 tab-separated columns (query-id, corpus-id, score), got 2"),
    ("qrels/dev.tsv", "q2\td2\t0.5", "an integer grade, got '0.5'"),
]


@pytest.mark.parametrize(
    ("write", "file", "line", "expected"),
    [*((write_tsv, *row) for row in BAD_TSV), *((write_beir, *row) for row in BAD_BEIR)],
)
def test_a_bad_row_is_refused_with_file_and_line_or_left_out_and_nothing_else_changes(
    tmp_path, write, file, line, expected
):
    settings = write(tmp_path / "in")
    sources.collect(tmp_path / "good", {}, settings)
    *lines, last = (tmp_path / "in" / file).read_bytes().splitlines()
    bad = line if isinstance(line, bytes) else line.encode()
    (tmp_path / "in" / file).write_bytes(b"\n".join([*lines, bad, last]))
    number = len(lines) + 1
    message = f"{tmp_path}/in/{file}:{number}: expected {expected}"
    counts, listed = refuse_and_skip(tmp_path / "out", {}, settings, message)
    name = Path(file).name
    assert listed == [(name, number)] and counts["files"][name]["rejected"] == 1
    assert files_of(tmp_path / "out", "rejected.jsonl") == files_of(tmp_path / "good", "rejected.jsonl")


NO_ROWS = " to null if there are none."
NO_HEADER = "dev.tsv:1: expected the header query-id corpus-id score, tab-separated, got '"
REFUSED_TSV = [  # content of a whole file, begin and end of the message
    ("collection_tsv", "", "collection.tsv: expected passages, got none", "the right file?"),
    ("collection_tsv", b"\x1f\x8b\x08\0\n", "collection.tsv: expected a complete archive", ""),
    ("collection_tsv", "one\ntwo\n", "collection.tsv: expected passages, got none", REJECTED),
    ("queries_dev_tsv", "\n\n", "queries.dev.tsv: expected queries of the split 'dev', ", NO_ROWS),
    ("queries_dev_tsv", "q3\n", "expected queries with judgements in the split 'dev', got none", ""),
    ("qrels_train_tsv", "", "qrels.train.tsv: expected judgements of the split 'train', ", NO_ROWS),
    ("qrels_train_tsv", "q1 0 d1 0", "qrels.train.tsv: expected a judgement above grade 0 in ", ""),
]
REFUSED_BEIR = [
    ("queries.jsonl", "", "queries.jsonl: expected queries of the split 'train' and 'dev',", NO_ROWS),
    ("qrels/dev.tsv", HEADER, "dev.tsv: expected judgements of the split 'dev', got a file", NO_ROWS),
    ("qrels/dev.tsv", "", f"{NO_HEADER}'", ""),
    ("qrels/dev.tsv", "q2\td2\t1\n", f"{NO_HEADER}q2", ""),
    ("qrels/dev.tsv", "query-id 0 corpus-id score\n", NO_HEADER, ""),
]


@pytest.mark.parametrize(
    ("write", "file", "content", "begin", "end"),
    [*((write_tsv, *row) for row in REFUSED_TSV), *((write_beir, *row) for row in REFUSED_BEIR)],
)
def test_a_file_of_which_nothing_can_be_used_is_refused_also_where_bad_rows_are_skipped(
    tmp_path, write, file, content, begin, end
):
    described = write(tmp_path / "in", **{file: content}) | {"bad_rows": "skip"}
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        sources.collect(tmp_path / "out", {}, described)
    assert begin in str(caught.value) and str(caught.value).endswith(end)
    assert list((tmp_path / "out").iterdir()) == []


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


LATE_TSV = {"queries_late_tsv": "q2\tsecond?\n", "qrels_late_tsv": "q2 0 d1 1\n"}
LATE_BEIR = {"qrels/late.tsv": f"{HEADER}q2\td1\t1\nq1\td2\t1\n"}


@pytest.mark.parametrize(
    ("write", "files", "shared"),
    [(write_tsv, LATE_TSV, {"late+train": 1}), (write_beir, LATE_BEIR, {"dev+late": 1, "late+train": 1})],
)
def test_further_evaluation_sets_are_collected_and_what_they_share_is_counted(tmp_path, write, files, shared):
    settings, out = write(tmp_path / "in", **files) | {"other_eval_splits": ["late"]}, tmp_path / "out"
    assert sources.splits(settings) == ["train", "dev", "late"]
    assert sources.eval_splits(settings) == ["dev", "late"]
    assert sources.MORE_SPLITS(settings) and not sources.MORE_SPLITS({"source": "pydoc"})
    sources.check_local_files({"mine": settings})
    counts = sources.collect(out, {}, settings)
    assert counts["queries_shared_by_splits"] == shared
    assert counts["queries"]["late"] == len(list(read_queries(out / "queries.late.jsonl")))
    assert Qrel("q2", "d1", 1) in list(read_qrels(out / "qrels.late.tsv"))


def test_new_files_replace_the_old_ones_alone_and_only_together(tmp_path):
    sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in"))
    (tmp_path / "out" / "notes.txt").write_text("mine")
    before = files_of(tmp_path / "out")
    with pytest.raises(ValueError, match="unique"):
        sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in", collection_tsv="d1\ta\nd1\ta\n"))
    assert files_of(tmp_path / "out") == before
    sources.collect(tmp_path / "out", {}, write_tsv(tmp_path / "in", queries_dev_tsv="q3\tother?\n"))
    changed = {name for name, content in files_of(tmp_path / "out").items() if content != before[name]}
    assert changed == {"queries.dev.jsonl"}


@pytest.mark.parametrize("write", [write_tsv, write_beir])
def test_the_files_that_are_read_are_declared_and_each_must_be_there_before_anything_runs(tmp_path, write):
    described = write(tmp_path / "in")
    for file in sources.local_files(described):
        kept = file.read_bytes()
        file.unlink()
        with pytest.raises(ValueError, match=rf"^datasets\.mine\.path: expected the file {file}, found none"):
            sources.check_local_files({"mine": described})
        with pytest.raises(FileNotFoundError, match=file.name):
            sources.collect(tmp_path / "out", {}, described)
        file.write_bytes(kept)
    sources.check_local_files({"mine": described})


def test_an_unknown_source_or_a_missing_setting_is_told(tmp_path):
    with pytest.raises(ValueError, match=r"expected one of beir, .*tsv.*, got 'os'"):
        sources.load(Settings(source="os"))
    with pytest.raises(ValueError, match="beir: expected the key path, got source"):
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


@pytest.mark.parametrize(
    ("settings", "splits"),
    [
        ({"source": "hub_text", "parts": []}, []),
        ({"source": "beir", "eval_split": None, "train_split": None}, []),
        ({"source": "beir", "eval_split": "test", "train_split": None}, ["test"]),
        ({"source": "beir", "eval_split": "test", "train_split": "train"}, ["train", "test"]),
    ],
)
def test_a_split_that_is_null_is_none(settings, splits):
    assert sources.splits(settings) == splits


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


MORE_BAD = "d1\tfirst\nno tab\nd2\tsecond\nd3\n" + "d1\tagain\n" * 39 + "d2\tagain\nd4\t\n"
OF_NO_PASSAGE = "q1 0 d1 1\nq1 0 d7 1\nq1 0 d1 2\nq1 0 d1 1\nq2 0 d2 1\nq2 0 d2 3\n"
OF_NO_QUERY = "q1 0 d1 1\nq8 0 d1 1\nq9 0 d2 1\nq2 0 d2 1\n"


@pytest.mark.parametrize(
    ("file", "rows", "message", "more"),
    [
        ("collection_tsv", MORE_BAD, "2 tab-separated columns (id, text)", "42 more bad rows"),
        ("qrels_train_tsv", OF_NO_PASSAGE, "the id of a passage", "2 more bad rows"),
        ("qrels_train_tsv", OF_NO_QUERY, "the id of a query", "1 more bad row"),
    ],
)
def test_the_first_bad_row_is_named_and_those_below_it_are_counted_by_kind(
    tmp_path, file, rows, message, more
):
    said = refused(tmp_path, **{file: rows})
    assert f"{file.replace('_', '.')}:2: expected {message}" in said
    assert said.endswith(f" And {more} in this file; bad_rows: skip leaves them out.")


def test_counting_on_takes_a_limited_time_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("condenser.data.canonical.COUNTING_S", -1.0)
    said = refused(tmp_path, collection_tsv="d1\ta\nbad\nbad\nbad\nbad\n")
    assert "collection.tsv:2: " in said and " And at least 1 more bad row in this file" in said


def test_a_fault_of_the_file_below_the_first_bad_row_does_not_hide_that(tmp_path):
    whole = gzip.compress(b"q1\ta\nbad\nq1\tb\n" + random.Random(0).randbytes(4 << 20).hex().encode())
    said = refused(tmp_path, queries_train_tsv=whole[: len(whole) // 2])
    assert "queries.train.tsv:2: expected 2 tab-separated columns" in said
    assert " And at least 1 more bad row in this file" in said
