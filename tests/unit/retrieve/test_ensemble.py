"""Ensembles: the mean of the scores of the same hits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from condenser.data.records import ScoredDoc, write_run
from condenser.retrieve.fusion import averaged_run
from condenser.settings import Settings
from condenser.systems.ensemble import check

FIRST = [("q1", "a", 3.0), ("q1", "b", 1.0), ("q1", "c", -2.0), ("q2", "a", 0.5)]
SECOND = [("q1", "c", 5.0), ("q1", "a", 2.0), ("q1", "b", 1.0), ("q2", "a", 1.5)]
Run = list[tuple[str, str, float]]
BOTH = {"kind": "ensemble", "of": ["one", "two"]}


def written(folder: Path, *runs: Run) -> list[Path]:
    files = [folder / f"{number}.trec" for number in range(len(runs))]
    for file, run in zip(files, runs, strict=True):
        write_run(file, (ScoredDoc(*hit) for hit in run), system="one")
    return files


def test_hits_are_ranked_by_the_mean_of_their_scores(tmp_path: Path) -> None:
    assert [hit[:3] for hit in averaged_run(written(tmp_path, FIRST, SECOND))] == [
        ("q1", "a", 2.5), ("q1", "c", 1.5), ("q1", "b", 1.0), ("q2", "a", 1.0)
    ]  # fmt: skip


def test_three_systems_count_alike_and_a_tie_goes_to_the_first_doc_id(tmp_path: Path) -> None:
    thirds: list[Run] = [[("q", "b", 0.0), ("q", "a", x)] for x in (1.0, -3.0, 2.0)]
    assert [hit[:3] for hit in averaged_run(written(tmp_path, *thirds))] == [
        ("q", "a", 0.0), ("q", "b", 0.0)
    ]  # fmt: skip


def check_plain(entry: dict[str, Any], systems: dict[str, Any]) -> None:
    """As the configuration has them."""
    check(Settings(**entry), {name: Settings(**other) for name, other in systems.items()})


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("candidates", "bm25", "the first 20 of dense and two with the first 20 of bm25"),
        ("depth", 30, "the first 20 of dense and two with the first 30 of dense"),
    ],
)
def test_rerankers_of_other_hits_are_refused_before_anything_runs(key: str, value: object, told: str) -> None:
    systems = {name: {"candidates": "dense", "depth": 20} for name in ("one", "two")}
    check_plain({"of": ["one", "two"]}, systems)
    systems["two"] = {**systems["two"], key: value}  # type: ignore[dict-item]
    with pytest.raises(
        ValueError, match=f"of: expected systems that rerank the same hits, got one with {told}"
    ):
        check_plain({"of": ["one", "two"]}, systems)


def test_systems_that_find_hits_themselves_are_refused_before_anything_runs() -> None:
    reranker = {"candidates": "dense", "depth": 20}
    systems: dict[str, Any] = {"dense": {}, "bm25": {}, "one": reranker, "two": reranker, "both": BOTH}
    for of, message in (
        (["dense", "bm25"], "got dense with those that dense finds and bm25 with those that bm25 finds"),
        (["one", "dense"], "got one with the first 20 of dense and dense with those that dense finds"),
        (["bm25", "both"], "got bm25 with those that bm25 finds and both with the first 20 of dense"),
    ):
        with pytest.raises(ValueError, match=rf"{message}\. Name rerankers "):
            check_plain({"of": of}, systems)
    check_plain({"of": ["both", "one"]}, systems)  # an ensemble has the hits of its members
