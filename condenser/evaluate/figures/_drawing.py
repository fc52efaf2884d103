"""What all pictures share: colours, sizes, and bytes that depend on the numbers alone."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import matplotlib
import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath
from matplotlib.ticker import MaxNLocator

if TYPE_CHECKING:
    import pandas as pd

# Okabe and Ito 2008: told apart by all kinds of colour vision. For grey, markers and dashes differ too.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", "--", "-.", ":")
QUIET = "#767676"  # what is there for orientation

_SETTINGS: Any = {
    "svg.hashsalt": "condenser",  # names of clips and markers are random otherwise
    "svg.fonttype": "path",  # the same in every viewer, whatever fonts it has
    "font.family": "DejaVu Sans",  # matplotlib brings it
    "font.size": 9,
    "axes.titlesize": 10,
    "figure.titlesize": 11,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "legend.frameon": False,
}
_PANEL_INCHES = 4.0, 2.9
_LEGEND_ROWS = 4  # that a picture has room for


def svg(draw: Callable[[], Figure]) -> bytes:
    """The picture that `draw` makes, as SVG without a date: the same numbers give the same bytes.

    Whatever style the user has set for matplotlib, the picture is drawn in ours.
    """
    with matplotlib.style.context("default"), matplotlib.rc_context(_SETTINGS):
        content = io.BytesIO()
        draw().savefig(content, format="svg", metadata={"Date": None, "Creator": None})
    return content.getvalue()


def styles(count: int) -> list[dict[str, Any]]:
    """A colour, a marker and dashes for each of `count` lines."""
    looks = zip(cycle(_COLOURS), cycle(_MARKERS), cycle(_DASHES), strict=False)
    return [
        {"color": colour, "marker": marker, "linestyle": dashes}
        for colour, marker, dashes in islice(looks, count)
    ]


def panels(titles: Sequence[str], *, title: str, x: str, y: str, share_y: bool) -> tuple[Figure, list[Axes]]:
    """A picture with a panel for each title, two in a row; `x` and `y` are the labels with their units."""
    columns = min(2, len(titles))
    rows = -(-len(titles) // columns)
    width, height = _PANEL_INCHES
    size = (max(width * columns, 6.0), height * rows + 1.0)
    picture = Figure(figsize=size, layout="constrained")
    grid = picture.subplots(rows, columns, squeeze=False, sharey=share_y)
    axes = list(grid.flat)
    for unused in axes[len(titles) :]:
        unused.remove()
    for axis, name in zip(axes, titles, strict=False):
        axis.set_title(name)
        axis.set_xlabel(x)
        axis.set_ylabel(y)
    picture.suptitle(title)
    return picture, axes[: len(titles)]


def draw_line(axis: Axes, line: pd.DataFrame, x: str, *, number: int, count: int, **look: Any) -> None:
    """Means with their intervals, beside those of the other `count` lines: they would lie on each other."""
    line = line.sort_values(x).astype(dict.fromkeys((x, "value", "low", "high"), float))
    spread = [line["value"] - line["low"], line["high"] - line["value"]]
    axis.errorbar(line[x] * 1.03 ** (number - (count - 1) / 2), line["value"], yerr=spread, capsize=2, **look)


def draw_verdicts(axis: Axes, lines: Iterable[tuple[float, float, float, int, str]], *, title: str) -> None:
    """A panel of a forest plot: of each line mean, low, high, its place and the verdict."""
    axis.axvline(0, color="#000000", lw=0.8)
    axis.xaxis.set_major_locator(MaxNLocator(4))
    axis.set_title(title)
    looks = _looks_of_verdicts()
    for mean, low, high, place, verdict in lines:
        axis.errorbar(mean, place, xerr=[[mean - low], [high - mean]], capsize=2, **looks[verdict])


def legend_of_verdicts(picture: Figure) -> None:
    """The legend of a forest plot."""
    marks = [Line2D([], [], label=verdict, **look) for verdict, look in _looks_of_verdicts().items()]
    picture.legend(handles=marks, loc="outside lower center", ncols=len(marks))


def _looks_of_verdicts() -> dict[str, dict[str, Any]]:
    better, worse, none = ({**look, "linestyle": ""} for look in styles(3))
    return {"better": better, "worse": worse, "no difference shown": {**none, "color": QUIET}}


def legend(picture: Figure, axes: Sequence[Axes]) -> None:
    """One legend below all panels, with each name once; the picture grows where its names need more room."""
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    size = matplotlib.rcParams["font.size"]
    widest = max(TextPath((0, 0), label, size=size).get_extents().width for label in handles)
    entry = (widest + 5 * size) / 72  # inches, with its line and the space beside it
    width, height = picture.get_size_inches()
    columns = max(1, min(len(handles), 3, int(width / entry)))
    rows = -(-len(handles) // columns)
    below = max(0, rows - _LEGEND_ROWS) * 1.4 * size / 72  # a row is 1.4 times as high as its letters
    picture.set_size_inches(max(width, entry), height + below)
    picture.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns)
