"""Fusion: runs together by scores or by ranks, against SciPy and hand-worked numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.stats import zscore

from condenser.data.records import Query, ScoredDoc, read_run, write_queries, write_run
from condenser.retrieve.fusion import fused_run
from condenser.systems.fusion import Settings

DEPTH = 4
HITS = {  # by query: each run's doc_ids and scores
    "q1": [{"a": 9.0, "b": 7.0, "c": 4.0, "d": 3.5, "e": 1.0}, {"c": 0.9, "f": 0.8, "e": 0.3}],
    "q2": [{}, {"b": 0.5, "a": 0.4}],
    "q4": [{"x": 2.0}, {"y": 2.0}],
}


def written(
    folder: Path, hits: Mapping[str, Sequence[Mapping[str, float]]], queries: Sequence[str]
) -> tuple[list[Path], Path]:
    """A file for each run, and the queries."""
    write_queries(folder / "queries.jsonl", [Query(query_id, "words") for query_id in queries])
    runs = [folder / f"{number}.trec" for number in range(len(next(iter(hits.values()))))]
    for number, run in enumerate(runs):
        rows = (ScoredDoc(name, *hit) for name, parts in hits.items() for hit in parts[number].items())
        write_run(run, rows, system="one")
    return runs, folder / "queries.jsonl"


@pytest.fixture
def files(tmp_path: Path) -> tuple[list[Path], Path]:
    """Two runs, and the queries; no run has q3."""
    return written(tmp_path, HITS, ["q1", "q2", "q3", "q4"])


def fused(files: tuple[list[Path], Path], **changes: Any) -> dict[str, dict[str, float]]:
    """The fused scores of each query, in the order of the run."""
    settings = {"subset": None, "method": "convex", "weights": None, "depth": DEPTH, "k": 60} | changes
    hits = fused_run(*files, **settings)
    return {
        query_id: {hit.doc_id: hit.score for hit in of_query}
        for query_id, of_query in groupby(hits, key=lambda hit: hit.query_id)
    }


@pytest.mark.parametrize("weights", [None, [3.0, 1.0]])
@pytest.mark.parametrize(("method", "normalised"), [("convex", zscore), ("mean", np.asarray)])
def test_scores_are_the_weighted_mean_of_scipys_z_scores_or_of_the_scores_as_they_are(
    files: tuple[list[Path], Path], method: str, normalised: Any, weights: list[float] | None
) -> None:
    # the first four of both runs; the first run has neither e nor f there: its fourth score stands for both
    table = {"a": (9.0, 0.3), "b": (7.0, 0.3), "c": (4.0, 0.9), "d": (3.5, 0.3), "f": (3.5, 0.8)}
    table["e"] = (3.5, 0.3)
    expected = np.average(normalised(np.array(list(table.values()))), axis=1, weights=weights)
    best = sorted(zip(expected, table, strict=True), key=lambda pair: (-pair[0], pair[1]))[:DEPTH]
    found = fused(files, method=method, weights=weights)
    assert list(found) == ["q1", "q2", "q4"]
    assert list(found["q1"]) == [doc_id for _, doc_id in best]
    assert list(found["q1"].values()) == pytest.approx([score for score, _ in best], rel=1e-8)


@pytest.mark.parametrize(
    ("parts", "means"),
    [
        ([{"a": 3.0, "b": 1.0, "c": -2.0}, {"c": 5.0, "a": 2.0, "b": 1.0}], {"a": 2.5, "c": 1.5, "b": 1.0}),
        ([{"b": 0.0, "a": score} for score in (1.0, -3.0, 2.0)], {"a": 0.0, "b": 0.0}),  # a tie
    ],
)
def test_the_same_hits_are_ranked_by_the_mean_of_their_scores(
    tmp_path: Path, parts: list[dict[str, float]], means: dict[str, float]
) -> None:
    found = fused(written(tmp_path, {"q": parts}, ["q"]), method="mean")
    assert list(found["q"].items()) == list(means.items())


@pytest.mark.parametrize(("weight", "order"), [(1e-11, "ab"), (1e-7, "ba")])
def test_scores_that_agree_in_nine_digits_are_a_tie(tmp_path: Path, weight: float, order: str) -> None:
    """b has 1 and a has 1 / (1 + weight)."""
    given = written(tmp_path, {"q": [{"b": 1.0, "a": 1.0}, {"b": 1.0, "a": 0.0}]}, ["q"])
    found = fused(given, method="mean", weights=[1.0, weight])["q"]
    assert "".join(found) == order
    assert found["a"] == round(1 / (1 + weight), 9)


@pytest.mark.parametrize("method", ["convex", "mean", "rrf"])
def test_the_depth_of_the_runs_does_not_change_a_fusion(
    files: tuple[list[Path], Path], tmp_path: Path, method: str
) -> None:
    runs, queries = files
    short = [tmp_path / f"first-two.{number}" for number in range(len(runs))]
    for run, whole in zip(short, runs, strict=True):
        of_queries = groupby(read_run(whole), key=lambda hit: hit.query_id)
        write_run(run, (hit for _, hits in of_queries for hit in list(hits)[:2]), system="one")
    deep = fused(files, method=method, depth=2)
    assert deep == fused((short, queries), method=method, depth=2)
    if method == "convex":  # a, b, c and f are in the pool
        by_hand = zscore([[9.0, 0.8], [7.0, 0.8], [7.0, 0.9], [7.0, 0.8]]).mean(axis=1)
        assert deep["q1"] == pytest.approx({"a": by_hand[0], "c": by_hand[2]}, rel=1e-8)


def test_a_run_without_the_query_and_a_tie_add_nothing(files: tuple[list[Path], Path]) -> None:
    found = fused(files)
    assert found["q2"] == {"b": 0.5, "a": -0.5}
    assert list(found["q4"].items()) == [("x", 0.0), ("y", 0.0)]


def test_ranks_are_fused_by_their_reciprocals(files: tuple[list[Path], Path]) -> None:
    found = fused(files, method="rrf", k=1)
    by_hand = {"c": 1 / 4 + 1 / 2, "a": 1 / 2, "b": 1 / 3, "f": 1 / 3}  # e is below the first run's depth
    assert list(found["q1"]) == list(by_hand)
    assert found["q1"] == pytest.approx(by_hand, rel=1e-8)
    weighted = fused(files, method="rrf", k=60, weights=[2.0, 0.0])
    assert weighted["q1"] == pytest.approx({"a": 2 / 61, "b": 2 / 62, "c": 2 / 63, "d": 2 / 64}, rel=1e-8)


def test_of_a_subset_only_its_queries_are_fused(files: tuple[list[Path], Path]) -> None:
    assert list(fused(files, subset={"q2", "q3"})) == ["q2"]


def test_the_order_of_the_file_is_by_score_and_doc_id(files: tuple[list[Path], Path], tmp_path: Path) -> None:
    """Thousands of scores with many ties; the scores are those that the file has."""
    draw = np.random.default_rng(3)
    runs, queries = [tmp_path / "many.trec", tmp_path / "more.trec"], tmp_path / "queries.jsonl"
    for run in runs:
        hits = []
        for query in ("q1", "q3"):
            ids = draw.permutation(200)[:150]
            scores = np.sort(draw.integers(0, 9, size=150) / 7)[::-1]
            hits += [ScoredDoc(query, f"d{one}", float(s)) for one, s in zip(ids, scores, strict=True)]
        write_run(run, hits, system="one")
    settings = {"subset": None, "method": "convex", "weights": None, "depth": 100, "k": 60}
    write_run(tmp_path / "fused.trec", fused_run(runs, queries, **settings), system="both")
    for _, of_query in groupby(read_run(tmp_path / "fused.trec"), key=lambda hit: hit.query_id):
        pairs = [(-hit.score, hit.doc_id) for hit in of_query]
        assert len(pairs) == 100 and pairs == sorted(pairs)


@pytest.mark.parametrize("method", ["mean", "rrf"])
def test_the_passage_of_a_document_is_that_of_the_first_run_that_has_it(tmp_path: Path, method: str) -> None:
    write_queries(tmp_path / "queries.jsonl", [Query("q", "words")])
    runs = [tmp_path / "first.trec", tmp_path / "second.trec"]
    for run, hits in zip(runs, (["d1#3"], ["d2#1", "d1#2"]), strict=True):
        write_run(run, [ScoredDoc("q", one[:2], -float(n), one) for n, one in enumerate(hits)], system="one")
    settings = {"subset": None, "method": method, "weights": None, "depth": 9, "k": 60}
    hits = fused_run(runs, tmp_path / "queries.jsonl", **settings)
    assert {hit.doc_id: hit.passage_id for hit in hits} == {"d1": "d1#3", "d2": "d2#1"}


@pytest.mark.parametrize("order", [["q2", "q1"], ["q1", "other"], ["q1", "q2", "q1"]])
def test_a_run_of_other_queries_or_in_another_order_is_refused(
    files: tuple[list[Path], Path], tmp_path: Path, order: list[str]
) -> None:
    write_run(tmp_path / "odd.trec", [ScoredDoc(one, "a", 1.0) for one in order], system="one")
    with pytest.raises(AssertionError, match=r"odd\.trec.*: a query is not in .*, or out of its order"):
        fused(([files[0][0], tmp_path / "odd.trec"], files[1]))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("even", "expected equal, learnt, or a number of at least 0 for each system, got 'even'"),
        ([1, -1], r"expected equal, learnt, or a number of at least 0 for each system, got \[1, -1\]"),
        ([1.0], "weights: expected 2 numbers, one for each system"),
        ([0, 0], "not all 0"),
    ],
)
def test_other_weights_are_refused(weights: object, message: str) -> None:
    entry = {"kind": "fusion", "of": ["a", "b"], "method": "convex", "depth": 10}
    assert Settings(**entry).weights == "equal" and Settings(**entry, weights=[2, 0.5]).weights == [2, 0.5]
    with pytest.raises(ValidationError, match=message):
        Settings(**entry, weights=weights)
