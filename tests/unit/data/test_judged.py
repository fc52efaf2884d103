"""Judgements of a person: nothing is lost by a kill, a second tab or a damaged end, and they make a split."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from condenser.data.judged import JOURNAL, Judgements, described_pool

RANKINGS = {"hybrid": ["d1", "d2", "d3"], "bm25": ["d2", "d4"]}


@pytest.fixture
def judged(tmp_path: Path) -> Judgements:
    """Two queries, the first with a pool."""
    made = Judgements(tmp_path)
    made.add(["who was first", "who was second", "who was first"])
    made.pool("j1", RANKINGS)
    return made


def rows(folder: Path) -> list[str]:
    file = folder / "qrels" / "judged.tsv"
    return file.read_text().splitlines()[1:] if file.is_file() else []


def test_a_query_counts_once_its_pool_is_judged(tmp_path: Path, judged: Judgements) -> None:
    assert sorted(judged.query("j1").pool) == ["d1", "d2", "d3", "d4"]
    judged.grade("j1", {"d1": 0, "d2": 1, "d3": 0})
    assert rows(tmp_path) == [] and judged.query("j1").left == ["d4"]
    judged.grade("j1", {"d4": 0})
    assert sorted(rows(tmp_path)) == [f"j1\t{doc}\t{int(doc == 'd2')}" for doc in ("d1", "d2", "d3", "d4")]
    (query,) = (tmp_path / "queries.judged.jsonl").read_text().splitlines()
    assert json.loads(query) == {"_id": "j1", "text": "who was first"}
    judged.grade("j1", {"d2": None})  # undone
    assert rows(tmp_path) == []


def test_the_order_of_a_pool_shows_no_system_and_stays(tmp_path: Path) -> None:
    rankings = {name: [f"{name}{rank}" for rank in range(10)] for name in ("a", "b")}
    orders = list[list[str]]()
    for number in range(1, 31):
        judged = Judgements(tmp_path)
        judged.add([f"query {number}"])
        judged.pool(f"j{number}", rankings if number % 2 else dict(reversed(rankings.items())))
        orders.append(Judgements(tmp_path).query(f"j{number}").pool)
        assert orders[-1] == judged.query(f"j{number}").pool
    firsts = sum(order[0].startswith("a") for order in orders)
    in_front = sum(one.startswith("a") for order in orders for one in order[:10]) / 300
    assert 5 < firsts < 25 and 0.4 < in_front < 0.6


def test_only_the_first_ten_hits_are_pooled_and_the_first_ranking_stays(
    tmp_path: Path, judged: Judgements
) -> None:
    judged.pool("j2", {"hybrid": [f"d{rank}" for rank in range(20)]})
    judged.pool("j2", {"hybrid": ["other"], "bm25": ["d15"]})
    assert sorted(judged.query("j2").pool) == sorted([*(f"d{rank}" for rank in range(10)), "d15"])
    pooled = described_pool(tmp_path / JOURNAL)
    assert (pooled["systems"], pooled["depth"], len(pooled["last"])) == (["bm25", "hybrid"], 10, 10)


def test_two_tabs_see_each_others_steps(tmp_path: Path, judged: Judgements) -> None:
    other = Judgements(tmp_path)
    judged.grade("j1", {"d1": 1})
    other.grade("j1", {"d2": 0})
    other.add(["who was third", "who was second"])
    judged.grade("j1", {"d3": 0, "d4": 0})
    assert [query.text for query in judged.queries.values()] == [
        f"who was {n}" for n in ("first", "second", "third")
    ]
    assert len(rows(tmp_path)) == 4


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_the_half_of_a_step_that_a_kill_left_is_no_step(tmp_path: Path, judged: Judgements, cut: int) -> None:
    judged.grade("j1", {"d1": 1})
    whole = (tmp_path / JOURNAL).read_bytes()
    judged.grade("j1", {"d2": 1})
    (tmp_path / JOURNAL).write_bytes(whole + (tmp_path / JOURNAL).read_bytes()[len(whole) :][:cut])
    again = Judgements(tmp_path)
    assert again.query("j1").grades == {"d1": 1}
    again.grade("j1", {"d3": 0})
    assert Judgements(tmp_path).query("j1").grades == {"d1": 1, "d3": 0}


def test_what_is_judged_is_on_the_disk_at_once(tmp_path: Path, judged: Judgements) -> None:
    """Of a process that is killed right after a step, every step is there."""
    script = (
        "import os, sys; from pathlib import Path; from condenser.data.judged import Judgements\n"
        "judged = Judgements(Path(sys.argv[1]))\n"
        "for doc in ('d1', 'd2', 'd3', 'd4'): judged.grade('j1', {doc: 1})\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == -9
    assert len(rows(tmp_path)) == 4 == len(Judgements(tmp_path).query("j1").grades)


def test_a_line_that_is_no_step_is_named(tmp_path: Path, judged: Judgements) -> None:
    with (tmp_path / JOURNAL).open("a") as file:
        file.write("spoiled\n")
    with pytest.raises(ValueError, match=r"judged\.jsonl: expected a step .* \(line 4 after byte 0\)"):
        Judgements(tmp_path)
