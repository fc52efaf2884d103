"""DPR's files of Wikipedia, Natural Questions, TriviaQA and SQuAD: small, in their exact forms."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from condenser.data import archives
from condenser.data.official import OFFICIAL_FILES
from condenser.data.records import (
    Passage,
    Qrel,
    Query,
    TrainExample,
    read_examples,
    read_passages,
    read_qrels,
    read_queries,
)
from condenser.data.sources import dpr
from configs import sources
from tests.dpr_files import answers, context, passages, question, write

PASSAGES = passages(
    [
        ("1", 'Aaron ( or ; ""Ahärôn"") is a prophet, "high priest".', "Aaron"),
        ("2", "NA", '"Weird Al" Yankovic'),
        ("3", "The capital of France is Paris.", "Paris"),
        ("4", "A tab\tand a line\u2028separator.", "Odd"),
        ("5", "Berlin is a city.", ""),
    ]
)
QUESTIONS = [
    question("who was aaron?", ["a prophet", "high priest", "a prophet"],
             [context("1"), context("4", score=9.5), context("1")],
             [context("3"), context("5"), context("3")]),
    question("what has no positive", ["nothing"], [], [context("5")]),
    question("capital of france", ["Paris"], [context("3")], [context("3"), context("4")]),
    question("no hard negatives", ["NA"], [context("2")], [], [context("5")]),
]  # fmt: skip
ASKED = answers(
    [("big little lies season 2 how many", ["seven"]), ('who sang "my way"', ["Frank Sinatra", "Ol' Eyes"])]
)
ROWS = {"psgs_w100.tsv.gz": 5, "biencoder-nq-train.json.gz": 4, "nq-test.qa.csv": 2}
FILES = {"psgs_w100.tsv.gz": PASSAGES, "biencoder-nq-train.json.gz": QUESTIONS, "nq-test.qa.csv": ASKED}


def settings(**others: Any) -> dict[str, Any]:
    given = {"source": "dpr", "name": "nq", **{key: others.pop(key) for key in list(others) if key != "rows"}}
    return {**dpr.Settings(**given).model_dump(), "official_rows": others.get("rows", ROWS)}


def test_the_files_make_passages_questions_and_judgements(tmp_path: Path) -> None:
    counts = sources.collect(tmp_path / "out", write(tmp_path, FILES), settings())
    out = tmp_path / "out"
    assert list(read_passages(out / "collection.jsonl")) == [
        Passage("1", "Aaron", 'Aaron ( or ; ""Ahärôn"") is a prophet, "high priest".'),
        Passage("2", '"Weird Al" Yankovic', "NA"),
        Passage("3", "Paris", "The capital of France is Paris."),
        Passage("4", "Odd", "A tab\tand a line\u2028separator."),
        Passage("5", "", "Berlin is a city."),
    ]
    assert list(read_queries(out / "queries.train.jsonl")) == [
        Query("train-0", "who was aaron?", ("a prophet", "high priest")),
        Query("train-2", "capital of france", ("Paris",)),
        Query("train-3", "no hard negatives", ("NA",)),
    ]
    assert list(read_qrels(out / "qrels.train.tsv")) == [
        Qrel("train-0", "1", 1), Qrel("train-2", "3", 1), Qrel("train-3", "2", 1),
    ]  # fmt: skip
    assert list(read_queries(out / "queries.test.jsonl")) == [
        Query("test-0", "big little lies season 2 how many", ("seven",)),
        Query("test-1", 'who sang "my way"', ("Frank Sinatra", "Ol' Eyes")),
    ]
    assert (out / "qrels.test.tsv").read_bytes() == b""
    assert counts["files"] == {
        "psgs_w100.tsv.gz": {"rows": 5, "kept": 5, "rejected": 0},
        "biencoder-nq-train.json.gz": {"rows": 4, "kept": 3, "rejected": 0, "without_positives": 1},
        "biencoder-nq-train.json.gz positive_ctxs": {"rows": 3, "kept": 3, "rejected": 0},
        "nq-test.qa.csv": {"rows": 2, "kept": 2, "rejected": 0},
    }
    assert counts["queries"] == {"train": 3, "test": 2} and counts["qrels"] == {"train": 3, "test": 0}


def test_all_positives_are_judged_where_they_are_asked_for(tmp_path: Path) -> None:
    sources.collect(tmp_path / "out", write(tmp_path, FILES), settings(positives="all"))
    assert list(read_qrels(tmp_path / "out" / "qrels.train.tsv"))[:2] == [
        Qrel("train-0", "1", 1), Qrel("train-0", "4", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "split", "file", "key"),
    [
        ("tqa", "dev", "biencoder-trivia-dev.json.gz", "psg_id"),
        ("squad", "dev", "biencoder-squad1-dev.json.gz", "psg_id"),
    ],
)
def test_triviaqa_and_squad_name_their_passages_otherwise(
    tmp_path: Path, name: str, split: str, file: str, key: str
) -> None:
    raw = write(tmp_path, {
        "psgs_w100.tsv.gz": PASSAGES, file: [question("q", ["Paris"], [context("3", key=key)], [])],
    })  # fmt: skip
    rows = {"psgs_w100.tsv.gz": 5, "biencoder-trivia-dev.json.gz": 1}
    only = settings(name=name, train_split=None, eval_split=split, rows=rows)
    assert sources.raw_files(only) == ["psgs_w100.tsv.gz", file]
    counts = sources.collect(tmp_path / "out", raw, only)
    assert counts["qrels"] == {"dev": 1}
    assert list(read_qrels(tmp_path / "out" / "qrels.dev.tsv")) == [Qrel("dev-0", "3", 1)]


def test_without_splits_it_is_texts_alone(tmp_path: Path) -> None:
    texts = settings(train_split=None, eval_split=None)
    counts = sources.collect(tmp_path / "out", write(tmp_path, {"psgs_w100.tsv.gz": PASSAGES}), texts)
    assert counts["passages"] == 5 and counts["queries"] == {}
    assert sources.example_files(texts, "bm25") == []


BAD = [
    ("psgs_w100.tsv.gz", PASSAGES.replace("id\ttext", "text\tid"), ":1: expected the header id text title"),
    ("psgs_w100.tsv.gz", PASSAGES + '6\t"not closed\tT\n7\ttext\tT\n', ":7: expected one row of CSV"),
    ("psgs_w100.tsv.gz", PASSAGES + "6\ttext\n", r":7: expected 3 tab-separated columns \(id, text, title\)"),
    ("psgs_w100.tsv.gz", PASSAGES + "5\ttext\tT\n", ":7: expected unique passage ids, got '5' again"),
    ("biencoder-nq-train.json.gz", [*QUESTIONS, {"question": "q"}],
     r'\d: expected a list of strings in "ans'),
    ("biencoder-nq-train.json.gz", [*QUESTIONS, 7], ":\\d+: expected a JSON object, got 7"),
    ("biencoder-nq-train.json.gz", [*QUESTIONS, question("q", ["a"], [{"title": "T"}], [])],
     'expected passages with one of passage_id, psg_id, id in "positive_ctxs"'),
    ("biencoder-nq-train.json.gz", [*QUESTIONS, question("q", ["a"], [context("99")], [])],
     r"biencoder-nq-train.json.gz positive_ctxs:\d+: expected the id of a passage .*, got '99'"),
    ("biencoder-nq-train.json.gz", [*QUESTIONS, question(" ", ["a"], [context("1")], [])],
     "expected a query text that is not empty"),
    ("nq-test.qa.csv", ASKED + "who\t['a', b]\n", ":3: expected a list of answers as Python writes it"),
    ("nq-test.qa.csv", ASKED + "who\t__import__('os').getcwd()\n", ":3: expected a list of answers as"),
    ("nq-test.qa.csv", ASKED + "who\t'a'\n", ":3: expected a list of answers as Python writes it, got"),
    ("nq-test.qa.csv", ASKED + "who\n", r":3: expected 2 tab-separated columns \(question, answers\)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), BAD)
def test_a_malformed_row_is_an_error(tmp_path: Path, name: str, content: Any, message: str) -> None:
    raw = write(tmp_path, {**FILES, name: content})
    with pytest.raises(ValueError, match=message) as caught:
        sources.collect(tmp_path / "out", raw, settings())
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_malformed_rows_can_be_skipped_and_no_id_changes(tmp_path: Path) -> None:
    bad = question("q", ["a"], [{"title": "T"}], [])
    raw = write(tmp_path, {
        "psgs_w100.tsv.gz": PASSAGES + "6\ttext\n",
        "biencoder-nq-train.json.gz": [QUESTIONS[0], bad, *QUESTIONS[2:]],
        "nq-test.qa.csv": "who\t[\n" + ASKED + "none\t[]\n",
    })  # fmt: skip
    rows = {"psgs_w100.tsv.gz": 6, "biencoder-nq-train.json.gz": 4, "nq-test.qa.csv": 4}
    counts = sources.collect(tmp_path / "out", raw, settings(bad_rows="skip", rows=rows))
    assert [query.query_id for query in read_queries(tmp_path / "out" / "queries.train.jsonl")] == [
        "train-0", "train-2", "train-3",
    ]  # fmt: skip
    assert [query.query_id for query in read_queries(tmp_path / "out" / "queries.test.jsonl")] == [
        "test-1",
        "test-2",
    ]
    assert counts["files"]["nq-test.qa.csv"] == {"rows": 4, "kept": 2, "rejected": 1, "without_judgement": 1}
    rejected = [json.loads(line) for line in (tmp_path / "out" / "rejected.jsonl").read_text().splitlines()]
    assert [one["file"] for one in rejected] == [
        "psgs_w100.tsv.gz", "biencoder-nq-train.json.gz", "nq-test.qa.csv",
    ]  # fmt: skip
    text = gzip.decompress(raw["biencoder-nq-train.json.gz"].read_bytes()).decode().splitlines()
    assert text[rejected[1]["line"] - 1] == "    {"  # where the question begins


@pytest.mark.parametrize("name", FILES)
def test_another_number_of_rows_than_the_official_one_is_an_error(tmp_path: Path, name: str) -> None:
    rows = {**ROWS, name: ROWS[name] + 1}
    with pytest.raises(ValueError, match=f"{name}: expected the official {ROWS[name] + 1} rows"):
        sources.collect(tmp_path / "out", write(tmp_path, FILES), settings(rows=rows))


def test_json_that_ends_early_is_an_error_that_nothing_skips(tmp_path: Path) -> None:
    cut = json.dumps(QUESTIONS, indent=4)[:-300]
    raw = write(tmp_path, {**FILES, "biencoder-nq-train.json.gz": cut})
    with pytest.raises(ValueError, match=r"train.json.gz:\d+: expected a JSON array .* Is it the whole file"):
        sources.collect(tmp_path / "out", raw, settings(bad_rows="skip"))


def test_a_file_of_answers_without_any_is_an_error(tmp_path: Path) -> None:
    raw = write(tmp_path, {**FILES, "nq-test.qa.csv": "one\t[]\ntwo\t['  ']\n"})
    with pytest.raises(ValueError, match="expected queries with answers in the split 'test', got none"):
        sources.collect(tmp_path / "out", raw, settings())


def examples(folder: Path, **options: Any) -> tuple[list[Any], dict[str, int]]:
    raw = write(folder, FILES)
    sources.collect(folder / "out", raw, settings(positives=options.pop("positives", "first")))
    counts = dpr.make_examples(
        {"biencoder-nq-train.json.gz": raw["biencoder-nq-train.json.gz"]},
        folder / "out" / "queries.train.jsonl", folder / "out" / "qrels.train.tsv", folder / "examples.jsonl",
        **{"relevant_grade": 1, "sample": 30, "wanted": None, "seed": 1, **options},
    )  # fmt: skip
    return list(read_examples(folder / "examples.jsonl")), counts


def test_the_hard_negatives_of_the_file_are_the_examples_of_bm25(tmp_path: Path) -> None:
    given = settings(hard_negatives="bm25")
    assert sources.example_files(given, "bm25") == ["biencoder-nq-train.json.gz"]
    assert sources.example_files(given, "condenser-round1") == []
    assert sources.example_files(settings(), "bm25") == []
    found, counts = examples(tmp_path)
    assert [(one.query_id, one.positive_doc_ids, one.negative_doc_ids) for one in found] == [
        ("train-0", ("1",), ("3", "5")),
        ("train-2", ("3",), ("4",)),  # 3 is given as a positive, too
    ]
    assert counts == {
        "queries": 3, "examples": 2, "without_negatives": 1, "negatives": 3, "fewer_negatives_than_sample": 2,
        "negatives_given_as_positives": 1,
    }  # fmt: skip


def test_released_negatives_are_found_by_the_text_of_the_question(tmp_path: Path) -> None:
    """DPR's file of mined negatives has other rows than its file of training."""
    given = settings(hard_negatives="bm25", released=["first-round"])
    name = "biencoder-nq-adv-hn-train.json.gz"
    assert sources.example_files(given, "first-round") == [name] and name in OFFICIAL_FILES
    assert sources.example_files(given, "bm25") == ["biencoder-nq-train.json.gz"]
    mined = [
        question("of another file", ["x"], [context("1")], [context("2")]),
        question("capital of france", ["Paris"], [context("3"), context("4")], [context("4"), context("5")]),
        question("who was aaron?", ["a prophet"], [context("1")], [context("2")]),
        question("capital of france", ["Paris"], [context("3")], [context("1")]),
    ]
    raw = write(tmp_path, {**FILES, name: mined})
    sources.collect(tmp_path / "out", {key: raw[key] for key in FILES}, given)
    counts = dpr.make_examples(
        {name: raw[name]}, tmp_path / "out/queries.train.jsonl", tmp_path / "out/qrels.train.tsv",
        tmp_path / "examples.jsonl", relevant_grade=1, sample=30, wanted=None, seed=1,
    )  # fmt: skip
    assert list(read_examples(tmp_path / "examples.jsonl")) == [
        TrainExample("train-2", ("3",), ("5",)),
        TrainExample("train-0", ("1",), ("2",)),
    ]
    assert (counts["unknown_questions"], counts["examples"]) == (2, 2)  # the last asks again
    assert counts["queries"] == 3  # also the one that the file lacks


