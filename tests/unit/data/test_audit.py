"""Planted faults are found; what is found is what a plain reading of the definitions finds."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from job_files import do

from condenser.blocks import Audit, AutoLengths
from condenser.data.audit import WHAT_TO_DO, Finding, audit, write_findings
from condenser.data.lengths import TextLengths, TokenCounts
from condenser.data.near import near, trigrams_of
from condenser.data.records import (
    Passage,
    Qrel,
    Query,
    write_passages,
    write_qrels,
    write_queries,
)
from condenser.settings import partly

THRESHOLDS = partly(Audit, {"least_words": 5, "near_queries": 0.8, "near_queries_judged_alike": 0.6})
LENGTHS = {"query": 32, "passage": 128}


def write_data(
    folder: Path,
    passages: list[Passage],
    train: list[Query],
    evaluation: list[Query],
    relevant: dict[str, str],
) -> dict[str, Any]:
    """The files of a data set; gives the arguments of an audit of it."""
    write_passages(folder / "collection.jsonl", passages)
    write_queries(folder / "queries.train.jsonl", train)
    write_queries(folder / "queries.dev.jsonl", evaluation)
    write_qrels(folder / "qrels.train.tsv", [Qrel(query, doc, 1) for query, doc in relevant.items()])
    return {
        "collection": folder / "collection.jsonl",
        "train_queries": folder / "queries.train.jsonl",
        "eval_queries": {"dev": folder / "queries.dev.jsonl"},
        "qrels": dict.fromkeys(["train", "dev"], folder / "qrels.train.tsv"),
        "relevant_grade": 1,
        "thresholds": THRESHOLDS,
        "lengths": LENGTHS,
        "text_lengths": {},
    }


# ---- the measure and the search, against plain versions -----------------------------------------


def test_a_similarity_is_worked_by_hand() -> None:
    rare, common = math.log(4 / 1), math.log(4 / 3)
    ((_, first), (similarity, _)) = next(near([frozenset("ab")], [frozenset("ac"), frozenset("ad")], 0.01))
    assert similarity == pytest.approx(common / (common + 2 * rare)) and first == 0


def test_near_sets_are_those_that_a_comparison_of_all_pairs_finds() -> None:
    draw = Random(3)
    letters = [chr(97 + number) for number in range(26)]
    sets = [frozenset(draw.choices(letters, k=draw.randint(0, 8))) for _ in range(200)]
    counts = Counter(feature for one in sets for feature in one)
    sets, others = sets[:120], sets[120:]

    def weight(features: frozenset[str]) -> float:
        return math.fsum(math.log(201 / counts[feature]) for feature in features)

    def similarity(one: frozenset[str], other: frozenset[str]) -> float:
        shared = weight(one & other)
        return shared / (weight(one) + weight(other) - shared)

    of_all = [[(similarity(one, other), n) for n, other in enumerate(others) if one | other] for one in sets]
    # a similarity of the least itself is near
    itself = next(value for pairs in of_all for value, _ in pairs if 0.35 < value < 0.6)
    for least in (0.35, 0.6, 0.9, itself):
        for pairs, found in zip(of_all, near(sets, others, least), strict=True):
            expected = [pair for pair in pairs if pair[0] >= least]
            assert found == sorted(expected, key=lambda pair: (-pair[0], pair[1]))


# ---- single findings -------------------------------------------------------------------------------


def found_in(folder: Path, passages: list[str], **given: Any) -> tuple[list[Finding], dict[str, Any]]:
    """The findings of passages with the ids 0, 1, ...; `given` are queries and judgements."""
    data = write_data(
        folder,
        [Passage(str(row), "", text) for row, text in enumerate(passages)],
        [Query(*query) for query in given.get("train", [])],
        [Query(*query) for query in given.get("evaluation", [])],
        given.get("relevant", {}),
    )
    data["qrels"] = {split: data["qrels"][split] for split in given.get("judged", data["qrels"])}
    return audit(**data | {"text_lengths": given.get("text_lengths", {})})


def test_texts_that_are_not_read_are_found_as_the_note_under_a_table_says(tmp_path: Path) -> None:
    rows = {"passages": Counter({100: 64, 200: 236}), "dev": Counter({12: 40})}
    passages, queries = (TokenCounts(9, 0, of) for of in rows.values())
    auto = partly(AutoLengths, {"share": 0.95, "multiple": 8})
    texts = {"backbone": TextLengths(512, passages, {"dev": queries}, dict.fromkeys(LENGTHS, 0), auto)}
    findings, counts = found_in(tmp_path, FILLERS, text_lengths=texts)
    (finding,) = (one for one in findings if one.kind == "unread_text")
    (note, _), *_ = texts["backbone"].cuts(LENGTHS, splits=["dev"], in_one_row=False)
    assert finding.text == note and note.startswith("236 of 300 passages (78.7 %) are longer than 128 tokens")
    assert (finding.where, finding.score) == ("backbone", 236) and counts["findings"]["unread_text"] == 1


def test_a_title_alone_is_shown_where_there_is_no_text(tmp_path: Path) -> None:
    write_data(tmp_path, [Passage("a", "Two words", ""), Passage("b", "", FILLERS[0])], [], [], {})
    findings, _ = audit(
        tmp_path / "collection.jsonl",
        **{"train_queries": None, "eval_queries": {}, "qrels": {}},
        **{"thresholds": THRESHOLDS, "lengths": LENGTHS, "text_lengths": {}, "relevant_grade": 1},
    )
    assert [(one.kind, one.text) for one in findings] == [("short_text", "Two words")]


def kinds_of(findings: list[Finding]) -> dict[str, list[tuple[str, str, str]]]:
    found: dict[str, list[tuple[str, str, str]]] = {}
    for one in findings:
        found.setdefault(one.kind, []).append((one.query_id, one.doc_id, one.other_id))
    return found


FILLERS = [f"Passage {number} says {number * 7} things of subject {number * 31}." for number in range(15)]


def test_short_cut_and_equal_texts_are_found(tmp_path: Path) -> None:
    texts = [
        *("A text that ends in the middle of...", "Four words are few."),
        *("?!", "--"),  # no words: these are short, and not equal
        *("The same text, twice in here.", "the SAME text twice: in here", "The ﬁrst and only text of it."),
    ]
    findings, counts = found_in(tmp_path, [*texts, *FILLERS])
    assert kinds_of(findings) == {
        "short_text": [("", "1", ""), ("", "2", ""), ("", "3", "")],
        "cut_text": [("", "0", "")],
        "equal_passage": [("", "5", "4")],
    }
    assert [one.score for one in findings if one.kind == "short_text"] == [4, 0, 0]
    assert counts["passages"] == 22 and counts["findings"]["short_text"] == 3
    assert list(counts["findings"]) == list(WHAT_TO_DO) and not counts["findings"]["leaked_query"]


def test_a_collection_that_is_cut_at_one_length_is_found_once(tmp_path: Path) -> None:
    draw = Random(1)
    texts = [" ".join(f"w{draw.randrange(10**6)}" for _ in range(min(60, 30 + row))) for row in range(80)]
    (finding,), _ = found_in(tmp_path, texts)
    assert finding.kind == "cut_collection" and finding.score == 50
    assert finding.text == "50 of 80 passages have 60 words, and none has more"


def test_of_two_copies_only_one_of_which_is_judged_both_are_to_be_read(tmp_path: Path) -> None:
    texts = ["One text that stands here twice.", "One text that stands here twice!", *FILLERS]
    given = {"train": [("q", "what")], "relevant": {"q": "0"}}
    (finding,), _ = found_in(tmp_path, texts, **given)
    assert "only one of them is judged relevant" in finding.what_to_do
    given["relevant"] = {"q": "0", "r": "1"}
    (finding,), _ = found_in(tmp_path, texts, **given)
    assert finding.what_to_do == ""  # what the kind says


def test_leaked_queries_are_equal_or_near_and_have_the_same_numbers(tmp_path: Path) -> None:
    fill = [(f"t{number}", f"{word} of things") for number, word in enumerate(["weight", "colour", "age"])]
    train = [
        *(("equal", "what is the TALLEST mountain"), ("typed", "What is the talest mountain?")),
        ("number", "Who won the cup in 2015?"),
        ("alike", "mountain of greatest height, the tallest"),
        ("other", "mountain of greatest depth, the lowest"),
        *(("none", "??"), *fill),
    ]
    evaluation = [("e1", "What is the tallest mountain?"), ("e2", "Who won the cup in 2014?"), ("e3", "!")]
    given: dict[str, Any] = {"train": train, "evaluation": evaluation}
    findings, _ = found_in(tmp_path, FILLERS, **given)
    assert kinds_of(findings) == {
        "short_query": [("e3", "", ""), ("none", "", "")],
        "leaked_query": [("equal", "", "e1")],
        "near_leaked_query": [("typed", "", "e1")],
    }
    assert {one.where for one in findings if "leaked" in one.kind} == {"dev"}


def test_queries_with_a_relevant_passage_in_common_need_resemble_each_other_less(tmp_path: Path) -> None:
    train = [("alike", "How tall is the tallest mountain on Earth?"), ("t", "colour of the sky at dusk")]
    evaluation = [("e", "What is the tallest mountain on Earth?"), ("f", "number of bones in a hand")]
    given: dict[str, Any] = {"train": train, "evaluation": evaluation, "relevant": {"alike": "3", "e": "4"}}
    (score, _), *_ = next(
        near(*([trigrams_of(text) for _, text in queries] for queries in (train, evaluation)), 0.3)
    )
    assert 0.6 <= score < 0.8
    assert found_in(tmp_path, FILLERS, **given)[0] == []
    texts = [*FILLERS[:4], FILLERS[3], *FILLERS[4:]]  # the passage of the one is a copy of the other's
    findings, _ = found_in(tmp_path, texts, **given)
    assert kinds_of(findings)["near_leaked_query"] == [("alike", "", "e")]
    renamed = {
        "train": [("1", train[0][1]), train[1]],
        "evaluation": [("1", evaluation[0][1]), evaluation[1]],
    }
    given = {**renamed, "relevant": {"1": "3"}}  # the judgements are those of one split alone, in the second
    assert "near_leaked_query" in kinds_of(found_in(tmp_path, FILLERS, **given)[0])
    assert found_in(tmp_path, FILLERS, **given, judged=["train"])[0] == []


# ---- the program -----------------------------------------------------------------------------------


def test_the_program_writes_one_line_for_each_finding_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    texts = ["One\ttext\nthat is\u2028 here twice.", "One text that is here twice!", *FILLERS]
    found_in(tmp_path, texts, train=[("q", "what\tis it")], evaluation=[("e", "What is it?")])
    job = {
        "wildcards": {"dataset": "mine"},
        "settings": {
            **{"audit": vars(THRESHOLDS), "lengths": LENGTHS, "dataset": {"split": None}},
            "metrics": {"relevant_grade": 1},
        },
    }
    no_queries: dict[str, Any] = {
        "collection": tmp_path / "collection.jsonl",
        **{name: [] for name in ("train_queries", "eval_queries", "qrels", "lengths")},
    }
    with_queries = {
        **no_queries,
        "train_queries": tmp_path / "queries.train.jsonl",
        "eval_queries": [tmp_path / "queries.dev.jsonl"],
        "qrels": [tmp_path / "qrels.train.tsv"],
    }

    def made(name: str, given: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
        folder = tmp_path / name
        do("audit", **job, input=given, output={key: folder / file for key, file in OUTPUTS.items()})
        return (folder / "audit.tsv").read_bytes(), json.loads((folder / "audit.json").read_text())

    table, counts = made("first", with_queries)
    assert made("second", with_queries) == (table, counts)
    assert json.loads((tmp_path / "first/audit.manifest.json").read_text())["counts"] == counts
    header, *lines = table.decode().split("\n")[:-1]
    rows = [dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in lines]
    assert [(row["kind"], row["text"]) for row in rows] == [
        ("equal_passage", "One text that is here twice!"),
        ("leaked_query", "what is it"),
    ]
    assert rows[0]["other_text"] == "One text that is here twice." and rows[1]["where"] == "dev"
    assert [row["what_to_do"] for row in rows] == [WHAT_TO_DO[row["kind"]] for row in rows]
    assert counts["queries"] == {"train": 1, "dev": 1} and counts["findings"]["leaked_query"] == 1
    _, alone = made("alone", no_queries)  # a collection without queries
    assert alone["findings"]["equal_passage"] == 1 and alone["queries"] == {"train": 0}


OUTPUTS = {"findings": "audit.tsv", "counts": "audit.json", "manifest": "audit.manifest.json"}


def row_of(folder: Path, **values: Any) -> dict[str, str]:
    """The line of a finding in the table, by column."""
    write_findings(folder / "audit.tsv", [Finding("equal_passage", **values)])
    header, line = (folder / "audit.tsv").read_text().splitlines()
    return dict(zip(header.split("\t"), line.split("\t"), strict=True))


def test_a_line_of_the_table_has_a_cell_for_each_column(tmp_path: Path) -> None:
    row = row_of(tmp_path, doc_id="a", other_id="b", score=0.81234)
    assert list(row) == list(Finding._fields)
    given = {"kind": "equal_passage", "doc_id": "a", "other_id": "b", "score": "0.8123"}
    assert {name: cell for name, cell in row.items() if cell} == {
        **given,
        "what_to_do": WHAT_TO_DO["equal_passage"],
    }


@pytest.mark.parametrize("cell", ["=HYPERLINK(A1)", "+1", "-d2", "@a", "'a", "'=a", "d=1"])
def test_no_cell_is_a_formula_and_a_program_gets_the_id_back(tmp_path: Path, cell: str) -> None:
    names = ("query_id", "doc_id", "other_id", "text")
    row = row_of(tmp_path, **dict.fromkeys(names, cell), score=-0.25)
    assert row["score"] == "-0.25"  # a number stays a number
    for name in names:
        assert not row[name].startswith(("=", "+", "-", "@"))
        assert row[name].removeprefix("'") == cell


def test_no_cell_can_steer_a_terminal(tmp_path: Path) -> None:
    hostile = "\x1b[2Ja\u202e"
    row_of(tmp_path, doc_id=hostile, text=hostile)
    assert (tmp_path / "audit.tsv").read_text().count("\\x1b[2Ja\\u202e\t") == 2
