"""Training loss of fine-tuning, by the model that it starts from.

Source: the first version of Condenser, Figure 5: the loss of the first epochs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from condenser.evaluate.figures import by_row
from condenser.nouns import FigureOfTable
from condenser.settings import Count

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

READS = "variants"


class Settings(FigureOfTable):
    """The `table` whose systems are shown, the first `epochs`, and the `updates` whose mean is a point."""

    epochs: Count  # that are shown
    updates: Count  # whose mean is a point
    log_axis: bool = False  # of the losses


def file_of(settings: Any, row: Mapping[str, Any]) -> str | None:
    """The losses of the fine-tuning; none of a system without one."""
    return "model/losses.jsonl" if row["is_trained"] else None


def table(settings: Any, files: Sequence[Path], *, significance: Mapping[str, Any]) -> pd.DataFrame:
    """A line for each system, train size and point: the mean over the seeds of the mean over some updates.

    `updates` is the last update of a point, `sd` the standard deviation over the seeds.

    Raises:
        ValueError: a file has no updates.
    """
    import pandas as pd

    from condenser.evaluate.comparisons import seeds_of

    lines = []
    for row, variants in by_row(settings, files):
        curves = [_points(file, epochs=settings.epochs, size=settings.updates) for _, file in variants]
        for number in range(max(map(len, curves))):
            of_seeds = [curve[number] for curve in curves if number < len(curve)]
            losses = pd.Series([loss for _, loss in of_seeds])
            lines.append(
                {
                    "method": row["method"],
                    "train_queries": str(row["train_queries"]),
                    "updates": max(update for update, _ in of_seeds),
                    "loss": losses.mean(),
                    "sd": losses.std(),
                    "trainings": len(losses),
                    "backbone": row["backbone"],
                    "seeds": seeds_of(row),
                    "collection": settings.collection,
                }
            )
    if not lines:
        raise ValueError(f"tables.{settings.table}: expected a row that is fine-tuned, got none.")
    return pd.DataFrame(lines)


def _points(file: Path, *, epochs: int, size: int) -> list[tuple[int, float]]:
    """The mean loss of each `size` updates of the first epochs, with the number of the last one.

    Updates that were skipped do not count.
    """
    import json
    import math

    entries = [json.loads(line) for line in file.read_bytes().splitlines()]
    losses = [entry["loss"] for entry in entries if entry["outcome"] == "updated" and entry["epoch"] < epochs]
    if not losses:
        raise ValueError(f"{file}: expected updates of a training, got none. Train the model again.")
    return [
        (min(begin + size, len(losses)), math.fsum(part) / len(part))
        for begin in range(0, len(losses), size)
        if (part := losses[begin : begin + size])
    ]


def picture(frame: pd.DataFrame, settings: Any) -> Picture:
    """A panel for each train size and a line for each system; shaded: a standard deviation over the seeds."""
    from matplotlib.ticker import MaxNLocator

    from condenser.evaluate.figures._drawing import legend, panels, styles

    sizes = list(dict.fromkeys(frame["train_queries"]))
    drawn, axes = panels(
        ["all train queries" if size == "all" else f"{int(size):,} train queries" for size in sizes],
        title=f"Training loss of the first updates, {frame['collection'].iloc[0]}",
        x="updates",
        y=f"loss (mean of {settings.updates} updates{', log scale' if settings.log_axis else ''})",
        share_y=True,
    )
    methods = list(dict.fromkeys(frame["method"]))
    looks = dict(zip(methods, styles(len(methods)), strict=True))
    for axis, size in zip(axes, sizes, strict=True):
        for method, line in frame[frame["train_queries"] == size].groupby("method", sort=False):
            look = looks[method]
            axis.plot(line["updates"], line["loss"], label=method, **look)
            if line["sd"].notna().any():
                low, high = line["loss"] - line["sd"], line["loss"] + line["sd"]
                axis.fill_between(line["updates"], low, high, color=look["color"], alpha=0.15, lw=0)
        if settings.log_axis:
            axis.set_yscale("log")
        else:
            axis.set_ylim(bottom=0)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend(drawn, axes)
    return drawn