def test_a_sample_depends_on_seed_and_question_alone(tmp_path: Path) -> None:
    drawn = {examples(tmp_path, sample=1, seed=seed)[0][0].negative_doc_ids for seed in range(8)}
    assert drawn == {("3",), ("5",)}
    whole, _ = examples(tmp_path, sample=1, seed=3)
    few, counts = examples(tmp_path, sample=1, seed=3, wanted={"train-0"})
    assert few == whole[:1] and counts["queries"] == 1


def test_questions_without_hard_negatives_make_no_examples(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected hard negatives of the questions in .*, got none"):
        examples(tmp_path, wanted={"train-3"})
    assert not (tmp_path / "examples.jsonl").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"name": "squad", "eval_split": "dev-qa"},
            "eval_split: expected one of train, dev, test for squad, got dev-qa",
        ),
        ({"measures": ["hits@20", "MRR@10"]}, "measures: expected measures by answer, .* got MRR@10"),
        ({"measures": None}, "measures: expected measures by answer"),
        ({"name": "webq"}, "'nq', 'tqa', 'squad' or 'paq'"),
        ({"name": "paq"}, "eval_split: expected null for paq, got test"),
        (
            {"name": "paq", "train_split": "dev", "eval_split": None},
            "train_split: expected train for paq, got dev",
        ),
        ({"eval_split": "train"}, "eval_split"),
    ],
)
def test_splits_and_measures_that_do_not_fit_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        settings(**given)


