"""Entropy of [CLS] attention by layer, before and after fine-tuning.

Source: Condenser, §5 and Figure 2: the mean over heads and over 1,000 random passages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from condenser.evaluate.figures import by_row
from condenser.nouns import Figure
from condenser.settings import Count, Name, Seeds, Whole

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

READS = "variants"
STAGES = {False: "pre-trained", True: "fine-tuned"}


class Settings(Figure):
    """`panels`: by title, the systems whose encoders a panel shows; `seed` draws the `passages`."""

    PANELS_OF: ClassVar[str] = "biencoder"

    # by title, the systems whose encoders a panel shows
    panels: Annotated[dict[str, Annotated[list[Name], Field(min_length=1)]], Field(min_length=1)]
    passages: Count  # whose attention is measured
    seed: Whole  # draws the passages
    seeds: Seeds | None = None  # of the trainings; the configuration's seed

    @property
    def systems_of_panels(self) -> dict[str, list[str]]:
        return self.panels


def file_of(settings: Any, row: Mapping[str, Any]) -> str:
    """The entropies of an encoder; their number and draw stand in the name."""
    return f"attention_entropy.{settings.passages}-seed{settings.seed}.json"


def table(settings: Any, files: Sequence[Path], *, significance: Mapping[str, Any]) -> pd.DataFrame:
    """A line for each panel, system and layer, with the interval of the mean over the passages."""
    import numpy as np
    import pandas as pd

    from condenser.evaluate.comparisons import seeds_of
    from condenser.evaluate.significance import interval, mean_and_sd
    from condenser.files import read_json

    lines = []
    for row, variants in by_row(settings, files):
        contents = [read_json(file) for _, file in variants]
        of_layers = np.array([list(content["per_passage"].values()) for content in contents])
        vector = contents[0]["pooling"] + (", normalised" if contents[0]["normalised"] else "")
        for layer, values in enumerate(np.moveaxis(of_layers, 2, 0), start=1):
            mean, sd = mean_and_sd(values)
            ends = float(values.min()), float(values.max())
            low, high = interval(values, confidence=significance["confidence"], ends=ends)
            lines.append(
                {
                    "panel": row["panel"],
                    "stage": STAGES[row["is_trained"]],
                    "method": row["method"],
                    "layer": layer,
                    "entropy_nats": mean,
                    "sd": sd,
                    "low": low,
                    "high": high,
                    "uniform_nats": contents[0]["uniform"],
                    "passages": of_layers.shape[1],
                    "vector": vector,
                    "backbone": row["backbone"],
                    "seeds": seeds_of(row),
                    "collection": settings.collection,
                }
            )
    return pd.DataFrame(lines)


def picture(frame: pd.DataFrame, settings: Any) -> Picture:
    """A panel for each pair of encoders; dotted: what uniform attention over the same passages would give."""
    from matplotlib.ticker import MaxNLocator

    from condenser.evaluate.figures._drawing import QUIET, legend, panels, styles

    titles = list(dict.fromkeys(frame["panel"]))
    drawn, axes = panels(
        titles,
        title="Entropy of [CLS] attention, "
        f"{frame['collection'].iloc[0]}, {frame['passages'].iloc[0]:,} passages",
        x="layer",
        y="entropy (nats)",
        share_y=True,
    )
    for axis, title in zip(axes, titles, strict=True):
        of_panel = frame[frame["panel"] == title]
        names = "stage" if of_panel.groupby("stage")["method"].nunique().max() == 1 else "method"
        lines = list(of_panel.groupby(names, sort=False))
        for (name, line), style in zip(lines, styles(len(lines)), strict=True):
            axis.plot(line["layer"], line["entropy_nats"], label=name, **style)
            axis.fill_between(line["layer"], line["low"], line["high"], color=style["color"], alpha=0.2, lw=0)
        axis.axhline(of_panel["uniform_nats"].iloc[0], color=QUIET, ls=":", lw=1.2, label="uniform attention")
        axis.set_ylim(bottom=0)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        vectors = set(of_panel["vector"])
        if any(not vector.startswith("cls") for vector in vectors):
            axis.set_title(f"{title}\ntext vector: {' / '.join(sorted(vectors))}; not [CLS]", fontsize=9)
    legend(drawn, axes)
    return drawn
