"""Small line charts as inline SVG. Colours are those of the page, so that they suit light, dark and print."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

_WIDTH, _HEIGHT = 420, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 20, 12, 40
NUM_LOOKS = 7  # colours of report.css


@dataclass(frozen=True)
class Point:
    """A value at `x`, with its interval where it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Line:
    """A named line; `look` is its colour, dashes and marker."""

    name: str
    points: Sequence[Point]
    look: int
    has_markers: bool = True


def ticks(low: float, high: float, *, about: int = 4) -> list[float]:
    """Round numbers from `low` to `high`, about as many as asked for.

    >>> ticks(0.0, 1.0), ticks(0.47, 0.53)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.48, 0.5, 0.52])
    """
    span = high - low or abs(high) or 1.0
    size = 10 ** math.floor(math.log10(span / about))
    step = min((size * factor for factor in (1, 2, 5, 10)), key=lambda step: abs(span / step - about))
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 10) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def chart(
    lines: Sequence[Line],
    *,
    x: str,
    y: str,
    names: Sequence[str] | None = None,
    levels: Sequence[Line] = (),
) -> Markup:
    """A chart of lines with a legend; `names` are those of x = 0, 1, ...; `levels` are lines across it."""
    every = [point for line in [*lines, *levels] for point in line.points]
    lowest = min(point.y if point.low is None else point.low for point in every)
    highest = max(point.y if point.high is None else point.high for point in every)
    margin = (highest - lowest) * 0.05 or abs(highest) * 0.05 or 1.0
    lowest, highest = lowest - margin, highest + margin
    first, last = (-0.45, len(names) - 0.55) if names else _ends([point.x for point in every])
    inner_width, inner_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def across(value: float) -> float:
        return round(_LEFT + (value - first) / (last - first) * inner_width, 1)

    def down(value: float) -> float:
        return round(_TOP + (highest - value) / (highest - lowest) * inner_height, 1)

    drawn = [Markup()]
    for value in ticks(lowest, highest):
        drawn.append(
            Markup(
                '<path class="grid" d="M{} {}H{}"/><text x="{}" y="{}" text-anchor="end">{}</text>'
            ).format(_LEFT, down(value), _WIDTH - _RIGHT, _LEFT - 6, down(value) + 4, f"{value:.10g}")
        )
    labels = list(enumerate(names)) if names else [(at, f"{at:,.10g}") for at in ticks(first, last)]
    for at, label in labels:
        drawn.append(
            Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(
                across(at), _HEIGHT - _BOTTOM + 16, label
            )
        )
    drawn.append(
        Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(
            _LEFT + inner_width / 2, _HEIGHT - 5, x
        )
    )
    for level in levels:
        drawn.append(
            Markup('<path class="level s{}" d="M{} {}H{}"/>').format(
                level.look % NUM_LOOKS, _LEFT, down(level.points[0].y), _WIDTH - _RIGHT
            )
        )
    for line in lines:
        drawn.append(_line(line, across, down))
    legend = Markup("").join(
        Markup(
            '<li><svg class="key" viewBox="0 0 26 10" aria-hidden="true">'
            '<path class="line s{}" d="M1 5H25"/></svg>{}</li>'
        ).format(line.look % NUM_LOOKS, line.name)
        for line in [*lines, *levels]
    )
    return Markup(
        '<figure class="chart"><figcaption>{}</figcaption>'
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg><ul class="legend">{}</ul></figure>'
    ).format(y, _WIDTH, _HEIGHT, f"{y} by {x or 'stage'}", Markup("").join(drawn), legend)


def _ends(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _line(line: Line, across: Callable[[float], float], down: Callable[[float], float]) -> Markup:
    look = line.look % NUM_LOOKS
    path = "L".join(f"{across(point.x)} {down(point.y)}" for point in line.points)
    drawn = [Markup('<path class="line s{}" d="M{}"/>').format(look, path)]
    for point in line.points if line.has_markers else ():
        said = f"{line.name}: {point.y:.4f}"
        if point.low is not None and point.high is not None:
            said += f" [{point.low:.4f}, {point.high:.4f}]"
            drawn.append(
                Markup('<path class="range s{}" d="M{} {}V{}"/>').format(
                    look, across(point.x), down(point.low), down(point.high)
                )
            )
        drawn.append(
            Markup('<circle class="dot s{}" cx="{}" cy="{}" r="3.5"><title>{}</title></circle>').format(
                look, across(point.x), down(point.y), said
            )
        )
    return Markup("").join(drawn)
