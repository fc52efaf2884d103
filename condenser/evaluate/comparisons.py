"""The uncertainty of a table: an interval for each cell, and tests of its rows against each other.

`measure_columns` computes both. `<table>.tsv` shows the intervals and the test of each row against its start
(`condenser.evaluate.tables`); `<table>.tests.tsv` shows all tests (`make_comparisons`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64

from condenser.evaluate.columns import Column, Place, places
from condenser.evaluate.measures import parse
from condenser.evaluate.significance import Cell, Comparison, summaries
from condenser.files import read_json

_COLUMNS = {  # of `<table>.tests.tsv`; docs/reading.md explains them
    **{"row": "str", "compared_with": "str", "measure": "str"},
    **{"row_mean": "Float64", "compared_with_mean": "Float64"},
    **{"difference": "Float64", "difference_low": "Float64", "difference_high": "Float64"},
    **{"p_value": "str", "holm_p_value": "str", "verdict": "str"},
    **{"smallest_detectable_difference": "Float64", "test": "str"},
    **{"row_seeds": "str", "compared_with_seeds": "str", "queries": "int64"},
}


Metrics = Mapping[Place, Mapping[tuple[str, str], Mapping[str, Any]]]  # of files, by system and variant


@dataclass(frozen=True, slots=True)
class Measured:
    """The statistics of one column: a cell for each row, and comparisons by the numbers of two rows."""

    cells: list[Cell]
    comparisons: dict[tuple[int, int], Comparison]
    num_queries: int


def read_metrics(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], files: Sequence[Path]
) -> Metrics:
    """The content of the metrics files, by place, then by system and variant.

    Nothing where there are no files: a collection without judged queries.
    """
    names = [(row["system"], variant) for row in rows for variant in row["variants"]]
    metrics: dict[Place, dict[tuple[str, str], dict[str, Any]]] = {}
    for (place, name), file in zip(product(places(columns), names) if files else (), files, strict=True):
        metrics.setdefault(place, {})[name] = read_json(file)
    return metrics


def measure_columns(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    pairs: Sequence[Sequence[int]],
    metrics: Metrics,
    *,
    significance: Mapping[str, Any],
) -> dict[str, Measured]:
    """All intervals and comparisons of a table, by column. NaN and no comparisons where nothing is judged.

    Args:
        rows: as `condenser.shown.table_rows` gives them.
        pairs: numbers of the rows that are compared, the reference second.
        metrics: from `read_metrics`.
        significance: further arguments of `summaries`.
    """
    nothing = Measured([Cell(*[math.nan] * 3)] * len(rows), {}, 0)
    by_column: dict[str, Measured] = {}
    for column in columns:
        values = values_of_rows(rows, column, metrics) if column.place in metrics else []
        if not values or not values[0].size:
            by_column[column.name] = nothing
            continue
        cells, comparisons = summaries(
            dict(enumerate(values)),
            [(number, reference) for number, reference in pairs],
            ends=(parse(column.measure).least, 1.0),
            **significance,
        )
        by_column[column.name] = Measured([*cells.values()], comparisons, values[0].shape[1])
    return by_column


def values_of_rows(
    rows: Sequence[Mapping[str, Any]], column: Column, metrics: Metrics
) -> list[Float64[np.ndarray, "_ query"]]:
    """The values of each row in a column, by variant and query."""
    at_place = metrics[column.place]
    return [
        np.array(
            [at_place[row["system"], variant]["per_query"][column.measure] for variant in row["variants"]],
            dtype=np.float64,
        )
        for row in rows
    ]


def make_comparisons(rows: Sequence[Mapping[str, Any]], by_column: Mapping[str, Measured]) -> pd.DataFrame:
    """A line for each column and comparison, in that order; as in docs/reading.md.

    Args:
        rows: as `condenser.shown.table_rows` gives them.
        by_column: of each column, from `measure_columns`.
    """
    names = row_names(rows)
    lines = [
        {
            "row": names[number],
            "compared_with": names[reference],
            "measure": measure,
            "row_mean": of_measure.cells[number].mean,
            "compared_with_mean": of_measure.cells[reference].mean,
            "difference": comparison.difference,
            "difference_low": comparison.low,
            "difference_high": comparison.high,
            "p_value": written_p_value(comparison.p_value),
            "holm_p_value": written_p_value(comparison.holm_p_value),
            "verdict": comparison.verdict,
            "smallest_detectable_difference": comparison.detectable_difference,
            "test": comparison.test,
            "row_seeds": seeds_of(rows[number]),
            "compared_with_seeds": seeds_of(rows[reference]),
            "queries": of_measure.num_queries,
        }
        for measure, of_measure in by_column.items()
        for (number, reference), comparison in of_measure.comparisons.items()
    ]
    return pd.DataFrame(lines, columns=list(_COLUMNS)).astype(_COLUMNS)


def interval_notes(comparisons: Iterable[tuple[str, float, float]]) -> list[str]:
    """Why an interval and a verdict can contradict each other, where they do; verdict, low and high."""
    has_zero = [(verdict, not (low > 0 or high < 0)) for verdict, low, high in comparisons]  # NaN: none
    notes: list[str] = []
    if ("no difference shown", False) in has_zero:
        notes.append(
            'An interval of a difference may leave out 0 beside "no difference shown": it is of one '
            "comparison alone, and the verdict is corrected for all comparisons of the table (Holm)."
        )
    if ("better", True) in has_zero or ("worse", True) in has_zero:
        notes.append(
            'An interval of a difference may hold 0 beside "better" or "worse": it also allows for queries '
            "unlike those measured, and the verdict is by a test that does not."
        )
    return notes


def render_comparisons(frame: pd.DataFrame) -> str:
    """The lines of `make_comparisons` as text for the terminal, without what is in the file alone."""
    blocks: list[str] = []
    for (measure, reference), lines in frame.groupby(["measure", "compared_with"], sort=False):
        limits = zip(lines["difference"], lines["difference_low"], lines["difference_high"], strict=True)
        columns: dict[str, Iterable[str]] = {
            f"{measure}, compared with: {reference}": lines["row"],
            "difference": [
                f"{difference:+.4f} [{low:+.3f}, {high:+.3f}]" for difference, low, high in limits
            ],
            **{"p (Holm)": lines["holm_p_value"], "verdict": lines["verdict"]},
        }
        blocks.append("\n".join(align_columns({header: [*cells] for header, cells in columns.items()})))
    of_tests = frame[["verdict", "difference_low", "difference_high"]]
    blocks += interval_notes(of_tests.itertuples(index=False, name=None))
    if frame["smallest_detectable_difference"].isna().any():
        blocks.append(
            "smallest_detectable_difference is empty where it would be more than the measure can reach."
        )
    return "\n\n".join(blocks) or "Nothing to compare."


def align_columns(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """A line for the headers and a line for each row, columns two spaces apart.

    >>> align_columns({"row": ["BM25", "ours"], "p": ["-", "0.1"]})
    ['row   p', 'BM25  -', 'ours  0.1']
    """
    padded = [
        [text.ljust(max(map(len, [header, *cells]))) for text in [header, *cells]]
        for header, cells in columns.items()
    ]
    return ["  ".join(line).rstrip() for line in zip(*padded, strict=True)]


def row_names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What each row is called: its method, with the number of train queries where these vary."""
    sizes: dict[str, set[Any]] = {}
    for row in rows:
        sizes.setdefault(row["system"], set()).add(row["train_queries"])
    return [
        row["method"]
        if sizes[row["system"]] == {"all"}
        else f"{row['method']}, {row['train_queries']} train queries"
        for row in rows
    ]


def seeds_of(row: Mapping[str, Any]) -> str | None:
    """The seeds of a row's variants, such as "1,2,3"; None where it has none."""
    seeds = [variant.partition("seed")[2] for variant in row["variants"]]
    return ",".join(seed for seed in seeds if seed) or None


def written_p_value(p_value: float) -> str:
    """A p-value with four decimals, or where that would be 0.0000, with its power of ten.

    >>> written_p_value(0.0312), written_p_value(2.5e-8)
    ('0.0312', '2.5e-08')
    """
    return f"{p_value:.4f}" if p_value >= 1e-4 or p_value == 0 else f"{p_value:.1e}"
