"""A table's measures against a number that the configuration gives for each row, such as tokens read.

Ours: what the papers' claims need and their figures do not show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from condenser.evaluate.figures import measured_rows
from condenser.nouns import FigureOfMeasures
from condenser.settings import Name, Positive

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

READS = "table"


class Settings(FigureOfMeasures):
    """What the numbers are, `x`, and for each line the systems on it with their numbers."""

    x: str  # what the numbers are, the label of the axis
    # by line, the systems on it and their numbers
    lines: Annotated[dict[str, dict[Name, Positive]], Field(min_length=1)]

    @property
    def systems_of_lines(self) -> dict[str, Mapping[str, float]]:
        return dict(self.lines)

    def texts(self) -> list[tuple[str, str]]:
        return [*super().texts(), ("x", self.x)]


def table(settings: Any, files: Sequence[Path], *, significance: Mapping[str, Any]) -> pd.DataFrame:
    """A line for each measure, curve, train size and system, with its number `x` and the table's cells.

    Args:
        files: the table, and the counts of the collection, which are not read.

    Raises:
        ValueError: the table has no measured row of a system, or lacks a measure.
    """
    import pandas as pd

    file, _ = files
    shown, measures = measured_rows(file, settings)
    methods = {row["system"]: row["method"] for row in settings.rows}
    lines = []
    for measure in measures:
        for title, systems in settings.lines.items():
            for system, number in systems.items():
                found = shown[shown["method"] == methods.get(system)]
                if found.empty:
                    raise ValueError(
                        f"{file}: expected a measured row of {system}, got none. "
                        "Add it to the table's rows, or remove it from the figure's lines."
                    )
                lines += [
                    {
                        "measure": measure,
                        "line": title,
                        "train_queries": row.get("train_queries", "all"),
                        "method": row["method"],
                        "x": number,
                        "value": row[measure],
                        "low": row[f"{measure}_low"],
                        "high": row[f"{measure}_high"],
                        "seeds": row["seeds"],
                        "collection": row["collection"],
                    }
                    for row in found.to_dict("records")
                ]
    frame = pd.DataFrame(lines)
    numbers = ["value", "low", "high"]
    return frame.assign(**frame[numbers].apply(pd.to_numeric))


def picture(frame: pd.DataFrame, settings: Any) -> Picture:
    """A panel for each measure and train size, and a curve for each line, with the table's intervals."""
    from matplotlib.ticker import NullLocator

    from condenser.evaluate.figures._drawing import draw_line, legend, panels, styles

    sizes = dict.fromkeys(zip(frame["measure"], frame["train_queries"], strict=True))
    drawn, axes = panels(
        [measure if size == "all" else f"{measure}, {size} train queries" for measure, size in sizes],
        title=f"Quality by {settings.x}, {frame['collection'].iloc[0]}",
        x=f"{settings.x} (log scale)",
        y="mean and interval",
        share_y=False,
    )
    titles = list(dict.fromkeys(frame["line"]))
    looks = styles(len(titles))
    for axis, (measure, size) in zip(axes, sizes, strict=True):
        axis.set_xscale("log")
        of_panel = frame[(frame["measure"] == measure) & (frame["train_queries"] == size)]
        for number, (title, look) in enumerate(zip(titles, looks, strict=True)):
            line = of_panel[of_panel["line"] == title]
            draw_line(axis, line, "x", number=number, count=len(titles), label=title, **look)
        ticks = sorted(set(of_panel["x"]))
        axis.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks])
        axis.xaxis.set_minor_locator(NullLocator())
    legend(drawn, axes)
    return drawn
