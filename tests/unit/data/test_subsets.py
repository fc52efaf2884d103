from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from job_files import do

from condenser.data.records import Query, TrainExample, write_examples, write_queries
from condenser.data.subsets import read_subset, write_held_out, write_subset


def queries_file(folder: Path, ids: list[str]) -> Path:
    write_queries(folder / "queries.jsonl", [Query(query_id, "text") for query_id in ids])
    return folder / "queries.jsonl"


def drawn(folder: Path, ids: list[str], *, count: int, seed: int) -> list[str]:
    """The ids of a subset, in the order of its file."""
    counts = write_subset(queries_file(folder, ids), folder / "subset.txt", count=count, seed=seed)
    assert counts == {"queries": count, "of": len(ids)}
    lines = (folder / "subset.txt").read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    assert read_subset(folder / "subset.txt") == frozenset(lines)
    return lines


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), seed=st.integers(0, 2**40))
def test_of_one_seed_a_smaller_subset_lies_inside_a_larger_one_and_both_in_file_order(
    tmp_path: Path, data: st.DataObject, seed: int
) -> None:
    ids = data.draw(st.lists(st.text("abc019-é\u2028", min_size=1), min_size=1, max_size=30, unique=True))
    larger = data.draw(st.integers(1, len(ids)))
    smaller = data.draw(st.integers(1, larger))
    many, few = (drawn(tmp_path, ids, count=count, seed=seed) for count in (larger, smaller))
    assert (len(many), len(few)) == (larger, smaller)
    assert set(few) <= set(many) <= set(ids)
    for chosen in (many, few):
        assert chosen == [query_id for query_id in ids if query_id in set(chosen)]


def test_another_seed_draws_other_queries_and_the_same_seed_the_same(tmp_path: Path) -> None:
    ids = [f"q{number}" for number in range(1000)]
    first = drawn(tmp_path, ids, count=50, seed=1)
    assert first == drawn(tmp_path, ids, count=50, seed=1)
    assert len(set(first) & set(drawn(tmp_path, ids, count=50, seed=2))) < 15  # 2.5 by chance


def test_every_query_is_as_likely_as_any_other(tmp_path: Path) -> None:
    ids = [f"q{number}" for number in range(20)]
    counts: Counter[str] = Counter()
    for seed in range(100):
        counts.update(drawn(tmp_path, ids, count=5, seed=seed))
    # binomial of 100 draws with probability 1/4: mean 25, standard deviation 4.3
    assert all(abs(counts[query_id] - 25) < 5 * 4.3 for query_id in ids)


def test_of_queries_with_an_example_as_many_are_drawn_as_asked_for(tmp_path: Path) -> None:
    """MS MARCO's triples leave out one query in five, so 1,000 of all were some 800 examples."""
    ids = [f"q{number}" for number in range(10)]
    examples = tmp_path / "examples.jsonl"
    write_examples(examples, [TrainExample(query_id, ("d1",), ("d2",)) for query_id in ids[::2]])
    made = {"output": tmp_path / "subset.txt", "examples": examples, "seed": 1}
    assert write_subset(queries_file(tmp_path, ids), count=4, **made) == {
        "queries": 4,
        "of": 5,
        "without_example": len(ids) - 5,
    }
    assert len(drawn := read_subset(tmp_path / "subset.txt")) == 4 and drawn < set(ids[::2])
    with pytest.raises(ValueError, match=r"expected at least 6 train queries, got 5"):
        write_subset(queries_file(tmp_path, ids), count=6, **made)


def test_more_queries_than_there_are_are_refused_and_leave_no_file(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"queries\.jsonl: expected at least 4 train queries, got 3\. Choose a smaller"
    ):
        drawn(tmp_path, ["a", "b", "c"], count=4, seed=1)
    assert not (tmp_path / "subset.txt").exists()


def test_the_program_writes_the_subset_of_its_variant_and_a_manifest(tmp_path: Path) -> None:
    ids = [f"q{number}" for number in range(10)]
    do(
        "subset",
        settings={"train_queries": 4, "seed": 3},
        input={"queries": queries_file(tmp_path, ids), "examples": []},
        output={"ids": tmp_path / "out", "manifest": tmp_path / "m.json"},
    )
    assert read_subset(tmp_path / "out") == frozenset(drawn(tmp_path, ids, count=4, seed=3))
    manifest = json.loads((tmp_path / "m.json").read_text())
    assert manifest["counts"] == {"queries": 4, "of": 10} and list(manifest["outputs"]) == ["out"]


@pytest.mark.parametrize(
    ("num_queries", "expected"),
    [(49, 0), (50, 5), (99, 9), (1000, 20)],  # a tenth, none below 5, at most 20
)
def test_a_share_of_the_train_queries_is_held_out_within_its_bounds(
    tmp_path: Path, num_queries: int, expected: int
) -> None:
    ids = [f"q{number}" for number in range(num_queries)]
    queries, output = queries_file(tmp_path, ids), tmp_path / "held_out.txt"
    counts = write_held_out(queries, output, subset=None, share=0.1, least=5, most=20, seed=1)
    held_out = output.read_text().splitlines()
    assert counts == {"queries": expected, "of": num_queries} and len(held_out) == expected
    assert held_out == [query_id for query_id in ids if query_id in set(held_out)]


def test_the_same_seed_draws_another_subset_than_it_holds_out(tmp_path: Path) -> None:
    """Else a training on a subset would lose its queries to those held out."""
    queries = queries_file(tmp_path, [f"q{number}" for number in range(200)])
    write_subset(queries, tmp_path / "subset", count=50, seed=1)
    write_held_out(queries, tmp_path / "held_out", subset=None, share=0.25, least=1, most=99, seed=1)
    shared = read_subset(tmp_path / "subset") & read_subset(tmp_path / "held_out")
    assert len(shared) < 25  # 12.5 by chance


def test_of_a_subset_only_its_own_queries_are_held_out_and_another_seed_draws_others(tmp_path: Path) -> None:
    ids = [f"q{number}" for number in range(200)]
    queries, subset = queries_file(tmp_path, ids), tmp_path / "subset.txt"
    write_subset(queries, subset, count=100, seed=1)
    drawn_by_seed = []
    for seed in (1, 2):
        output = tmp_path / f"{seed}.txt"
        counts = write_held_out(queries, output, subset=subset, share=0.3, least=1, most=99, seed=seed)
        assert counts == {"queries": 30, "of": 100}
        drawn_by_seed.append(read_subset(output))
        assert drawn_by_seed[-1] < read_subset(subset)
    assert drawn_by_seed[0] != drawn_by_seed[1]
