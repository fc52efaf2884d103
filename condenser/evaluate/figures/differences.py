"""Differences between the rows of a table, with their intervals: what is better, what is not shown to be.

A forest plot, as in reports of clinical trials (Lewis and Clarke 2001).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from condenser.nouns import FigureOfMeasures

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

READS = "tests"

_COLUMNS = [
    *("measure", "compared_with", "row", "difference", "difference_low", "difference_high"),
    *("holm_p_value", "verdict", "row_seeds", "compared_with_seeds", "queries"),
]


class Settings(FigureOfMeasures):
    """The `table` whose tests are drawn."""


def table(settings: Any, files: Sequence[Path], *, significance: Mapping[str, Any]) -> pd.DataFrame:
    """The lines of `<table>.tests.tsv` with these measures; the level of the intervals is `confidence`.

    Raises:
        ValueError: there is nothing to compare, or a measure is not there.
    """
    import pandas as pd

    (file,) = files
    as_written = dict.fromkeys(("holm_p_value", "row_seeds", "compared_with_seeds"), str)
    tests = pd.read_csv(file, sep="\t", dtype=as_written)
    if tests.empty:
        raise ValueError(f"{file}: expected comparisons, got none. Give the table compare_with.")
    known = tests["measure"].unique().tolist()
    for measure in settings.measures or []:
        if measure not in known:
            raise ValueError(f"{file}: expected one of its measures, {', '.join(known)}, got {measure}.")
    shown = tests[tests["measure"].isin(settings.measures or known)]
    frame = shown[_COLUMNS].reset_index(drop=True)
    return frame.assign(confidence=significance["confidence"], collection=settings.collection)


def picture(frame: pd.DataFrame, settings: Any) -> Picture:
    """A column of panels for each measure, a row of panels for each row that others are compared with."""
    from matplotlib.figure import Figure as Picture

    from condenser.evaluate.figures._drawing import draw_verdicts, legend_of_verdicts

    measures, groups = frame["measure"].unique(), frame.groupby("compared_with", sort=False)
    rows_of = {str(reference): lines["row"].unique().tolist() for reference, lines in groups}
    heights = [len(rows) + 3 for rows in rows_of.values()]
    drawn = Picture(figsize=(3.0 + 2.2 * len(measures), 1.2 + 0.24 * sum(heights)), layout="constrained")
    grid = drawn.subplots(len(rows_of), len(measures), squeeze=False, sharey="row", height_ratios=heights)
    drawn.suptitle(f"Differences in {settings.table}, {frame['collection'].iloc[0]}")
    for axes, (reference, rows) in zip(grid, rows_of.items(), strict=True):
        labels = axes[0].set_yticks(range(-1, len(rows)), [f"against {reference}", *rows])
        labels[0].label1.set_style("italic")
        axes[0].set_ylim(len(rows) - 0.5, -1.5)  # from the top, in the order of the table
        for axis, measure in zip(axes, measures, strict=True):
            shown = frame[(frame["compared_with"] == reference) & (frame["measure"] == measure)]
            limits = (shown[f"difference{end}"].astype(float) for end in ("", "_low", "_high"))
            points = zip(*limits, map(rows.index, shown["row"]), shown["verdict"], strict=True)
            draw_verdicts(axis, points, title=measure)
    for axis in grid[-1]:
        axis.set_xlabel(f"difference, {100 * frame['confidence'].iloc[0]:g} % interval")
    legend_of_verdicts(drawn)
    return drawn