def test_measures_by_judgement_are_for_splits_with_judgements() -> None:
    assert settings(eval_split="dev", measures=["MRR@10"])["measures"] == ["MRR@10"]
    assert settings()["measures"] == ["hits@5", "hits@20", "hits@100"]


def test_official_numbers_of_rows_are_known_for_all_but_squad_and_paq() -> None:
    files = {name for of_set in dpr.FILES.values() for name in of_set.values()}
    assert {dpr.PASSAGES, *files} <= set(OFFICIAL_FILES)
    unknown = {name for of_set in ("squad", "paq") for name in dpr.FILES[of_set].values()}
    assert {name for name in files if name not in dpr.OFFICIAL_ROWS} == unknown
    assert (
        dpr.OFFICIAL_ROWS["nq-test.qa.csv"] == 3_610 and dpr.OFFICIAL_ROWS["psgs_w100.tsv.gz"] == 21_015_324
    )


PAQ = "PAQ.dpr.train.neg1.jsonl.zip"
PAIRS = [
    question("who is a prophet", ["Aaron"], [context("1", key="id"), context("4", key="id")],
             [context("5", key="id")]),
    question("nothing is relevant", ["x"], [], [context("5")]),
    {key: value for key, value in question("where is paris", [], [{**context("3"), "passage_id": 3}],
     [context("3"), context("2")]).items() if key != "answers"},
    question("no negative", ["NA"], [context("2")], []),
]  # fmt: skip


