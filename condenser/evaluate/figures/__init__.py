"""Figures: pictures of measured numbers, each with a table of the numbers.

A kind of figure NAME is the module `condenser.evaluate.figures.NAME`, found by its name. It holds:

- `Settings`: a pydantic class of its keys, made from `condenser.nouns.Figure`. It says which systems it
  names; its file of published numbers, if it has one, is the last of `files`;
- `READS`: what it is drawn from. "variants": a file of each variant of the systems that `panels` name, or of
  the rows of the table that `table` names. "table": that table itself. "tests": its tests. "manifests": those
  of the jobs behind that table;
- `table(settings, files, *, significance) -> pandas.DataFrame`: the numbers, from the files in the order of
  the rows and their variants;
- `picture(frame, settings) -> matplotlib.figure.Figure`: drawn from these numbers alone.

With "variants" it also holds `file_of(settings, row) -> str | None`: the file that it reads, below the
folder of the variant; None: this row is left out.

`settings` is the figure's entry in the configuration with `rows`
(`condenser.shown.figure_settings`).
The module itself imports no matplotlib and no pandas: the workflow reads it to check the configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from condenser import kinds
from condenser.evaluate.columns import measures_in

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "evaluate/figures"


def load(settings: Any) -> ModuleType:
    """The module of a figure's kind."""
    return kinds.load(FOLDER, settings.kind)


def variant_files(settings: Any) -> Iterator[tuple[Mapping[str, Any], str, str]]:
    """The row, the variant and the file below its folder, of all that a figure of "variants" reads."""
    kind = load(settings)
    for row in settings.rows:
        yield from ((row, variant, kind.file_of(settings, row)) for variant in row["variants"])


def by_row(settings: Any, files: Sequence[Path]) -> list[tuple[Mapping[str, Any], list[tuple[str, Path]]]]:
    """The rows of a figure of "variants", each with its variants and their files."""
    rows: list[tuple[Mapping[str, Any], list[tuple[str, Path]]]] = []
    for (row, variant, _), file in zip(variant_files(settings), files, strict=True):
        if not rows or rows[-1][0] is not row:
            rows.append((row, []))
        rows[-1][1].append((variant, file))
    return rows


def measured_rows(table: Path, settings: Any) -> tuple[pd.DataFrame, list[str]]:
    """The measured rows of a table as text, and the measures that a figure shows of it.

    Raises:
        ValueError: the table lacks one.
    """
    import pandas as pd

    shown = pd.read_csv(table, sep="\t", dtype=str, keep_default_na=False)
    known = measures_in(shown.columns)
    for measure in settings.measures or known:
        if measure not in known:
            raise ValueError(f"{table}: expected the measure {measure}, got {', '.join(known)}.")
    return shown[shown["origin"] == "measured"], settings.measures or known
