"""What more labels bring, read off a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from condenser.evaluate.labels import label_lines

SIGNIFICANCE = {"confidence": 0.95, "power": 0.8, "permutations": 1000, "seed": 1}


def row(system: str, size: int | str, variants: list[str]) -> dict[str, Any]:
    return {"system": system, "method": system.upper(), "train_queries": size, "variants": variants}


def table(gains: dict[int | str, float], free: float) -> tuple[list[dict[str, Any]], list[np.ndarray]]:
    """A row without labels, a worse one, and one of each size: the mean of a size is .4 and its gain."""
    noise = np.random.default_rng(7).normal(0, 0.01, (8, 400))
    sized = [row("ours", size, ["seed1"] if size == "all" else [f"n{size}-seed1"]) for size in gains]
    rows = [row("bm25", "all", ["untrained"]), row("hybrid", "all", ["untrained"]), *sized]
    means = [0.2, free, *(0.4 + gain for gain in gains.values())]
    return rows, [mean + noise[number][None] for number, mean in enumerate(means)]


@pytest.mark.parametrize(
    ("gains", "free", "enough", "worth"),
    [
        ({"all": 0.2, 20: 0.0, 100: 0.2}, 0.5, 100, "from 100 train queries on"),  # in any order
        ({20: 0.0, 1000: 0.0}, 0.9, 20, "not shown to be"),
        ({20: 0.3, 100: 0.1, "all": 0.2}, 0.41, 20, "from 20 train queries on"),  # fewer are best
        ({20: 0.1, 1000: 0.3}, 0.41, None, "from 20 train queries on"),
    ],
)
def test_the_line_says_how_many_labels_are_enough_and_from_how_many_they_are_worth_it(
    gains: dict[int | str, float], free: float, enough: int | None, worth: str
) -> None:
    rows, values = table(gains, free)
    said = f"more than {enough} train queries add nothing that these queries show"
    if enough is None:
        said = "1,000 train queries, the most tried, are not shown to be enough"
    assert label_lines(rows, values, measure="MRR@10", significance=SIGNIFICANCE) == [
        f"OURS: {said}; {worth} better than HYBRID, the best without labels (MRR@10)."
    ]


def test_draws_that_differ_do_not_make_a_size_enough() -> None:
    rows, values = table({20: 0.0, 100: 0.0, 1000: 0.2}, 0.41)
    draws = np.array([[-0.2], [0.0], [0.15]])  # 20 queries: alone not shown to be worse
    values[2:] = [values[2] + draws, values[3] + 0.1 * draws, values[4] + 0.1 * draws]
    (line,) = label_lines(rows, values, measure="MRR@10", significance=SIGNIFICANCE)
    assert line.startswith("OURS: 1,000 train queries, the most tried, are not shown to be enough")


def test_a_table_of_one_size_has_no_such_line() -> None:
    rows, values = table({100: 0.1}, 0.5)
    assert label_lines(rows, values, measure="MRR@10", significance=SIGNIFICANCE) == []
