"""What counts as the same ranking, by hand; and what a library that differs is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from condenser.export.agreement import Found, _likeness, _vectors, refuse_disagreement

# Two queries, five passages: passages 1 and 2 score the same for both.
QUERIES = np.array([[1.0, 0.0], [0.0, 2.0]], np.float32)
PASSAGES = np.array([[0.9, 0.1], [0.5, 0.5], [0.5, 0.5], [0.1, 0.9], [0.0, 0.0]], np.float32)
TRUTH = Found(np.array([[0, 1, 2], [3, 1, 2]]), np.array([[0.9, 0.5, 0.5], [1.8, 1.0, 1.0]], np.float32))


def likeness(rows: Any, scores: Any = None) -> dict[str, Any]:
    found = np.array(rows)
    given = TRUTH.scores if scores is None else np.array(scores, np.float32)
    return _likeness(TRUTH, Found(found, given), QUERIES, PASSAGES)


def test_the_same_is_the_same() -> None:
    assert likeness(TRUTH.rows) == {"same": 1.0, "same_order": 1.0, "largest_difference": 0.0}


def test_passages_of_one_score_may_change_places_and_no_others() -> None:
    assert likeness([[0, 2, 1], [3, 1, 2]]) == {"same": 1.0, "same_order": 0.5, "largest_difference": 0.0}
    assert likeness([[1, 0, 2], [3, 1, 2]])["same"] == 0.5
    assert likeness([[0, 1, 4], [3, 1, 4]])["same"] == 0.0


def test_a_passage_twice_is_not_the_same() -> None:
    assert likeness([[0, 1, 1], [3, 1, 2]])["same"] == 0.5


def test_the_difference_of_scores_is_a_part_of_those_above_one() -> None:
    assert likeness(TRUTH.rows, [[0.9, 0.52, 0.5], [1.8, 1.0, 1.0]])["largest_difference"] == 0.02
    assert likeness(TRUTH.rows, [[0.9, 0.5, 0.5], [1.98, 1.0, 1.0]])["largest_difference"] == 0.1


def test_vectors_of_shards_are_those_of_the_whole() -> None:
    rows = np.array([[4, 0], [2, 3]])
    shards = [PASSAGES[:3], PASSAGES[3:]]
    assert np.array_equal(_vectors(shards, rows), PASSAGES[rows])


@pytest.mark.parametrize(
    ("same", "difference", "passes"),
    [(1.0, 1e-5, True), (0.999, 1e-4, True), (0.998, 0.0, False), (1.0, 2e-4, False), (1.0, np.nan, False)],
)
def test_a_library_that_ranks_otherwise_is_refused_in_one_line(
    same: float, difference: float, passes: bool
) -> None:
    result = {
        "queries": 2000,
        "libraries": {"pyserini": {"version": "1.6.0", "same": same, "largest_difference": difference}},
    }
    if passes:
        refuse_disagreement(result)
        return
    with pytest.raises(ValueError, match=r"pyserini 1\.6\.0: expected the first 10 passages") as said:
        refuse_disagreement(result)
    assert "\n" not in str(said.value)
