"""DPR's files of Wikipedia, Natural Questions, TriviaQA and SQuAD: small, in their exact forms."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from bad_rows import refuse_and_skip
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
PSGS, TRAIN, TEST = "psgs_w100.tsv.gz", "biencoder-nq-train.json.gz", "nq-test.qa.csv"
ROWS = {PSGS: 5, TRAIN: 4, TEST: 2}
FILES = {PSGS: PASSAGES, TRAIN: QUESTIONS, TEST: ASKED}
PAQ = "PAQ.dpr.train.neg1.jsonl.zip"
PAIRS = [
    question("who is a prophet", ["Aaron"], [context("1", key="id"), context("4", key="id")],
             [context("5", key="id")]),
    question("nothing is relevant", ["x"], [], [context("5")]),
    {key: value for key, value in question("where is paris", [], [{**context("3"), "passage_id": 3}],
     [context("3"), context("2")]).items() if key != "answers"},
    question("no negative", ["NA"], [context("2")], []),
]  # fmt: skip
PAQ_LINES = "".join(f"{json.dumps(pair)}\n" for pair in PAIRS)


def settings(*, rows: dict[str, int] = ROWS, **others: Any) -> dict[str, Any]:
    given = dpr.Settings(**{"source": "dpr", "name": "nq", **others})
    return {**given.model_dump(), "official_rows": rows}


def paq(**others: Any) -> dict[str, Any]:
    return settings(name="paq", eval_split=None, rows={PSGS: 5}, **others)


def make_examples(file: Path, **options: Any) -> dict[str, int]:
    """Write the examples that a file gives of what was collected beside it."""
    folder = file.parent
    return dpr.make_examples(
        {file.name: file}, folder / "out/queries.train.jsonl", folder / "out/qrels.train.tsv",
        folder / "examples.jsonl",
        **{"relevant_grade": 1, "sample": 30, "wanted": None, "seed": 1, **options},
    )  # fmt: skip


def examples_of(file: Path, **options: Any) -> tuple[list[TrainExample], dict[str, int]]:
    counts = make_examples(file, **options)
    return list(read_examples(file.with_name("examples.jsonl"))), counts


def ids_of(folder: Path, split: str) -> list[str]:
    return [query.query_id for query in read_queries(folder / f"queries.{split}.jsonl")]


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
        PSGS: {"rows": 5, "kept": 5, "rejected": 0},
        TRAIN: {"rows": 4, "kept": 3, "rejected": 0, "without_positives": 1},
        f"{TRAIN} positive_ctxs": {"rows": 3, "kept": 3, "rejected": 0},
        TEST: {"rows": 2, "kept": 2, "rejected": 0},
    }
    assert counts["queries"] == {"train": 3, "test": 2} and counts["qrels"] == {"train": 3, "test": 0}


def test_all_positives_are_judged_where_they_are_asked_for(tmp_path: Path) -> None:
    sources.collect(tmp_path / "out", write(tmp_path, FILES), settings(positives="all"))
    assert list(read_qrels(tmp_path / "out" / "qrels.train.tsv"))[:2] == [
        Qrel("train-0", "1", 1), Qrel("train-0", "4", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "file"), [("tqa", "biencoder-trivia-dev.json.gz"), ("squad", "biencoder-squad1-dev.json.gz")]
)
def test_triviaqa_and_squad_name_their_passages_otherwise(tmp_path: Path, name: str, file: str) -> None:
    questions = [question("q", ["Paris"], [context("3", key="psg_id")], [])]
    raw = write(tmp_path, {PSGS: PASSAGES, file: questions})
    rows = {PSGS: 5, "biencoder-trivia-dev.json.gz": 1}
    only = settings(name=name, train_split=None, eval_split="dev", rows=rows)
    assert sources.raw_files(only) == [PSGS, file]
    counts = sources.collect(tmp_path / "out", raw, only)
    assert counts["qrels"] == {"dev": 1}
    assert list(read_qrels(tmp_path / "out" / "qrels.dev.tsv")) == [Qrel("dev-0", "3", 1)]


def test_without_splits_it_is_texts_alone(tmp_path: Path) -> None:
    texts = settings(train_split=None, eval_split=None)
    counts = sources.collect(tmp_path / "out", write(tmp_path, {PSGS: PASSAGES}), texts)
    assert counts["passages"] == 5 and counts["queries"] == {}
    assert sources.example_files(texts, "bm25") == []


NO_ID: list[Any] = [{"title": "T", "text": "t"}]
BAD = [  # stands before the last row of its file, and what was expected in its place
    (PSGS, '6\t"not closed\tT', "one row of CSV in a line"),
    (PSGS, "6\ttext", "3 tab-separated columns (id, text, title)"),
    (PSGS, "4\ttext\tT", "unique passage ids, got '4' again"),
    (TRAIN, {"question": "q"}, 'a list of strings in "answers"'),
    (TRAIN, 7, "a JSON object, got 7"),
    (TRAIN, {"question": "q", "answers": []}, 'a list in "positive_ctxs"'),
    (TRAIN, question("q", ["a"], NO_ID, []), "passages with one of passage_id, psg_id, id in "),
    (TRAIN, question("q", ["a"], [context("99")], []), "the id of a passage of the collection, got '99'"),
    (TRAIN, question(" ", ["a"], [context("1")], []), "a query text that is not empty"),
    (TEST, "who\t['a', b]", "a list of answers as Python writes it"),
    (TEST, "who\t__import__('os').getcwd()", "a list of answers as Python writes it"),
    (TEST, "who\t'a'", "a list of answers as Python writes it, got"),
    (TEST, "who", "2 tab-separated columns (question, answers)"),
    (PAQ, '{"question": "cut', "one JSON object, got "),
    (PAQ, "7", "one JSON object, got '7'"),
    (PAQ, json.dumps(question("q", ["a"], [context("99")], [])), "the id of a passage of the collection"),
    (PAQ, json.dumps(question("q", ["a"], NO_ID, [])), "passages with one of "),
    (PAQ, json.dumps(question(" ", ["a"], [context("1")], [])), "a query text that is not empty"),
]


@pytest.mark.parametrize(("name", "bad", "expected"), BAD)
def test_a_bad_row_is_refused_with_its_line_or_left_out_and_numbered_all_the_same(
    tmp_path: Path, name: str, bad: Any, expected: str
) -> None:
    content: Any = {**FILES, PAQ: PAQ_LINES}[name]
    if isinstance(content, list):
        line = json.dumps(content[:-1], indent=4).count("\n") + 1
        content = [*content[:-1], bad, content[-1]]
    else:
        *lines, last, end = content.split("\n")
        line, content = len(lines) + 1, "\n".join([*lines, bad, last, end])
    given = paq() if name == PAQ else settings(rows={**ROWS, name: ROWS[name] + 1})
    raw = write(tmp_path, {**FILES, PAQ: PAQ_LINES, name: content})
    counts, listed = refuse_and_skip(tmp_path / "out", raw, given, f":{line}: expected {expected}")
    assert listed[0][1] == line and len({place for _, place in listed}) == 1
    last_of_train = "train-4" if name in (TRAIN, PAQ) else "train-3"
    assert ids_of(tmp_path / "out", "train") == ["train-0", "train-2", last_of_train]
    if name == PAQ:
        assert counts["rejected_rows"] == {"queries": 1}
        assert [one.query_id for one in examples_of(raw[PAQ])[0]] == ["train-0", "train-2"]
    else:
        assert ids_of(tmp_path / "out", "test") == ["test-0", "test-2" if name == TEST else "test-1"]


NO_ANSWERS = "one\t[]\ntwo\t['  ']\n"
NO_HEADER = PASSAGES.replace("id\ttext", "text\tid")
REFUSED = [  # whatever `bad_rows` says
    (PSGS, NO_HEADER, f"{PSGS}:1: expected the header id text title"),
    (TRAIN, json.dumps(QUESTIONS, indent=4)[:-300], r"gz:\d+: expected a JSON array .* Is it the whole file"),
    (TEST, NO_ANSWERS, "expected queries with answers in the split 'test', got none"),
    *((name, FILES[name], f"{name}: expected the official {ROWS[name] + 1} rows") for name in FILES),
]


@pytest.mark.parametrize(("name", "content", "message"), REFUSED)
def test_another_file_is_refused_also_where_bad_rows_are_skipped(
    tmp_path: Path, name: str, content: Any, message: str
) -> None:
    rows = {**ROWS, name: ROWS[name] + ("official" in message)}
    raw = write(tmp_path, {**FILES, name: content})
    with pytest.raises(ValueError, match=message):
        sources.collect(tmp_path / "out", raw, settings(bad_rows="skip", rows=rows))


def test_an_empty_answer_is_none_and_a_question_without_any_is_counted(tmp_path: Path) -> None:
    raw = write(tmp_path, {**FILES, TEST: "none\t[]\nno word\t[' ']\n" + ASKED})
    counts = sources.collect(tmp_path / "out", raw, settings(rows={**ROWS, TEST: 4}))
    assert ids_of(tmp_path / "out", "test") == ["test-2", "test-3"]
    assert counts["files"][TEST] == {"rows": 4, "kept": 2, "rejected": 0, "without_judgement": 2}


def bm25_examples(folder: Path, **options: Any) -> tuple[list[TrainExample], dict[str, int]]:
    raw = write(folder, FILES)
    sources.collect(folder / "out", raw, settings())
    return examples_of(raw[TRAIN], **options)


def test_the_hard_negatives_of_the_file_are_the_examples_of_bm25(tmp_path: Path) -> None:
    given = settings(hard_negatives="bm25")
    assert sources.example_files(given, "bm25") == [TRAIN]
    assert sources.example_files(given, "condenser-round1") == []
    assert sources.example_files(settings(), "bm25") == []
    found, counts = bm25_examples(tmp_path)
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
    assert sources.example_files(given, "bm25") == [TRAIN]
    mined = [
        question("of another file", ["x"], [context("1")], [context("2")]),
        question("capital of france", ["Paris"], [context("3"), context("4")], [context("4"), context("5")]),
        question("who was aaron?", ["a prophet"], [context("1")], [context("2")]),
        question("capital of france", ["Paris"], [context("3")], [context("1")]),
    ]
    raw = write(tmp_path, {**FILES, name: mined})
    sources.collect(tmp_path / "out", {key: raw[key] for key in FILES}, given)
    found, counts = examples_of(raw[name])
    assert found == [TrainExample("train-2", ("3",), ("5",)), TrainExample("train-0", ("1",), ("2",))]
    assert (counts["unknown_questions"], counts["examples"]) == (2, 2)  # the last asks again
    assert counts["queries"] == 3  # also the one that the file lacks


def test_a_sample_depends_on_seed_and_question_alone(tmp_path: Path) -> None:
    drawn = {bm25_examples(tmp_path, sample=1, seed=seed)[0][0].negative_doc_ids for seed in range(8)}
    assert drawn == {("3",), ("5",)}
    whole, _ = bm25_examples(tmp_path, sample=1, seed=3)
    few, counts = bm25_examples(tmp_path, sample=1, seed=3, wanted={"train-0"})
    assert few == whole[:1] and counts["queries"] == 1


def test_questions_without_hard_negatives_make_no_examples(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected hard negatives of the questions in .*, got none"):
        bm25_examples(tmp_path, wanted={"train-3"})
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


def test_paq_has_a_question_a_line_with_passages_by_one_of_three_names(tmp_path: Path) -> None:
    raw = write(tmp_path, {PSGS: PASSAGES, PAQ: f"\n{PAQ_LINES}"})
    given = paq(hard_negatives="bm25")
    assert sources.raw_files(given) == [PSGS, PAQ]
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
    found, counts = examples_of(raw[PAQ])
    assert found == [TrainExample("train-0", ("1",), ("5",)), TrainExample("train-2", ("3",), ("2",))]
    expected = {"queries": 3, "without_negatives": 1, "negatives_given_as_positives": 1}
    assert expected.items() <= counts.items()
    few, counts = examples_of(raw[PAQ], wanted={"train-2"})
    assert (few, counts["queries"]) == (found[1:], 1)


def test_a_file_that_is_not_paqs_is_refused(tmp_path: Path) -> None:
    raw = write(tmp_path, {PSGS: PASSAGES, PAQ: PAIRS})
    sources.collect(tmp_path / "out", raw, paq())
    write(tmp_path, {PAQ: PAIRS[:2]})
    with pytest.raises(ValueError, match=r"expected the question train-2 of .* Do they belong together\?"):
        examples_of(raw[PAQ])
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
        raw = write(tmp_path, {PSGS: PASSAGES, PAQ: pairs})
        del pairs
        tracemalloc.start()
        sources.collect(tmp_path / "out", raw, paq())
        make_examples(raw[PAQ], sample=1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 300 * 1800  # bytes: a question alone has 500 in its line
