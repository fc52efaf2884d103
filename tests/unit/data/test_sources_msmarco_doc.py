"""MS MARCO's documents: the official files, small but in their exact form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bad_rows import refuse_and_skip

from condenser.data.official import OFFICIAL_FILES
from condenser.data.records import Passage, Qrel, Query, read_doc_ids, read_passages, read_qrels, read_queries
from condenser.data.sources import msmarco_doc
from condenser.data.sources.msmarco_doc import OFFICIAL_ROWS, Settings
from configs import sources
from tests.dpr_files import write

DOCS = "msmarco-docs.tsv.gz"
QUERIES, QRELS = "msmarco-docdev-queries.tsv.gz", "msmarco-docdev-qrels.tsv.gz"
FILES: dict[str, str] = {
    DOCS: (
        "D1555982\thttps://answers.yahoo.com/a\tThe hot glowing surfaces\tScience & Mathematics Physics. NA\n"
        'D301595\thttp://childparenting.about.com/b\tChild "Development\tSocial\u2028skills, at 8 years.\n'
        "D1359209\thttp://visihow.com/c\t\tA body without a title.\n"
        "D2147834\thttp://www.nothing.com/d\tOnly a title\t\n"
        "D1568809\thttp://www.nothing.com/e\t.\t \n"
        "D77\thttp://www.nothing.com/f\t\t\n"
    ),
    "msmarco-doctrain-queries.tsv.gz": "3\thot surfaces\n5\tnever judged\n6\tnothing\n",
    "msmarco-doctrain-qrels.tsv.gz": "3 0 D1555982 1\n6 0 D2147834 1\n",
    QUERIES: "2\tsocial\u2028skills\n",
    QRELS: "2 0 D301595 1\n",
    "msmarco-test2019-queries.tsv.gz": "9\tgraded\n10\tof the 157 that are not judged\n",
    "2019qrels-docs.txt": "9 Q0 D1555982 0\n9 Q0 D301595 3\n9 Q0 D1359209 1\n9 Q0 D77 2\n",
}
ROWS = {name: content.count("\n") for name, content in FILES.items()}


def settings(**others: Any) -> dict[str, Any]:
    given = {"source": "msmarco_doc", "bad_rows": "strict", "train_split": "train", "eval_split": "dev"}
    return {**given, "official_rows": ROWS, **others}


def test_documents_keep_id_title_and_body_and_those_without_a_body_are_counted(tmp_path: Path) -> None:
    out, texts = tmp_path / "out", settings(train_split=None, eval_split=None)
    assert sources.raw_files(texts) == [DOCS]
    counts = sources.collect(out, write(tmp_path, {DOCS: FILES[DOCS]}), texts)
    assert list(read_passages(out / "collection.jsonl")) == [
        Passage("D1555982", "The hot glowing surfaces", "Science & Mathematics Physics. NA"),
        Passage("D301595", 'Child "Development', "Social\u2028skills, at 8 years."),
        Passage("D1359209", "", "A body without a title."),
    ]
    assert read_doc_ids(out / "doc_ids.txt") == ["D1555982", "D301595", "D1359209"]
    assert counts["files"] == {DOCS: {"rows": 6, "kept": 3, "rejected": 0, "without_text": 3}}
    assert counts["passages"] == 3 and counts["queries"] == {}


def test_queries_and_judgements_make_it_a_data_set(tmp_path: Path) -> None:
    assert set(sources.raw_files(settings())) == {DOCS, *(name for name in FILES if "msmarco-doc" in name)}
    counts = sources.collect(tmp_path / "out", write(tmp_path, FILES), settings())
    # one without a body is found by its title; one without either cannot be
    passages = list(read_passages(tmp_path / "out" / "collection.jsonl"))
    assert [passage.doc_id for passage in passages[:3]] == ["D1555982", "D301595", "D1359209"]
    assert passages[3:] == [Passage("D2147834", "", "Only a title"), Passage("D1568809", "", ".")]
    of_documents = {"rows": 6, "kept": 5, "rejected": 0, "without_text": 1, "title_as_text": 2}
    assert counts["files"][DOCS] == of_documents
    assert counts["queries"] == {"train": 2, "dev": 1} and counts["qrels"] == {"train": 2, "dev": 1}
    assert list(read_queries(tmp_path / "out" / "queries.dev.jsonl")) == [Query("2", "social\u2028skills")]
    assert list(read_qrels(tmp_path / "out" / "qrels.train.tsv")) == [
        Qrel("3", "D1555982", 1), Qrel("6", "D2147834", 1),
    ]  # fmt: skip


def test_topics_of_trec_keep_their_grades_and_grade_1_is_relevant(tmp_path: Path) -> None:
    counts = sources.collect(tmp_path / "out", write(tmp_path, FILES), settings(eval_split="dl19"))
    qrels = list(read_qrels(tmp_path / "out" / "qrels.dl19.tsv"))
    assert qrels == [Qrel("9", "D1555982", 0), Qrel("9", "D301595", 3), Qrel("9", "D1359209", 1)]
    assert counts["queries"]["dl19"] == 1
    assert counts["files"]["2019qrels-docs.txt"]["of_documents_without_text"] == 1
    assert not msmarco_doc.Settings.LEAST_GRADES


@pytest.mark.parametrize(
    ("name", "bad", "expected"),
    [
        (DOCS, "D9\thttp://a\tA title and no body", "4 tab-separated columns (id, url, title, body), got 3"),
        (DOCS, "D77777\thttp://a\tone\ttab\tmore", "4 tab-separated columns (id, url, title, body), got 5"),
        (DOCS, "D301595\thttp://a\ttitle\tbody", "unique passage ids, got 'D301595' again"),
        (QRELS, "2 0 D7 1", "the id of a passage of the collection, got 'D7'"),
        (QRELS, "2 D301595 1", "4 columns"),
        (QUERIES, "2 social", "2 tab-separated columns"),
    ],
)
def test_a_bad_row_is_refused_or_left_out(tmp_path: Path, name: str, bad: str, expected: str) -> None:
    raw = write(tmp_path, {**FILES, name: f"{FILES[name]}{bad}\n"})
    number = ROWS[name] + 1
    given = settings(official_rows={**ROWS, name: number})
    message = f"{name}:{number}: expected {expected}"
    counts, listed = refuse_and_skip(tmp_path / "out", raw, given, message)
    assert listed == [(name, number)] and counts["queries"] == {"train": 2, "dev": 1}


@pytest.mark.parametrize("name", [DOCS, QUERIES])
def test_another_number_of_rows_than_the_official_one_is_an_error(tmp_path: Path, name: str) -> None:
    official = settings(official_rows={**ROWS, name: 8})
    with pytest.raises(ValueError, match=f"{name}: expected the official 8 rows, got {ROWS[name]}"):
        sources.collect(tmp_path / "out", write(tmp_path, FILES), official)
    assert not list((tmp_path / "out").iterdir())


def test_the_files_that_are_read_are_official_with_their_published_numbers() -> None:
    assert set(OFFICIAL_ROWS) == set(FILES) <= set(OFFICIAL_FILES)
    assert OFFICIAL_ROWS[DOCS] == 3_213_835
    assert OFFICIAL_ROWS[QRELS] == 5_193  # a judgement a query


def test_without_splits_it_is_texts_as_the_papers_overlay_has_it() -> None:
    assert Settings(source="msmarco_doc").model_dump()["train_split"] is None
    assert sources.splits(Settings(source="msmarco_doc").model_dump()) == []