def paq(**others: Any) -> dict[str, Any]:
    rows = {"psgs_w100.tsv.gz": 5}
    return settings(name="paq", eval_split=None, rows=rows, **others)


def paq_examples(
    folder: Path, raw: dict[str, Path], **options: Any
) -> tuple[list[TrainExample], dict[str, int]]:
    counts = dpr.make_examples(
        {PAQ: raw[PAQ]}, folder / "out/queries.train.jsonl", folder / "out/qrels.train.tsv",
        folder / "examples.jsonl",
        **{"relevant_grade": 1, "sample": 30, "wanted": None, "seed": 1, **options},
    )  # fmt: skip
    return list(read_examples(folder / "examples.jsonl")), counts


def test_paq_has_a_question_a_line_with_passages_by_one_of_three_names(tmp_path: Path) -> None:
    lines = "\n".join(["", *map(json.dumps, PAIRS), ""])
    raw = write(tmp_path, {"psgs_w100.tsv.gz": PASSAGES, PAQ: lines})
    given = paq(hard_negatives="bm25")
    assert sources.raw_files(given) == ["psgs_w100.tsv.gz", PAQ]
    assert sources.example_files(given, "bm25") == [PAQ]
    counts = sources.collect(tmp_path / "out", raw, given)
    assert list(read_queries(tmp_path / "out/queries.train.jsonl")) == [
        Query("train-0", "who is a prophet", ("Aaron",)),
        Query("train-2", "where is paris", ()),
        Query("train-3", "no negative", ("NA",)),
    ]
    assert list(read_qrels(tmp_path / "out/qrels.train.tsv")) == [
        Qrel("train-0", "1", 1), Qrel("train-2", "3", 1), Qrel("train-3", "2", 1),
    ]  # fmt: skip
    assert counts["files"][PAQ] == {
        "rows": 4, "kept": 3, "rejected": 0, "without_positives": 1, "blank_lines": 1,
    }  # fmt: skip
    assert (counts["queries"], counts["qrels"]) == ({"train": 3}, {"train": 3})
    found, counts = paq_examples(tmp_path, raw)
    assert found == [TrainExample("train-0", ("1",), ("5",)), TrainExample("train-2", ("3",), ("2",))]
    assert (counts["queries"], counts["without_negatives"], counts["negatives_given_as_positives"]) == (
        3,
        1,
        1,
    )
    few, counts = paq_examples(tmp_path, raw, wanted={"train-2"})
    assert (few, counts["queries"]) == (found[1:], 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"question": "cut', ":2: expected one JSON object, got "),
        ("7", ":2: expected one JSON object, got '7'"),
        (json.dumps(question("q", ["a"], [context("99")], [])), ":2: expected the id of a pass"),
        (json.dumps(question("q", ["a"], [{"title": "T", "text": "t"}], [])), ":2: expected passages with "),
        (json.dumps(question(" ", ["a"], [context("1")], [])), ":2: expected a query text that is not empty"),
    ],
)  # fmt: skip
def test_a_bad_line_of_paq_is_an_error_or_left_out(tmp_path: Path, line: str, message: str) -> None:
    lines = "\n".join([json.dumps(PAIRS[0]), line, json.dumps(PAIRS[3])])
    raw = write(tmp_path, {"psgs_w100.tsv.gz": PASSAGES, PAQ: lines})
    with pytest.raises(ValueError, match=f"{PAQ}{message}"):
        sources.collect(tmp_path / "out", raw, paq())
    counts = sources.collect(tmp_path / "out", raw, paq(bad_rows="skip"))
    assert [query.query_id for query in read_queries(tmp_path / "out/queries.train.jsonl")] == [
        "train-0", "train-2",
    ]  # fmt: skip
    assert counts["rejected_rows"] == {"queries": 1}
    assert [example.query_id for example in paq_examples(tmp_path, raw)[0]] == ["train-0"]


