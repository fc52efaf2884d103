"""The choice between models without judgements."""

from __future__ import annotations

from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from condenser.data.records import Query, ScoredDoc, write_queries, write_run
from condenser.evaluate.choice import ALL, Decision, decide, evidence, known_items, picture, values_of_runs
from condenser.evaluate.figures._drawing import svg

SIGNIFICANCE: dict[str, Any] = {"confidence": 0.95, "power": 0.8, "permutations": 2000, "seed": 1}


def decided(
    values: dict[str, np.ndarray], *, least_queries: int = 100, least_gain: float = 0.01, **changes: Any
) -> Decision:
    significance = SIGNIFICANCE | changes
    return decide(values, least_queries=least_queries, least_gain=least_gain, significance=significance)


def draws(*gains: float, queries: int = 200, seed: int = 0) -> np.ndarray:
    """Values of a start and of candidates that gain so much in the mean, with some noise for each query."""
    generator = np.random.default_rng(seed)
    start = generator.uniform(0.3, 0.6, size=queries)
    noise = generator.normal(0, 0.05, size=(len(gains), queries))
    noise -= noise.mean(axis=1, keepdims=True)
    return np.stack([start, *(start + gain + of_one for gain, of_one in zip(gains, noise, strict=True))])


def test_the_item_to_find_is_the_passage_or_its_document(tmp_path: Path) -> None:
    write_queries(tmp_path / "q.jsonl", [Query("d#1", "a"), Query("e#2", "b")])
    assert known_items(tmp_path / "q.jsonl", is_split=False) == {"d#1": {"d#1": 1}, "e#2": {"e#2": 1}}
    assert known_items(tmp_path / "q.jsonl", is_split=True) == {"d#1": {"d": 1}, "e#2": {"e": 1}}


def test_a_run_is_measured_by_where_it_has_the_item(tmp_path: Path) -> None:
    runs = {
        "first": [("a", ["a", "b"]), ("b", ["a", "b"]), ("c", ["a"])],
        "second": [("b", ["b"]), ("c", ["a", "b"])],  # lacks the query a
    }
    for name, found in runs.items():
        hits = (ScoredDoc(query, doc, -rank) for query, docs in found for rank, doc in enumerate(docs))
        write_run(tmp_path / name, hits, system=name)
    items = {name: {name: 1} for name in "abc"}
    values = values_of_runs([tmp_path / name for name in runs], items, measure="nDCG@10")
    np.testing.assert_allclose(values, [[1, 1 / log2(3), 0], [0, 1, 0]])


@pytest.mark.parametrize(
    ("gains", "chosen"),
    [
        ((0.03, 0.05), 2),  # the larger of two gains
        ((-0.03, 0.02), 2),
        ((0.001, -0.02), 0),  # a gain that is not shown, and a loss
        ((0.009,), 0),  # shown, and too small
    ],
)
def test_the_largest_gain_that_is_shown_is_taken(gains: tuple[float, ...], chosen: int) -> None:
    decision = decided({"one": draws(*gains)})
    assert decision.chosen == chosen
    for comparison, gain in zip(decision.comparisons[ALL], gains, strict=True):
        assert comparison.difference == pytest.approx(gain)


@pytest.mark.parametrize(("least_gain", "chosen"), [(0.25, 1), (np.nextafter(0.25, 1), 0)])
def test_a_gain_as_large_as_the_least_is_large_enough(least_gain: float, chosen: int) -> None:
    values = np.full((2, 100), 0.5)
    values[1] += 0.25
    assert decided({"one": values}, least_gain=least_gain).chosen == chosen


@pytest.mark.parametrize("in_two", [-0.04, 0.005])  # a loss, and a gain that is too small
def test_a_candidate_must_gain_in_each_set_of_queries(in_two: float) -> None:
    values = {"one": draws(0.10, 0.02, queries=300), "two": draws(in_two, 0.02, queries=300, seed=1)}
    decision = decided(values)
    assert decision.chosen == 2
    frame = evidence(decision, values, ["start", "harmful", "modest"], least_gain=0.01)
    of_all = frame[frame["queries"] == ALL].set_index("candidate")
    assert of_all["decision"].to_dict() == {"harmful": "keep the start", "modest": "adopt"}
    assert of_all["gain"].to_dict() == pytest.approx({"harmful": (0.1 + in_two) / 2, "modest": 0.02})
    alone = {name: of_set[:2] for name, of_set in values.items()}
    decision = decided(alone)
    assert (decision.chosen, decision.reason[:26]) == (0, "A gain over the start is s")


def test_a_small_set_is_left_out_and_without_any_other_the_start_is_kept() -> None:
    values = {"small": draws(0.3, queries=99), "large": draws(-0.01, queries=100)}
    decision, names = decided(values), ["start", "other"]
    assert (decision.chosen, decision.left_out) == (0, {"small": 99})
    frame = evidence(decision, values, names, least_gain=0.01)
    assert frame["queries"].tolist() == [ALL, "large", "small"]
    assert frame["decision"].tolist()[::2] == ["keep the start", "left out"]
    decision = decided({"small": values["small"]})
    assert (decision.chosen, decision.comparisons) == (0, {})
    assert evidence(decision, values, names, least_gain=0.01)["decision"].tolist() == ["left out"]


def test_a_picture_has_a_panel_for_each_set_and_is_drawn_without_any() -> None:
    values = {"titles": draws(0.02, -0.02), "small": draws(0.1, 0.1, queries=20)}
    values["titles"][2] = values["titles"][0]  # the same rankings
    names = ["start", "better one", "as good"]
    for least, panels in ((100, 2), (1000, 0)):
        decision = decided(values, least_queries=least)
        frame = evidence(decision, values, names, least_gain=0.01)
        told = {"title": "chosen", "start": "start", "measure": "MRR@10", "confidence": 0.95}
        assert len(picture(frame, **told).axes) == panels
        assert svg(lambda frame=frame, told=told: picture(frame, **told)).startswith(b"<?xml")
