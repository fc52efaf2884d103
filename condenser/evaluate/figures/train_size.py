"""Quality against the number of train queries.

Source: the first version of Condenser, Figures 2 to 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from condenser.evaluate.figures import measured_rows
from condenser.nouns import FigureOfMeasures

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

READS = "table"


class Settings(FigureOfMeasures):
    """The `table` that has a row for each train size."""


def table(settings: Any, files: Sequence[Path], *, significance: Mapping[str, Any]) -> pd.DataFrame:
    """A line for each measure, system and train size, as in the table; `queries` is the size as a number.

    `queries` is empty of a system that no train query reaches. `drop` is what the row loses against the same
    system's row of the most train queries, as a share of that row's value; empty where
    that is 0.

    Args:
        files: the table, and the counts of the collection.

    Raises:
        ValueError: the table has no measured rows, or lacks a measure; or it has a row of all train queries,
            and the counts do not say how many those are.
    """
    import pandas as pd

    from condenser.data.canonical import count_judged
    from condenser.files import read_json

    file, counts = files
    shown, measures = measured_rows(file, settings)
    if shown.empty:
        raise ValueError(f"{file}: expected measured rows, got none. Take a data set with judged queries.")
    of_split = count_judged(read_json(counts)).get(settings.train_split)
    has_sizes = {row["method"]: row["has_sizes"] for row in settings.rows}
    lines = []
    for measure in measures:
        for row in shown.to_dict("records"):
            size = row.get("train_queries", "all")
            number = of_split if size == "all" else int(size)
            if number is None and has_sizes[row["method"]]:
                raise ValueError(
                    f"{counts}: expected the number of queries of {settings.train_split}, got none. "
                    "Give the table numbers as train_queries."
                )
            lines.append(
                {
                    "measure": measure,
                    "method": row["method"],
                    "train_queries": size if has_sizes[row["method"]] else "",
                    "queries": number if has_sizes[row["method"]] else None,
                    "value": row[measure],
                    "sd": row.get(f"{measure}_sd", ""),
                    "low": row[f"{measure}_low"],
                    "high": row[f"{measure}_high"],
                    "seeds": row["seeds"],
                    "collection": row["collection"],
                }
            )
    frame = pd.DataFrame(lines)
    frame["queries"] = pd.to_numeric(frame["queries"]).astype("Int64")
    for column in ("value", "sd", "low", "high"):
        frame[column] = pd.to_numeric(frame[column]).astype("Float64")
    of_systems = frame.sort_values("queries").groupby(["measure", "method"], sort=False)
    most = of_systems["value"].transform("last")
    drop = ((most - frame["value"]) / most).where(frame["queries"].notna() & (most > 0))
    frame.insert(frame.columns.tolist().index("sd"), "drop", drop)
    return frame


def picture(frame: pd.DataFrame, settings: Any) -> Picture:
    """A panel for each measure and a line for each system, with the intervals of the table."""
    from matplotlib.ticker import NullLocator

    from condenser.evaluate.figures._drawing import draw_line, legend, panels, styles

    titles = list(dict.fromkeys(frame["measure"]))
    drawn, axes = panels(
        titles,
        title=f"Quality by train size, {frame['collection'].iloc[0]}",
        x="train queries (log scale)",
        y="mean and interval",
        share_y=False,
    )
    methods = list(dict.fromkeys(frame["method"]))
    looks = dict(zip(methods, styles(len(methods)), strict=True))
    sized = [method for method in methods if frame.loc[frame["method"] == method, "queries"].notna().any()]
    for axis, measure in zip(axes, titles, strict=True):
        of_panel = frame[frame["measure"] == measure]
        axis.set_xscale("log")
        for method, look in looks.items():
            line, look = of_panel[of_panel["method"] == method], {"label": method, **look}
            if method in sized:
                number = sized.index(method)
                draw_line(axis, line, "queries", number=number, count=len(sized), **look)
            else:
                axis.axhline(line["value"].iloc[0], **{**look, "marker": "", "lw": 1.0})
        sizes = of_panel.dropna(subset="queries").drop_duplicates("queries").sort_values("queries")
        names = [
            f"{queries:,}" + ("\n(all)" if name == "all" else "")
            for queries, name in zip(sizes["queries"], sizes["train_queries"], strict=True)
        ]
        axis.set_xticks(sizes["queries"].astype(float).tolist(), names)
        axis.xaxis.set_minor_locator(NullLocator())
    legend(drawn, axes)
    return drawn