def test_a_file_that_is_not_paqs_is_refused(tmp_path: Path) -> None:
    raw = write(tmp_path, {"psgs_w100.tsv.gz": PASSAGES, PAQ: PAIRS})
    sources.collect(tmp_path / "out", raw, paq())
    write(tmp_path, {PAQ: PAIRS[:2]})
    with pytest.raises(ValueError, match=r"expected the question train-2 of .* Do they belong together\?"):
        paq_examples(tmp_path, raw)
    write(tmp_path, {PAQ: PAIRS[1:2]})
    with pytest.raises(ValueError, match="expected queries in the split 'train', got none"):
        sources.collect(tmp_path / "out", raw, paq())
    raw[PAQ].write_bytes(raw[PAQ].read_bytes()[:-30])
    with pytest.raises(ValueError, match="expected a complete archive"):
        sources.collect(tmp_path / "out", raw, paq())


def test_no_line_of_paq_stays_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times as many questions take no more memory, to collect and to make examples of."""
    monkeypatch.setattr(archives, "_CHUNK_BYTES", 1 << 14)  # less than the smaller file has
    peaks = []
    for number in (200, 2000):
        pairs = [question(f"question {row}", ["a"], [context("1")], [context("5")]) for row in range(number)]
        raw = write(tmp_path, {"psgs_w100.tsv.gz": PASSAGES, PAQ: pairs})
        del pairs
        tracemalloc.start()
        sources.collect(tmp_path / "out", raw, paq())
        dpr.make_examples(
            {PAQ: raw[PAQ]}, tmp_path / "out/queries.train.jsonl", tmp_path / "out/qrels.train.tsv",
            tmp_path / "examples.jsonl", relevant_grade=1, sample=1, wanted=None, seed=1,
        )  # fmt: skip
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 100 * 1800  # bytes: a question alone has more in its objects
