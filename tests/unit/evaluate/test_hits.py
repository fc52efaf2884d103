"""Answers in texts as DPR finds them, and the measure hits@k."""

from __future__ import annotations

from pathlib import Path

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
        ("U.S. Army", ["U.S."], True),
        ("The $5.00 bill", ["$5"], True),
        ("The $5.00 bill", ["5.0"], False),  # 00 is one token
        ("answers", ["answer"], False),
        ("anything", [""], False),
        ("anything", [" \u200b"], False),  # no token: a zero-width space is a control character
        ("\u5317\u4eac\u5e02", ["\u5317\u4eac"], False),  # letters without spaces are one token
        ("one two three", ["zero", "two three"], True),
    ],
)
def test_an_answer_is_a_contiguous_sequence_of_tokens(text: str, answers: list[str], expected: bool) -> None:
    assert has_answer(text, answers) is expected


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
    return tuple(folder / name for name in ("run.trec", "collection.jsonl", "queries.jsonl", "qrels.tsv"))  # type: ignore[return-value]


def test_an_answer_in_the_title_alone_does_not_count(tmp_path: Path) -> None:
    run, passages, queries, _ = collection(tmp_path)
    assert answering_pairs(run, passages, queries, depth=3) == {("q1", "p2"), ("q2", "p3")}
    assert answering_pairs(run, passages, queries, depth=2) == {("q2", "p3")}


def test_hits_are_counted_down_to_their_depth(tmp_path: Path) -> None:
    run, passages, queries, qrels = collection(tmp_path)
    pairs = answering_pairs(run, passages, queries, depth=20)
    evaluate(
        run, qrels, tmp_path / "metrics.json", system="s", measures=["hits@1", "hits@2", "hits@3", "MRR@100"],
        relevant_grade=1, has_answer=lambda query_id, doc_id: (query_id, doc_id) in pairs,
    )  # fmt: skip
    measured = read_json(tmp_path / "metrics.json")["measures"]
    assert measured == {"hits@1": 0.5, "hits@2": 0.5, "hits@3": 1.0, "MRR@100": 1.0}


def test_queries_without_answers_are_refused(tmp_path: Path) -> None:
    run, passages, queries, _ = collection(tmp_path)
    write_queries(queries, [Query("q1", "capital?")])
    with pytest.raises(ValueError, match=r"queries.jsonl:1: expected queries with answers, got none"):
        answering_pairs(run, passages, queries, depth=20)
