"""The charts of a report: quality by step, and losses. Drawn as the figures are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from condenser.evaluate.figures._drawing import QUIET, legend, panels, styles, svg

STAGES_OF_QUALITY = ("start", "pre-trained", "fine-tuned", "+ hard negatives")


class Quality(NamedTuple):
    """A measured value at one of `STAGES_OF_QUALITY`; its interval is NaN where it has none."""

    rule: int
    value: float
    low: float
    high: float


def quality_chart(
    families: Mapping[str, Sequence[Quality]], levels: Mapping[str, float], *, measure: str
) -> bytes:
    """Quality by step: a line for each family of systems; `levels` are values of systems without steps."""

    def draw() -> Figure:
        picture, (axis,) = panels([""], title=_plain(measure), x="", y="", share_y=False)
        for name, value in levels.items():
            axis.axhline(value, color=QUIET, linestyle=":", label=_plain(name))
        looks = styles(len(families))
        asides = 0.07 * (np.arange(len(families)) - (len(families) - 1) / 2)  # intervals side by side
        for (name, points), look, aside in zip(families.items(), looks, asides, strict=True):
            rules, values, lows, highs = np.array(points).T
            axis.plot(rules + aside, values, label=_plain(name), **look)
            axis.vlines(rules + aside, lows, highs, color=look["color"], linewidth=1)
        axis.set_xticks(range(len(STAGES_OF_QUALITY)), STAGES_OF_QUALITY)
        return _finished(picture)

    return svg(draw)


def loss_chart(curves: Mapping[str, Sequence[tuple[float, float]]], *, name: str) -> bytes:
    """Loss by update: a line of (update, loss) for each training."""

    def draw() -> Figure:
        picture, (axis,) = panels([""], title=_plain(name), x="updates", y="loss", share_y=False)
        for (label, points), look in zip(curves.items(), styles(len(curves)), strict=True):
            axis.plot(*zip(*points, strict=True), label=_plain(label), **{**look, "marker": ""})
        return _finished(picture)

    return svg(draw)


def _finished(picture: Figure) -> Figure:
    """The picture with its legend, as wide as a column of the page unless a name needs more."""
    picture.set_size_inches(5.0, 3.4)
    legend(picture, picture.axes)
    return picture


def _plain(text: str) -> str:
    """A text as matplotlib shows it: a dollar is no mathematics, and no label of a legend begins with `_`."""
    text = f" {text}" if text.startswith("_") else text
    return text.replace("$", r"\$")
