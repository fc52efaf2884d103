"""What is taken of a teacher's run."""

from __future__ import annotations

from pathlib import Path

import pytest

from condenser.data.records import ScoredDoc, write_run
from condenser.train.teacher import TaughtRows, read_taught_rows

HITS = [
    *(ScoredDoc("d1", doc_id, score) for doc_id, score in (("d1", 9.0), ("d2", 3.0), ("d3", 1.5))),
    *(ScoredDoc("q2", doc_id, score) for doc_id, score in (("d3", 0.5), ("d1", 0.25))),
    ScoredDoc("q3", "d2", 7.0),
]
QUERY_ROWS = {"q3": 0, "q2": 1, "d1": 2, "a#2": 3}
DOC_ROWS = {"d1": 10, "d2": 20, "d3": 30, "a#2": 40, "b#1": 50, "c#1": 60}


def taught(run: Path, hits: list[ScoredDoc], *, depth: int = 2, with_own_passage: bool = True) -> TaughtRows:
    write_run(run, hits, system="teacher")
    return read_taught_rows(
        run,
        query_rows=QUERY_ROWS,
        doc_rows=DOC_ROWS,
        passages_per_query=depth,
        with_own_passage=with_own_passage,
    )


def test_each_query_has_the_teachers_first_hits_with_their_scores(tmp_path: Path) -> None:
    rows = taught(tmp_path / "run", HITS)
    assert rows.queries.tolist() == [2, 1]
    assert rows.passages.tolist() == [[10, 20], [30, 10]]
    assert rows.scores.tolist() == [[9.0, 3.0], [0.5, 0.25]]
    assert rows.counts == {"queries": 3, "queries_with_fewer_hits": 1}


def test_the_passage_of_a_query_can_be_left_out(tmp_path: Path) -> None:
    rows = taught(tmp_path / "run", HITS, with_own_passage=False)
    assert rows.passages.tolist() == [[20, 30], [30, 10]]  # d1 is a hit of q2


def test_where_documents_are_split_a_query_and_its_hits_are_named_as_passages(tmp_path: Path) -> None:
    hits = [ScoredDoc("a#2", name[0], -rank, name) for rank, name in enumerate(("a#2", "b#1", "c#1"))]
    assert taught(tmp_path / "run", hits).passages.tolist() == [[40, 50]]
    assert taught(tmp_path / "run", hits, with_own_passage=False).passages.tolist() == [[50, 60]]


def test_a_run_of_too_few_hits_cannot_teach(tmp_path: Path) -> None:
    message = r"expected a query with 4 hits, got none of 3\. Lower passages_per_query"
    with pytest.raises(ValueError, match=message):
        taught(tmp_path / "run", HITS, depth=4)
