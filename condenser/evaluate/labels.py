"""How many labels a system needs, read off a table of several train sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from condenser.evaluate.significance import summaries


def label_lines(
    rows: Sequence[Mapping[str, Any]],
    values: Sequence[Float64[np.ndarray, "_ query"]],
    *,
    measure: str,
    significance: Mapping[str, Any],
) -> list[str]:
    """A line for each system with several train sizes: from which size it is worth its labels, and to which.

    Each size is compared with every smaller one, and with the best row that needs no label; Holm's correction
    is over the comparisons of the system. A size is too small if a larger one is shown to beat it, or to beat
    one between them that is as good: with few labels the draws vary too much for one test to be significant.

    Args:
        rows: as `condenser.shown.table_rows` gives them.
        values: of a measure in each row, by seed and query.
        significance: further arguments of `summaries`.
    """
    by_system: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        by_system.setdefault(row["system"], []).append(number)
    without = [
        numbers[0] for numbers in by_system.values() if len(numbers) == 1 and not _has_size(rows[numbers[0]])
    ]
    best = max(without, key=lambda number: values[number].mean(), default=None)
    lines = []
    for numbers in by_system.values():
        if len(numbers) < 2:
            continue
        ordered = sorted(numbers, key=lambda number: _size(rows[number]))
        pairs = [
            (larger, smaller) for place, smaller in enumerate(ordered) for larger in ordered[place + 1 :]
        ]
        pairs += [(number, best) for number in ordered] if best is not None else []
        _, comparisons = summaries(dict(enumerate(values)), pairs, ends=(0.0, 1.0), **significance)
        is_better = {pair: comparison.verdict == "better" for pair, comparison in comparisons.items()}
        means = {number: values[number].mean() for number in ordered}
        beaten = [
            number
            for place, number in enumerate(ordered)
            if any(is_better[larger, number] for larger in ordered[place + 1 :])
        ]
        enough = next(
            number
            for place, number in enumerate(ordered)
            if not any(other in ordered[place:] and means[other] >= means[number] for other in beaten)
        )
        said = f"more than {_said(rows[enough])} add nothing that these queries show"
        if enough == ordered[-1]:
            said = f"{_said(rows[enough])}, the most tried, are not shown to be enough"
        if best is not None:
            first = next((number for number in ordered if is_better[number, best]), None)
            worth = "not shown to be" if first is None else f"from {_said(rows[first])} on"
            said += f"; {worth} better than {rows[best]['method']}, the best without labels"
        lines.append(f"{rows[numbers[0]]['method']}: {said} ({measure}).")
    return lines


def _size(row: Mapping[str, Any]) -> float:
    return float("inf") if row["train_queries"] == "all" else row["train_queries"]


def _said(row: Mapping[str, Any]) -> str:
    size = row["train_queries"]
    return "all train queries" if size == "all" else f"{size:,} train queries"


def _has_size(row: Mapping[str, Any]) -> bool:
    return any(variant.startswith("n") for variant in row["variants"])
