"""MS MARCO's official files, small but in their exact forms."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from bad_rows import refuse_and_skip
from official_files import write_tar

from condenser import progress
from condenser.data.official import OFFICIAL_FILES
from condenser.data.records import Passage, Qrel, Query, read_doc_ids, read_passages, read_qrels, read_queries
from condenser.data.sources import msmarco
from configs import sources

COLLECTION = '0\tThe first passage.\n1\tNA\n2\tIt\u2028goes "on.\n3\tLast.\n'
IN_ARCHIVE = {
    "collection.tsv": COLLECTION,
    "qrels.dev.small.tsv": "20\t0\t2\t1\n21\t0\t0\t1\n",
    "qrels.train.tsv": "10\t0\t0\t1\n10\t0\t1\t1\n",
    "queries.dev.small.tsv": "20\twhat goes on\n21\tfirst?\n",
    "queries.dev.tsv": "22\tnot small\n",
    "queries.eval.tsv": "99\tunjudged\n",
    "queries.train.tsv": "10\t)what was the first\n11\tnever judged\n",
}
TITLED = {
    "marco/para.txt": COLLECTION,
    "marco/para.title.txt": "0\tTitle \u00e9\n1\t\n3\tTitle 3\n",
    "marco/qrels.train.addition.tsv": "10\t0\t3\t1\n",
}
ROWS = {
    "collection.tsv": 4,
    "para.txt": 4,
    "queries.train.tsv": 2,
    "qrels.train.tsv": 2,
    "queries.dev.small.tsv": 2,
    "qrels.dev.small.tsv": 2,
    "msmarco-test2019-queries.tsv.gz": 2,
    "2019qrels-pass.txt": 3,
}
SETTINGS = {
    "source": "msmarco",
    "train_split": "train",
    "eval_split": "dev",
    "titles": "none",
    "bad_rows": "strict",
    "official_rows": ROWS,
}


@pytest.fixture
def raw(tmp_path) -> dict[str, Path]:
    topics = tmp_path / "msmarco-test2019-queries.tsv.gz"
    topics.write_bytes(gzip.compress(b"30\tgraded\n31\tof the 157 without judgements\n"))
    (tmp_path / "2019qrels-pass.txt").write_text("30 Q0 0 3\n30 Q0 1 0\n30 Q0 3 2\n")
    return {
        "collectionandqueries.tar.gz": write_tar(tmp_path / "collectionandqueries.tar.gz", IN_ARCHIVE),
        "marco.tar.gz": write_tar(tmp_path / "marco.tar.gz", TITLED),
        topics.name: topics,
        "2019qrels-pass.txt": tmp_path / "2019qrels-pass.txt",
    }


def test_dev_and_dl_2019_are_collected_together(tmp_path, raw):
    settings = {**SETTINGS, "other_eval_splits": ["dl19"]}
    assert sources.raw_files(settings) == [
        *("collectionandqueries.tar.gz", "msmarco-test2019-queries.tsv.gz", "2019qrels-pass.txt"),
    ]
    counts = sources.collect(tmp_path / "out", raw, settings)
    assert counts["queries"] == {"train": 1, "dev": 2, "dl19": 1}
    assert list(read_queries(tmp_path / "out" / "queries.dl19.jsonl")) == [Query("30", "graded")]
    assert [one.grade for one in read_qrels(tmp_path / "out" / "qrels.dl19.tsv")] == [3, 0, 2]
    dev = tmp_path / "out" / "queries.dev.jsonl"
    assert [query.query_id for query in read_queries(dev)] == ["20", "21"]


def test_the_official_archive_gives_the_collection_and_the_judged_queries(tmp_path, raw):
    counts = sources.collect(tmp_path / "out", raw, SETTINGS)
    out = tmp_path / "out"
    texts = [passage.text for passage in read_passages(out / "collection.jsonl")]
    assert texts == ["The first passage.", "NA", 'It\u2028goes "on.', "Last."]
    assert read_doc_ids(out / "doc_ids.txt") == ["0", "1", "2", "3"]
    assert list(read_queries(out / "queries.train.jsonl")) == [Query("10", ")what was the first")]
    assert list(read_qrels(out / "qrels.train.tsv")) == [Qrel("10", "0", 1), Qrel("10", "1", 1)]
    assert [query.query_id for query in read_queries(out / "queries.dev.jsonl")] == ["20", "21"]
    of_train = {"rows": 2, "kept": 1, "rejected": 0, "without_judgement": 1}
    assert counts["files"]["queries.train.tsv"] == of_train
    assert sorted(file.name for file in out.iterdir() if file.name.startswith(".")) == []


def test_the_train_queries_that_nobody_judged_are_a_set_of_their_own(tmp_path: Path, raw: dict) -> None:
    more = {"queries.train.tsv": "10\tjudged\n11\tnever judged\n9\tnor this\n"}
    write_tar(raw["collectionandqueries.tar.gz"], IN_ARCHIVE | more)
    rows = ROWS | {"queries.train.tsv": 3}
    counts = msmarco.collect_unjudged(
        tmp_path / "out", raw, name="rest", bad_rows="strict", official_rows=rows
    )
    queries = list(read_queries(tmp_path / "out" / "queries.rest.jsonl"))
    assert queries == [Query("11", "never judged"), Query("9", "nor this")]
    assert counts["queries"] == {"rest": 2} and counts["rejected"] == 0
    assert counts["files"]["queries.train.tsv"] == {"rows": 3, "kept": 2, "rejected": 0, "judged": 1}
    assert json.loads((tmp_path / "out" / "counts.json").read_text()) == counts
    with pytest.raises(ValueError, match=r"queries\.train\.tsv: expected the official 808,731 rows, got 3"):
        msmarco.collect_unjudged(tmp_path / "other", raw, name="rest", bad_rows="strict")


def test_rocketqas_titles_are_joined_by_id_and_the_missing_ones_counted(tmp_path, raw):
    counts = sources.collect(tmp_path / "out", raw, SETTINGS | {"titles": "rocketqa"})
    passages = list(read_passages(tmp_path / "out" / "collection.jsonl"))
    assert passages[0] == Passage("0", "Title \u00e9", "The first passage.")
    assert [passage.title for passage in passages] == ["Title \u00e9", "", "", "Title 3"]
    assert counts["passages_without_title"] == 2
    assert counts["files"]["para.title.txt"] == {"rows": 3, "kept": 3, "rejected": 0}


def test_titles_in_any_order_are_joined_by_id_and_one_with_leading_zeros_is_another(tmp_path, raw):
    passages = COLLECTION.replace("3\t", "007\t") + "7\tSeven.\n"
    titles = {"marco/para.txt": passages, "marco/para.title.txt": "7\tseven\n0\tnought\n"}
    write_tar(raw["marco.tar.gz"], TITLED | titles)
    rows = {"official_rows": ROWS | {"para.txt": 5}}
    sources.collect(tmp_path / "out", raw, SETTINGS | {"titles": "rocketqa"} | rows)
    kept = {p.doc_id: p.title for p in read_passages(tmp_path / "out" / "collection.jsonl")}
    assert kept == {"0": "nought", "1": "", "2": "", "007": "", "7": "seven"}


@pytest.mark.parametrize(
    ("titles", "place", "expected"),
    [
        ("0\ta\n7000000\tb\n", "id 7000000", "the id of a passage of para.txt, got '7000000'"),
        ("0\ta\n007\tb\n", "id 007", "the id of a passage of para.txt, got '007'"),
        ("0\ta\n0\tb\n", 2, "one title a passage, got a second for 0"),
        ("0\ta\n1 b\n", 2, "2 tab-separated columns"),
    ],
)
def test_a_title_that_fits_no_passage_is_an_error_and_can_be_skipped(tmp_path, raw, titles, place, expected):
    write_tar(raw["marco.tar.gz"], TITLED | {"marco/para.title.txt": titles})
    message = f"para.title.txt:{place}: expected {expected}"
    counts, listed = refuse_and_skip(tmp_path / "out", raw, SETTINGS | {"titles": "rocketqa"}, message)
    assert counts["files"]["para.title.txt"] == {"rows": 2, "kept": 1, "rejected": 1}
    assert listed == [("para.title.txt", place)]


def test_another_number_of_rows_than_the_official_one_is_an_error(tmp_path, raw):
    for name in ("collection.tsv", "qrels.dev.small.tsv"):
        with pytest.raises(ValueError, match=f"{name}: expected the official 5 rows, got"):
            sources.collect(tmp_path / "out", raw, SETTINGS | {"official_rows": ROWS | {name: 5}})
    with pytest.raises(ValueError, match="expected the official 8,841,823 rows, got 4"):
        sources.collect(
            tmp_path / "out", raw, {key: value for key, value in SETTINGS.items() if key != "official_rows"}
        )
    assert list((tmp_path / "out").iterdir()) == []


def test_the_files_asked_for_are_official_and_those_that_are_read(raw):
    named = sources.raw_files(SETTINGS | {"titles": "rocketqa", "eval_split": "dl19"})
    assert set(named) == set(raw)
    assert set(named) <= set(OFFICIAL_FILES)
    assert sources.raw_files(SETTINGS) == ["collectionandqueries.tar.gz"]


def test_a_raw_file_that_is_not_there_is_named(tmp_path, raw):
    del raw["marco.tar.gz"]
    with pytest.raises(ValueError, match=r"expected the files marco\.tar\.gz, got none"):
        sources.collect(tmp_path / "out", raw, SETTINGS | {"titles": "rocketqa"})


@pytest.mark.parametrize("titles", ["none", "rocketqa"])
def test_the_time_left_is_told_by_the_official_number_of_rows(tmp_path, raw, titles, monkeypatch, capsys):
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    sources.collect(tmp_path / "out", raw, SETTINGS | {"titles": titles})
    assert capsys.readouterr().err.startswith("collection: 1 of 4 rows (25 %)")
