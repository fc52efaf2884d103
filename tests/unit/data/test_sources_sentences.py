"""Pairs and triplets of sentences: the official files, small but in their exact forms, and a user's own."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from condenser.data.official import OFFICIAL_FILES
from condenser.data.records import Item, read_doc_ids, read_items, read_passages
from condenser.data.sources import nli, stsb, wikisection
from condenser.settings import Settings
from configs import sources

STSB_HEADER = "split\tgenre\tdataset\tyear\tsid\tscore\tsentence1\tsentence2\n"
STSB_ROWS = (
    "train\tmain-captions\tMSRvid\t2012test\t0001\t5.000\tA plane takes off.\tAn air plane takes off.\n"
    'train\tmain-news\theadlines\t2013\t0002\t3.800\t"A man, they said\tNA\n'
    "dev\tmain-captions\tMSRvid\t2012test\t0000\t2.500\tA girl sings.\tA man sings.\n"
    "test\tmain-captions\tMSRvid\t2012test\t0024\t0.0\tA girl is styling her hair.\tSocial\u2028skills.\n"
    "test\tmain-captions\tMSRvid\t2012test\t0033\t3.6\tA plane takes off.\tAn air plane takes off.\n"
)
WIKI_HEADER = "Sentence1,Sentence2,Sentence3,Article\n"
WIKI_ROWS = {
    "train.csv": 'He was born in 1900.,"In 1901, he ""moved"".",His works are read.,"One, the first"\n'
    "Anchor two.,Positive two.,Negative two.,Two\n",
    "validation.csv": "Anchor three.,Positive three.,Negative three.,Three\n",
    "test.csv": "Anchor four.,Positive four.,Negative four.,Four\n",
}
NLI_HEADER = "split\tdataset\tfilename\tsentence1\tsentence2\tlabel\n"
NLI_ROWS = (
    "train\tAllNLI\tmnli\tA person on a horse.\tA person is outdoors.\tentailment\n"
    "train\tAllNLI\tsnli\tA person on a horse.\tA person is at a diner.\tcontradiction\n"
    "dev\tAllNLI\tsnli\tTwo women.\tThe sisters.\tneutral\n"
    "train\tAllNLI\tsnli\tTwo women.\tThe sisters.\tneutral\n"
)
SHARES = {"validation_share": 0.2, "test_share": 0.3, "split_seed": 1}


def collected(
    source: str, folder: Path, raw: Mapping[str, Path] | None = None, **settings: Any
) -> tuple[dict[str, Any], Path]:
    given = {
        "source": source,
        "path": None,
        "train_split": "train",
        "eval_split": "test",
        "bad_rows": "strict",
    }
    out = folder / f"out-{settings.get('bad_rows', '')}"
    return sources.collect(out, raw or {}, {**given, **settings}), out


def stsb_file(folder: Path, rows: str | bytes = STSB_ROWS, header: str = STSB_HEADER) -> dict[str, Path]:
    path = folder / stsb.FILE
    path.write_bytes(gzip.compress(header.encode() + (rows.encode() if isinstance(rows, str) else rows)))
    return {stsb.FILE: path}


def wiki_archive(folder: Path, members: Mapping[str, str] = WIKI_ROWS, inside: str = "") -> dict[str, Path]:
    path = folder / wikisection.ARCHIVE
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, rows in members.items():
            archive.writestr(inside + name, WIKI_HEADER + rows)
    return {wikisection.ARCHIVE: path}


STSB_COUNTS = {"train": 2, "dev": 1, "test": 2}


def test_the_official_sts_benchmark_becomes_pairs_with_their_scores(tmp_path: Path) -> None:
    counts, out = collected("stsb", tmp_path, stsb_file(tmp_path), official_rows=STSB_COUNTS)
    assert list(read_items(out / "items.train.jsonl")) == [
        Item("train-2", ("A plane takes off.", "An air plane takes off."), 5.0),
        Item("train-3", ('"A man, they said', "NA"), 3.8),
    ]
    assert [item.texts[1] for item in read_items(out / "items.test.jsonl")] == [
        "Social\u2028skills.",
        "An air plane takes off.",
    ]
    assert counts["files"] == {stsb.FILE: {"rows": 5, "kept": 4, "rejected": 0, "of_other_splits": 1}}
    assert counts["items"] == {"train": 2, "test": 2} and counts["official"] == "STS benchmark"
    assert counts["items_shared_by_splits"] == {"train+test": 1}


def test_the_collection_of_sentences_has_each_text_of_the_train_split_once(tmp_path: Path) -> None:
    rows = STSB_ROWS + "train\tg\td\ty\t1\t1\tA plane takes off.\tNA\n"
    _, out = collected("stsb", tmp_path, stsb_file(tmp_path, rows), official_rows={**STSB_COUNTS, "train": 3})
    texts = [passage.text for passage in read_passages(out / "collection.jsonl")]
    assert texts == ["A plane takes off.", "An air plane takes off.", '"A man, they said', "NA"]
    assert read_doc_ids(out / "doc_ids.txt") == ["train-2-1", "train-2-2", "train-3-1", "train-3-2"]


def test_only_the_test_split_of_all_official_rows_bears_the_official_name(tmp_path: Path) -> None:
    raw = stsb_file(tmp_path)
    counts, _ = collected("stsb", tmp_path, raw, official_rows=STSB_COUNTS, eval_split="dev")
    assert "official" not in counts and counts["items"] == {"train": 2, "dev": 1}
    with pytest.raises(ValueError, match=r"expected the official 5,749 rows of the split train, got 2\."):
        collected("stsb", tmp_path, raw)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("train\tg\td\ty\t1\t5.5\ta\tb\n", r":2: expected a score from 0 to 5, got '5\.5'"),
        ("train\tg\td\ty\t1\tnan\ta\tb\n", ":2: expected a score from 0 to 5, got 'nan'"),
        ("train\tg\td\ty\t1\t\ta\tb\n", ":2: expected a score from 0 to 5, got ''"),
        ("train\tg\td\ty\t1\t5\ta\n", ":2: expected 8 columns, as in the header, got 7"),
        ("train\tg\td\ty\t1\t5\ta\tb\tc\n", ":2: expected 8 columns, as in the header, got 9"),
        ("train\tg\td\ty\t1\t5\t \tb\n", ":2: expected a sentence that is not empty"),
        ("other\tg\td\ty\t1\t5\ta\tb\n", r":2: expected a split \(train, dev, test\), got 'other'"),
        (b"train\tg\td\ty\t1\t5\t\xe9\tb\n", ":2: expected UTF-8 text, got the byte 0xe9"),
    ],
)
def test_a_malformed_row_of_the_sts_benchmark_is_an_error_and_can_be_skipped(
    tmp_path: Path, row: str | bytes, message: str
) -> None:
    raw = stsb_file(tmp_path, (row if isinstance(row, bytes) else row.encode()) + STSB_ROWS.encode())
    official = {**STSB_COUNTS, "train": 3}
    with pytest.raises(ValueError, match=message):
        collected("stsb", tmp_path, raw, official_rows=official)
    counts, out = collected("stsb", tmp_path, raw, official_rows=official, bad_rows="skip")
    assert counts["rejected"] == 1 and counts["items"] == {"train": 2, "test": 2}
    (rejected,) = (out / "rejected.jsonl").read_text().splitlines()
    assert json.loads(rejected)["line"] == 2


def test_a_table_without_its_header_is_refused_and_loses_no_row_in_silence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"gz:1: expected a header with split, score, sentence1, sentence2"):
        collected("stsb", tmp_path, stsb_file(tmp_path, header=""), bad_rows="skip")


def test_a_folder_of_csv_files_is_read_as_it_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "stsb-en-train.csv").write_bytes(
        b'"A man, they said, ""sings"".",NA,3.8\r\nA plane.,A ship.,0.0\r\n'
    )
    (tmp_path / "stsb-en-test.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfA girl.,A boy.,2.5\n"))
    counts, out = collected("stsb", tmp_path, path=str(tmp_path))
    assert list(read_items(out / "items.train.jsonl")) == [
        Item("train-1", ('A man, they said, "sings".', "NA"), 3.8),
        Item("train-2", ("A plane.", "A ship."), 0.0),
    ]
    assert counts["files"]["stsb-en-train.csv"]["carriage_returns"] == 2
    assert "official" not in counts  # whatever the number of its rows


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            '"A quote that never ends,b,3.0\n',
            r":1: expected one row of CSV in a line, got .*Close its quotes",
        ),
        ('"a"b,c,3.0\n', ":1: expected one row of CSV in a line"),
        ("A man, they said,b,3.0\n", r":1: expected 3 cells \(sentence1, sentence2, score\), got 4"),
        ("a,b\n", r":1: expected 3 cells \(sentence1, sentence2, score\), got 2"),
        ("a,b,c\n", ":1: expected a score from 0 to 5, got 'c'"),
    ],
)
def test_a_malformed_row_of_csv_is_named_and_swallows_none_below_it(
    tmp_path: Path, row: str, message: str
) -> None:
    (tmp_path / "stsb-en-train.csv").write_text(row + "A plane.,A ship.,0.0\n")
    (tmp_path / "stsb-en-test.csv").write_text("A girl.,A boy.,2.5\n")
    with pytest.raises(ValueError, match=message):
        collected("stsb", tmp_path, path=str(tmp_path))
    _, out = collected("stsb", tmp_path, path=str(tmp_path), bad_rows="skip")
    assert [item.texts for item in read_items(out / "items.train.jsonl")] == [("A plane.", "A ship.")]


WIKI_COUNTS = {"train.csv": 2, "validation.csv": 1, "test.csv": 1}


@pytest.mark.parametrize("inside", ["", "wikipedia-sections/"])
def test_the_official_wiki_sections_become_triplets(tmp_path: Path, inside: str) -> None:
    raw = wiki_archive(tmp_path, inside=inside)
    counts, out = collected("wikisection", tmp_path, raw, official_rows=WIKI_COUNTS, **SHARES)
    assert list(read_items(out / "items.train.jsonl")) == [
        Item("train-2", ("He was born in 1900.", 'In 1901, he "moved".', "His works are read.")),
        Item("train-3", ("Anchor two.", "Positive two.", "Negative two.")),
    ]
    assert counts["items"] == {"train": 2, "test": 1} and counts["official"] == "Wikipedia sections"
    counts, _ = collected(
        "wikisection", tmp_path, raw, official_rows=WIKI_COUNTS, eval_split="validation", **SHARES
    )
    assert counts["items"] == {"train": 2, "validation": 1} and "official" not in counts


def test_another_number_of_triplets_than_the_official_one_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"train.csv: expected the official 1,779,417 rows, got 2\."):
        collected("wikisection", tmp_path, wiki_archive(tmp_path), **SHARES)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,b,c\n", "train.csv:2: expected 4 columns, as in the header, got 3"),
        ('a,"b,c,d\n', "train.csv:2: expected one row of CSV in a line"),
        ("a,,c,d\n", "train.csv:2: expected a sentence that is not empty"),
    ],
)
def test_a_malformed_triplet_is_an_error(tmp_path: Path, rows: str, message: str) -> None:
    raw = wiki_archive(tmp_path, {**WIKI_ROWS, "train.csv": rows})
    with pytest.raises(ValueError, match=message):
        collected("wikisection", tmp_path, raw, official_rows={**WIKI_COUNTS, "train.csv": 1}, **SHARES)


def test_an_archive_that_is_cut_short_or_lacks_a_member_is_named(tmp_path: Path) -> None:
    raw = wiki_archive(tmp_path, {name: rows for name, rows in WIKI_ROWS.items() if name != "test.csv"})
    with pytest.raises(ValueError, match=r"triplets.zip: expected one member test.csv, got 0\."):
        collected("wikisection", tmp_path, raw, official_rows=WIKI_COUNTS, **SHARES)
    path = raw[wikisection.ARCHIVE]
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"triplets.zip: expected a complete archive"):
        collected("wikisection", tmp_path, raw, official_rows=WIKI_COUNTS, **SHARES)


def own_triplets(folder: Path, articles: list[str]) -> Path:
    header = "article\tsection\tanchor\tpositive\tnegative\n"
    rows = [f'{name}\tHistory\t"{name} one\tp {name}\tn {name}\n' for name in articles for _ in range(2)]
    folder.mkdir(exist_ok=True)
    (folder / wikisection.TRIPLETS).write_text(header + "".join(rows))
    return folder


def test_a_file_of_triplets_is_split_by_article_and_stays_so_when_articles_are_added(tmp_path: Path) -> None:
    articles = [f"Article {number}" for number in range(60)]

    def splits(folder: Path, articles: list[str]) -> dict[str, set[str]]:
        found = {}
        for split in ("test", "validation"):
            counts, out = collected(
                "wikisection", folder, path=str(own_triplets(folder, articles)), eval_split=split, **SHARES
            )
            for name in ("train", split):
                items = list(read_items(out / f"items.{name}.jsonl"))
                found[name] = {item.texts[0].removesuffix(" one").removeprefix('"') for item in items}
                assert len(items) == 2 * len(found[name])  # no article is in two splits
        assert counts["files"][wikisection.TRIPLETS]["rows"] == 2 * len(articles)
        return found

    some, all_of_them = splits(tmp_path / "some", articles[:30]), splits(tmp_path / "all", articles)
    assert set().union(*all_of_them.values()) == set(articles)
    for split, names in some.items():
        assert names == all_of_them[split] & set(articles[:30])
    file = tmp_path / "all" / wikisection.TRIPLETS
    file.write_bytes(gzip.compress(b"\xef\xbb\xbf" + file.read_bytes()))
    collected("wikisection", tmp_path / "all", path=str(file.parent), eval_split="test", **SHARES)
    assert 10 <= len(all_of_them["test"]) <= 26 and 5 <= len(all_of_them["validation"]) <= 20


def test_nli_becomes_pairs_with_the_numbers_of_their_classes(tmp_path: Path) -> None:
    path = tmp_path / nli.FILE
    path.write_bytes(gzip.compress((NLI_HEADER + NLI_ROWS).encode()))
    counts, out = collected("nli", tmp_path, {nli.FILE: path}, eval_split=None)
    assert [item.label for item in read_items(out / "items.train.jsonl")] == [1.0, 0.0, 2.0]
    assert counts["items"] == {"train": 3} and counts["files"][nli.FILE]["of_other_splits"] == 1
    path.write_bytes(gzip.compress((NLI_HEADER + "train\ta\tb\tc\td\t-\n" + NLI_ROWS).encode()))
    with pytest.raises(
        ValueError, match=r":2: expected a label \(contradiction, entailment, neutral\), got '-'"
    ):
        collected("nli", tmp_path, {nli.FILE: path}, eval_split=None)
    counts, _ = collected("nli", tmp_path, {nli.FILE: path}, eval_split=None, bad_rows="skip")
    assert counts["rejected"] == 1 and counts["items"] == {"train": 3}


@pytest.mark.parametrize("source", [stsb, wikisection, nli])
def test_the_files_that_are_read_are_official(source: Any) -> None:
    (name,) = source.raw_files(Settings(path=None))
    assert OFFICIAL_FILES[name].url == f"https://sbert.net/datasets/{name}"


def test_the_official_counts_are_those_of_the_papers() -> None:
    assert stsb.OFFICIAL_ROWS == {"train": 5_749, "dev": 1_500, "test": 1_379}
    assert wikisection.OFFICIAL_ROWS == {
        "train.csv": 1_779_417,
        "validation.csv": 220_400,
        "test.csv": 222_957,
    }
