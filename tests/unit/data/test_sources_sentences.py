"""Pairs and triplets of sentences: the official files, small but in their exact forms, and a user's own."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from bad_rows import refuse_and_skip

from condenser.data.official import OFFICIAL_FILES
from condenser.data.records import Item, read_doc_ids, read_items, read_passages
from condenser.papers.sources import nli, stsb, wikisection
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
STSB_COUNTS = {"train": 2, "dev": 1, "test": 2}
WIKI_COUNTS = {"train.csv": 2, "validation.csv": 1, "test.csv": 1}
OF_SOURCE: dict[str, dict[str, Any]] = {
    "stsb": {"official_rows": STSB_COUNTS},
    "wikisection": {
        **{"validation_share": 0.2, "test_share": 0.3, "split_seed": 1},
        "official_rows": WIKI_COUNTS,
    },
    "nli": {"eval_split": None},
}


def settings(source: str, **others: Any) -> dict[str, Any]:
    given = {"source": source, "path": None, "train_split": "train", "eval_split": "test"}
    return {**given, "bad_rows": "strict", **OF_SOURCE[source], **others}


def collected(
    source: str, folder: Path, raw: Mapping[str, Path] | None = None, **others: Any
) -> tuple[dict[str, Any], Path]:
    return sources.collect(folder / "out", raw or {}, settings(source, **others)), folder / "out"


def table(folder: Path, name: str, content: str) -> dict[str, Path]:
    (folder / name).write_bytes(gzip.compress(content.encode()))
    return {name: folder / name}


def stsb_file(folder: Path, rows: str = STSB_ROWS) -> dict[str, Path]:
    return table(folder, stsb.FILE, STSB_HEADER + rows)


def wiki_archive(folder: Path, members: Mapping[str, str] = WIKI_ROWS, inside: str = "") -> dict[str, Path]:
    path = folder / wikisection.ARCHIVE
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, rows in members.items():
            archive.writestr(inside + name, WIKI_HEADER + rows)
    return {wikisection.ARCHIVE: path}


def test_the_official_sts_benchmark_becomes_pairs_with_their_scores(tmp_path: Path) -> None:
    counts, out = collected("stsb", tmp_path, stsb_file(tmp_path))
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
    counts, _ = collected("stsb", tmp_path, raw, eval_split="dev")
    assert "official" not in counts and counts["items"] == {"train": 2, "dev": 1}
    with pytest.raises(ValueError, match=r"gz, train: expected the official 5,749 rows, got 2\."):
        collected("stsb", tmp_path, raw, official_rows=stsb.OFFICIAL_ROWS)


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


@pytest.mark.parametrize("inside", ["", "wikipedia-sections/"])
def test_the_official_wiki_sections_become_triplets(tmp_path: Path, inside: str) -> None:
    raw = wiki_archive(tmp_path, inside=inside)
    counts, out = collected("wikisection", tmp_path, raw)
    assert list(read_items(out / "items.train.jsonl")) == [
        Item("train-2", ("He was born in 1900.", 'In 1901, he "moved".', "His works are read.")),
        Item("train-3", ("Anchor two.", "Positive two.", "Negative two.")),
    ]
    assert counts["items"] == {"train": 2, "test": 1} and counts["official"] == "Wikipedia sections"
    counts, _ = collected("wikisection", tmp_path, raw, eval_split="validation")
    assert counts["items"] == {"train": 2, "validation": 1} and "official" not in counts


def test_another_number_of_triplets_than_the_official_one_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"train.csv: expected the official 1,779,417 rows, got 2\."):
        collected("wikisection", tmp_path, wiki_archive(tmp_path), official_rows=wikisection.OFFICIAL_ROWS)


def test_an_archive_that_is_cut_short_or_lacks_a_member_is_named(tmp_path: Path) -> None:
    raw = wiki_archive(tmp_path, {name: rows for name, rows in WIKI_ROWS.items() if name != "test.csv"})
    with pytest.raises(ValueError, match=r"triplets.zip: expected one member test.csv, got 0\."):
        collected("wikisection", tmp_path, raw)
    path = raw[wikisection.ARCHIVE]
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"triplets.zip: expected a complete archive"):
        collected("wikisection", tmp_path, raw)


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
            path = str(own_triplets(folder, articles))
            counts, out = collected("wikisection", folder, path=path, eval_split=split)
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
    collected("wikisection", tmp_path / "all", path=str(file.parent))
    assert 10 <= len(all_of_them["test"]) <= 26 and 5 <= len(all_of_them["validation"]) <= 20


def test_nli_becomes_pairs_with_the_numbers_of_their_classes(tmp_path: Path) -> None:
    counts, out = collected("nli", tmp_path, table(tmp_path, nli.FILE, NLI_HEADER + NLI_ROWS))
    assert [item.label for item in read_items(out / "items.train.jsonl")] == [1.0, 0.0, 2.0]
    assert counts["items"] == {"train": 3} and counts["files"][nli.FILE]["of_other_splits"] == 1


Files = tuple[dict[str, Path], dict[str, Any]]  # official ones, and settings


def stsb_with(folder: Path, row: str) -> Files:
    rows = {**STSB_COUNTS, "train": 2 + bool(row)}
    return stsb_file(folder, row + STSB_ROWS), settings("stsb", official_rows=rows)


def own_stsb_with(folder: Path, row: str) -> Files:
    (folder / "stsb-en-train.csv").write_text(row + "A plane.,A ship.,0.0\n")
    (folder / "stsb-en-test.csv").write_text("A girl.,A boy.,2.5\n")
    return {}, settings("stsb", path=str(folder))


def sections_with(folder: Path, row: str) -> Files:
    rows = {**WIKI_COUNTS, "train.csv": 2 + bool(row)}
    raw = wiki_archive(folder, {**WIKI_ROWS, "train.csv": row + WIKI_ROWS["train.csv"]})
    return raw, settings("wikisection", official_rows=rows)


def own_sections_with(folder: Path, row: str) -> Files:
    file = own_triplets(folder, [f"Article {number}" for number in range(20)]) / wikisection.TRIPLETS
    header, rows = file.read_text().split("\n", 1)
    file.write_text(f"{header}\n{row}{rows}")
    return {}, settings("wikisection", path=str(folder))


def nli_with(folder: Path, row: str) -> Files:
    return table(folder, nli.FILE, NLI_HEADER + row + NLI_ROWS), settings("nli")


@pytest.mark.parametrize(
    ("files_with", "row", "message"),
    [
        (stsb_with, "train\tg\td\ty\t1\t5.5\ta\tb\n", ":2: expected a score from 0 to 5, got '5.5'"),
        (stsb_with, "train\tg\td\ty\t1\tnan\ta\tb\n", ":2: expected a score from 0 to 5, got 'nan'"),
        (stsb_with, "train\tg\td\ty\t1\t\ta\tb\n", ":2: expected a score from 0 to 5, got ''"),
        (stsb_with, "train\tg\td\ty\t1\t5\ta\n", ":2: expected 8 columns, as in the header, got 7"),
        (stsb_with, "train\tg\td\ty\t1\t5\t \tb\n", ":2: expected a sentence that is not empty"),
        (stsb_with, "other\tg\td\ty\t1\t5\ta\tb\n", ":2: expected a split (train, dev, test), got 'oth"),
        (own_stsb_with, '"A quote that never ends,b,3.0\n', ":1: expected one row of CSV in a line, got "),
        (own_stsb_with, "A man, they said,b,3.0\n", ":1: expected 3 cells (sentence1, sentence2, score)"),
        (sections_with, "a,b,c\n", "train.csv:2: expected 4 columns, as in the header, got 3"),
        (sections_with, 'a,"b,c,d\n', "train.csv:2: expected one row of CSV in a line"),
        (own_sections_with, "Two\ts\ta\tb\n", "triplets.tsv:2: expected 5 columns, as in the header"),
        (nli_with, "train\ta\tb\tc\td\t-\n", ":2: expected a label (contradiction, entailment, neutral)"),
    ],
)
def test_a_bad_row_is_refused_with_its_line_or_left_out_and_swallows_none_below_it(
    tmp_path: Path, files_with: Callable[[Path, str], Files], row: str, message: str
) -> None:
    good = sources.collect(tmp_path / "good", *files_with(tmp_path, ""))
    counts, listed = refuse_and_skip(tmp_path / "out", *files_with(tmp_path, row), message)
    assert counts["items"] == good["items"]
    assert [line for _, line in listed] == [1 if files_with is own_stsb_with else 2]
    kept, expected = (
        [(item.texts, item.label) for item in read_items(tmp_path / folder / "items.train.jsonl")]
        for folder in ("out", "good")
    )
    assert kept == expected


def test_a_table_without_its_header_is_refused_and_loses_no_row_in_silence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"gz:1: expected a header with split, score, sentence1, sentence2"):
        collected("stsb", tmp_path, table(tmp_path, stsb.FILE, STSB_ROWS), bad_rows="skip")


@pytest.mark.parametrize("source", [stsb, wikisection, nli])
def test_the_files_that_are_read_are_official(source: Any) -> None:
    (name,) = source.Settings.raw_files(Settings(path=None))
    assert OFFICIAL_FILES[name].url == f"https://sbert.net/datasets/{name}"
