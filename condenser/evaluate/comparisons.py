"""How sure a table is: an interval of every cell, and paired tests against the table's first row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from condenser.evaluate.significance import Values, summaries
from condenser.files import read_json

ALPHA = 0.05  # intervals of 95 %, tests of level 5 %
POWER = 0.8  # the usual chance to find the smallest detectable difference
RESAMPLES = PERMUTATIONS = 10_000
SEED = 42  # of the resamples and permutations; no seed of a training

_NUMBERS = ["mean", "sd", "low", "high", "difference", "p_value", "holm_p_value", "detectable_difference"]
_COLUMNS = ["measure", "method", "train_queries", "num_seeds", *_NUMBERS[:4], "against", *_NUMBERS[4:]]


def make_comparisons(
    rows: Sequence[Mapping[str, Any]], metrics: Mapping[tuple[str, str], Path], *, measures: Sequence[str]
) -> pd.DataFrame:
    """A line for each measure and row, in that order; columns as in docs/significance.md.

    Args:
        rows: as `condenser.experiment.table_rows` gives them; the first is the reference of all tests.
        metrics: the metrics file of each (system, variant).

    Raises:
        ValueError: a file lacks a measure, or the systems were measured on different queries.
    """
    per_query = {key: read_json(file)["per_query"] for key, file in metrics.items()}
    names = [f"{row['system']}, {row['train_queries']} train queries" for row in rows]
    lines: list[dict[str, Any]] = []
    for measure in measures:
        values = {
            name: _values(row, per_query, metrics, measure) for name, row in zip(names, rows, strict=True)
        }
        found = summaries(
            values,
            names[0],
            alpha=ALPHA,
            power=POWER,
            num_resamples=RESAMPLES,
            num_permutations=PERMUTATIONS,
            seed=SEED,
        )
        for index, (name, row) in enumerate(zip(names, rows, strict=True)):
            one = found[name]
            lines.append(
                {
                    "measure": measure,
                    "method": row["method"],
                    "train_queries": row["train_queries"],
                    "num_seeds": len(values[name]),
                    "against": rows[0]["method"] if index else None,
                    **{key: getattr(one, key) for key in _NUMBERS if key != "difference"},
                    "difference": one.mean - found[names[0]].mean if index else None,
                }
            )
    return pd.DataFrame(lines, columns=_COLUMNS).astype(dict.fromkeys(_NUMBERS, "float64"))


def _values(
    row: Mapping[str, Any],
    per_query: Mapping[tuple[str, str], Mapping[str, list]],
    metrics: Mapping[tuple[str, str], Path],
    measure: str,
) -> Values:
    """A measure of one row's variants, the queries in the order of the first file."""
    expected = next(iter(per_query.values()))["query_id"]
    columns: list[list[float]] = []
    for variant in row["variants"]:
        key = row["system"], variant
        found = per_query[key]
        if measure not in found:
            raise ValueError(f"{metrics[key]}: expected {measure}, got none. Add it to metrics.measures.")
        if found["query_id"] != expected:
            raise ValueError(
                f"{metrics[key]}: expected the judged queries of {next(iter(metrics.values()))}, got others."
            )
        columns.append(found[measure])
    return np.array(columns, dtype=np.float64)
