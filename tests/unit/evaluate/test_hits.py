"""Answers in texts as DPR finds them, and the measure hits@k."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from condenser.data.records import (
    Passage,
    Qrel,
    Query,
    ScoredDoc,
    write_passages,
    write_qrels,
    write_queries,
    write_run,
)
from condenser.evaluate.answers import answering_pairs, has_answer
from condenser.evaluate.metrics import evaluate
from condenser.files import read_json


@pytest.mark.parametrize(
    ("text", "answers", "expected"),
    [
        ("It was built in 1889 by Gustave Eiffel.", ["Gustave Eiffel"], True),
        ("It was built in 1889 by Gustave Eiffel.", ["gustave  EIFFEL"], True),  # white space and case
        ("Gustave and Eiffel.", ["Gustave Eiffel"], False),  # not one after the other
        ("Gustave-Eiffel", ["Gustave Eiffel"], False),  # the hyphen is a token
        ("Gustave-Eiffel", ["Gustave-Eiffel"], True),
        ("caf\u00e9", ["cafe\u0301"], True),  # composed and decomposed are one
        ("cafe", ["caf\u00e9"], False),  # an accent is part of the token
        ("a \ufb01ne day", ["fine"], False),  # a ligature is a letter of its own
        ("U.S. Army", ["U.S."], True),
        ("The $5.00 bill", ["$5"], True),
        ("The $5.00 bill", ["5.0"], False),  # 00 is one token
        ("answers", ["answer"], False),
        ("anything", [""], False),
        ("anything", [" \u200b"], False),  # no token: a zero-width space is a control character
        ("\u5317\u4eac\u5e02", ["\u5317\u4eac"], False),  # letters without spaces are one token
        ("one two three", ["zero", "two three"], True),
        ("Born in S\u00e3o Paulo, Brazil", ["sa"], False),  # an accent ends no token
        ("\u00c9MILE ZOLA wrote it", ["\u00e9mile zola"], True),
        ("rock \u2019n\u2019 roll", ["rock 'n' roll"], False),  # apostrophes are not made alike
        ("a\u00a0b", ["a b"], True),  # a no-break space separates
    ],
)
def test_an_answer_is_a_contiguous_sequence_of_tokens(text: str, answers: list[str], expected: bool) -> None:
    assert has_answer(text, answers) is expected


FILES = ("run.trec", "collection.jsonl", "queries.jsonl", "qrels.tsv")


def collection(folder: Path) -> tuple[Path, Path, Path, Path]:
    """Three passages, two queries, their run and judgements."""
    write_passages(
        folder / "collection.jsonl",
        [
            Passage("p1", "Paris", "The capital of France."),  # the answer in the title alone
            Passage("p2", "", "Paris is a city."),
            Passage("p3", "", "Berlin is a city."),
        ],
    )
    write_queries(
        folder / "queries.jsonl",
        [Query("q1", "capital?", ("Paris",)), Query("q2", "city?", ("Rome", "Berlin"))],
    )
    write_qrels(folder / "qrels.tsv", [Qrel("q1", "p1", 1), Qrel("q2", "p3", 1)])
    hits = [("q1", "p1"), ("q1", "p3"), ("q1", "p2"), ("q2", "p3"), ("q2", "p1")]
    rows = [ScoredDoc(query_id, doc_id, 9.0 - rank) for rank, (query_id, doc_id) in enumerate(hits)]
    write_run(folder / "run.trec", rows, system="s")
    return tuple(folder / name for name in FILES)  # type: ignore[return-value]


def test_an_answer_in_the_title_alone_does_not_count(tmp_path: Path) -> None:
    run, passages, queries, _ = collection(tmp_path)
    assert answering_pairs(run, passages, queries, depth=3) == {("q1", "p2"), ("q2", "p3")}
    assert answering_pairs(run, passages, queries, depth=2) == {("q2", "p3")}
    assert answering_pairs(run, passages, queries, depth=3, wanted={"q1"}) == {("q1", "p2")}


def measured(folder: Path, *measures: str, answered: Sequence[str] = ()) -> dict[str, Any]:
    """What the metrics file of the run of `collection` holds."""
    run, passages, queries, qrels = (folder / name for name in FILES)
    pairs = answering_pairs(run, passages, queries, depth=20)
    evaluate(
        *(run, qrels, folder / "metrics.json"),
        **{"system": "s", "measures": measures, "relevant_grade": 1, "answered": answered},
        has_answer=lambda query_id, doc_id: (query_id, doc_id) in pairs,
    )
    return read_json(folder / "metrics.json")


def test_hits_are_counted_down_to_their_depth(tmp_path: Path) -> None:
    collection(tmp_path)
    found = measured(tmp_path, "hits@1", "hits@2", "hits@3", "MRR@100")["measures"]
    assert found == {"hits@1": 0.5, "hits@2": 0.5, "hits@3": 1.0, "MRR@100": 1.0}


def test_queries_that_no_passage_is_judged_for_are_judged_by_their_answers(tmp_path: Path) -> None:
    *_, qrels = collection(tmp_path)
    write_qrels(qrels, [])
    names = ["q1", "q2", "not-in-the-run"]
    found = measured(tmp_path, "hits@1", "hits@3", answered=names)
    assert found["measures"] == {"hits@1": 1 / 3, "hits@3": 2 / 3}
    assert found["per_query"] == {"query_id": names, "hits@1": [0, 1, 0], "hits@3": [1, 1, 0]}
    counts = [found["counts"][f"queries{what}"] for what in ("", "_missing", "_unjudged")]
    assert counts == [3, 1, 0]
    with pytest.raises(ValueError, match=r"expected a passage of grade 1 or more, got none"):
        measured(tmp_path, "hits@1", "MRR@10", answered=["q1"])


def test_answers_add_no_query_where_all_are_judged(tmp_path: Path) -> None:
    collection(tmp_path)
    judged, answered = (measured(tmp_path, "MRR@10", "R@1", answered=names) for names in ([], ["q1", "q2"]))
    assert judged == answered


def test_queries_without_answers_are_refused(tmp_path: Path) -> None:
    run, passages, queries, _ = collection(tmp_path)
    write_queries(queries, [Query("q1", "capital?")])
    with pytest.raises(ValueError, match=r"queries.jsonl:1: expected queries with answers, got none"):
        answering_pairs(run, passages, queries, depth=20)
