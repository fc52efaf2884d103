"""Tables of systems and measures, from metrics files."""

from __future__ import annotations

import csv
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from condenser.commands import search_command
from condenser.data.canonical import count_judged
from condenser.evaluate.columns import Column, Place, measures_in
from condenser.evaluate.comparisons import Measured, Metrics, align_columns, seeds_of, written_p_value
from condenser.evaluate.conclusion import joined
from condenser.evaluate.measures import parse
from condenser.evaluate.published import OFFICIAL, Row, official
from condenser.files import atomic_write

_COUNTS = ("batch_size", "passages", "queries")
_START, _START_P = "compared_with_start", "compared_with_start_p"
_PUBLISHED, _DIFFERENCE = "published", "difference"
_BETWEEN = " | "  # parts of `other_columns`, which have semicolons themselves
_SCREEN = 120  # columns of a terminal


@dataclass(frozen=True)
class EvaluationSet:
    """The data set and queries that columns are measured on.

    Attributes:
        num_passages: of sentence tasks, the train sentences.
        num_left_out: passages that the source leaves out because they have no text.
        num_shared: queries whose text a train query has; of sentence tasks, items that are train items.
        depth: hits a query in the shortest run; None where nothing is judged.
        deepest: the depth of the deepest measure.
    """

    dataset: str
    source: str
    num_passages: int
    num_left_out: int
    num_queries: int
    num_shared: int
    depth: int | None
    deepest: int
    official_name: str | None = None  # if the source itself found exactly the official data

    @property
    def _is_shallow(self) -> bool:
        return self.depth is None or self.depth < min(self.deepest, self.num_passages)

    @property
    def notes(self) -> list[str]:
        """Why the figures are not those of the whole, official data."""
        if self.depth is None:
            return ["no judged queries: not measured"]
        notes = [f"runs of {self.depth}"] if self._is_shallow else []
        if self.num_shared:
            what = "queries" if self.deepest else "items"
            notes.append(f"{self.num_shared:,} evaluation {what} are also train {what}")
        return notes

    @property
    def official(self) -> tuple[str, str] | None:
        """Its official data set and evaluation set; None where figures may not stand beside published ones.

        They may only with all passages, all queries and deep runs. Official data may have a text in two
        splits.
        """
        return None if self._is_shallow else self._official_keys

    @property
    def _official_keys(self) -> tuple[str, str] | None:
        if self.official_name is not None:
            keys = {collection.name: key for key, collection in OFFICIAL.items()}
            key = keys[self.official_name]
            return key, next(iter(OFFICIAL[key].num_queries))
        whole = self.num_passages + self.num_left_out
        return official(self.source, num_passages=whole, num_queries=self.num_queries)

    @property
    def name(self) -> str:
        """The `collection` cell. It says if the data stand in for others, or are incomplete."""
        name, notes = self.dataset, self.notes
        of_source = {
            collection.name
            for collection in OFFICIAL.values()
            if collection.num_passages is not None and collection.source == self.source
        }
        if (keys := self._official_keys) is not None:
            name = OFFICIAL[keys[0]].name + (", TREC DL 2019" if keys[1] == "dl19" else "")
        elif of_source:
            name = of_source.pop() if len(of_source) == 1 else name
            notes.insert(0, "not the official passages and queries")
        elif self.dataset in OFFICIAL and OFFICIAL[self.dataset].source != self.source:
            name = self.source
            notes.insert(0, f"stand-in for {OFFICIAL[self.dataset].name}")
        return f"{name} ({'; '.join(notes)})" if notes else name


def evaluation_sets(
    columns: Sequence[Column], counts: Mapping[str, Mapping[str, Any]]
) -> dict[Place, EvaluationSet]:
    """What columns are measured on, by place; the main evaluation set of the table's own data set first.

    Args:
        counts: of each data set that columns are measured on, its `counts.json`.
    """
    sets: dict[Place, EvaluationSet] = {}
    for column in sorted(columns, key=lambda column: "/" in column.name):
        of_place = counts[column.dataset]
        splits = [str(column.train_split), str(column.split)]
        shared = of_place.get("queries_shared_by_splits", {}).get("+".join(sorted(splits)), 0)
        there = [parse(other.measure).depth for other in columns if other.place == column.place]
        sets[column.place] = EvaluationSet(
            column.dataset,
            column.source,
            of_place["passages"],
            sum(tally.get("without_text", 0) for tally in of_place.get("files", {}).values()),
            0 if column.split is None else count_judged(of_place)[column.split],
            of_place.get("items_shared_by_splits", {}).get("+".join(splits), shared),
            column.depth,
            max(there),
            of_place.get("official"),
        )
    return sets


def make_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    metrics: Metrics,
    *,
    sets: Mapping[Place, EvaluationSet],
    by_column: Mapping[str, Measured],
    starts: Sequence[int | None],
    published: Sequence[Row],
    left_out: Sequence[str],
) -> pd.DataFrame:
    """A table of measured and published rows: method, batch size, measures, and what they were measured on.

    A row of several seeds shows the mean, and the standard deviation in columns of its own; a table of
    several train sizes has a column for them. Each measure has an interval, `_low` to `_high`.
    `compared_with_start` says if a row is better or worse than its untouched start by the first measure, with
    the p-value of the test, corrected for all comparisons of the table.

    Published figures stand only in columns whose evaluation set is the official one: beside ours of the same
    method and train size (`_published`, and `_difference`, ours less theirs), else in rows of their own above
    ours, in the papers' order.

    Args:
        rows: as `condenser.shown.table_rows` gives them.
        metrics: from `condenser.evaluate.comparisons.read_metrics`.
        sets: from `evaluation_sets`; that of the columns `collection`, `passages` and `queries` first.
        by_column: of each column, from `condenser.evaluate.comparisons.measure_columns`.
        starts: of each row, the number of the row of its untouched start; None where there is none.
        published: from `condenser.evaluate.published.rows_of`.
        left_out: names of columns that the table has elsewhere.
    """
    main_set = next(iter(sets.values()))
    about: dict[str, Any] = {
        **{"collection": main_set.name, "passages": main_set.num_passages, "queries": main_set.num_queries},
        "other_columns": _other_columns(columns, sets, left_out),
    }
    names = [column.name for column in columns]
    measured = [_measured(row, columns, metrics) | about for row in rows]
    for number, (shown, start) in enumerate(zip(measured, starts, strict=True)):
        for name in names:
            cell = by_column[name].cells[number]
            shown |= {f"{name}_low": cell.low, f"{name}_high": cell.high}
        comparisons = by_column[names[0]].comparisons
        if start is not None and (number, start) in comparisons:
            comparison = comparisons[number, start]
            shown[_START] = comparison.verdict
            shown[_START_P] = written_p_value(comparison.holm_p_value)
    official_columns = {
        column.name: (*of, column.measure) for column in columns if (of := sets[column.place].official)
    }
    alone = _beside_published(measured, official_columns, published)
    table = [row | about for row in alone] + measured
    headers = ["method", "batch_size", *names, "origin", "collection", "passages", "queries"]
    headers += ["backbone", "seeds"]
    if any(row["train_queries"] != "all" for row in table):
        headers.append("train_queries")
    headers += [f"{name}_sd" for name in names if any(f"{name}_sd" in row for row in table)]
    headers += [f"{name}_{limit}" for name in names for limit in ("low", "high")]
    headers += [_START, _START_P]
    beside = [name for name in names if any(f"{name}_{_PUBLISHED}" in row for row in table)]
    headers += [f"{name}_{what}" for name in beside for what in (_PUBLISHED, _DIFFERENCE)]
    headers += ["other_columns"] if about["other_columns"] else []
    frame = pd.DataFrame(table, columns=headers)
    for header in headers:
        if header in _COUNTS:
            frame[header] = pd.to_numeric(frame[header]).astype("Int64")
        elif re.sub(f"_(sd|low|high|{_PUBLISHED}|{_DIFFERENCE})$", "", header) in names:
            frame[header] = pd.to_numeric(frame[header].replace("", None)).astype("Float64")
    return frame


def _other_columns(
    columns: Sequence[Column], sets: Mapping[Place, EvaluationSet], left_out: Sequence[str]
) -> str | None:
    """What the columns of other evaluation sets were measured on, and which are left out."""
    _, *others = sets
    parts = []
    for place in others:
        names = ", ".join(column.name for column in columns if column.place == place)
        measured_on = sets[place]
        parts.append(
            f"{names}: {measured_on.name}, {measured_on.num_passages:,} passages, "
            f"{measured_on.num_queries:,} queries"
        )
    if left_out:
        parts.append(f"{', '.join(left_out)}: left out, the configuration has no such data")
    return _BETWEEN.join(parts) or None


def _measured(row: Mapping[str, Any], columns: Sequence[Column], metrics: Metrics) -> dict[str, Any]:
    shown: dict[str, Any] = {
        **{key: row[key] for key in ("method", "batch_size", "backbone", "train_queries")},
        "origin": "measured" if metrics else None,
        "seeds": seeds_of(row),
    }
    for column in columns:
        of_place = metrics.get(column.place, {})
        of_variants = [
            of_place[row["system"], variant]["measures"][column.measure]
            for variant in row["variants"]
            if of_place
        ]
        shown[column.name] = fmean(of_variants) if of_variants else None
        if len(of_variants) > 1:
            shown[f"{column.name}_sd"] = stdev(of_variants)
    return shown


def _beside_published(
    measured: Sequence[dict[str, Any]],
    official_columns: Mapping[str, tuple[str, str, str]],
    published: Sequence[Row],
) -> list[dict[str, Any]]:
    """Write published figures into our rows of the same method and train size; gives the others as rows."""
    ours = {(row["method"], str(row["train_queries"])): row for row in measured}
    alone = []
    for row in published:
        figures = {name: row.figures[of] for name, of in official_columns.items() if of in row.figures}
        same = ours.get((row.method, row.train_queries))
        if same is not None:
            for name, figure in figures.items():
                same[f"{name}_{_PUBLISHED}"] = float(figure)
                same[f"{name}_{_DIFFERENCE}"] = same[name] - float(figure)
        elif figures:
            size = row.train_queries if row.train_queries == "all" else int(row.train_queries)
            alone.append(
                {"method": row.method, "batch_size": row.batch_size, "train_queries": size, **figures}
                | {"origin": _PUBLISHED}
            )
    return alone


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """Write a table as TSV: fractions with four decimals, an empty cell where there is no figure."""
    text = frame.to_csv(
        None, sep="\t", index=False, float_format="%.4f", quoting=csv.QUOTE_NONE, lineterminator="\n"
    )
    with atomic_write(path) as file:
        file.write(text.encode())


def render_table(frame: pd.DataFrame, *, confidence: float, notes: Sequence[str] = ()) -> str:
    """A table as text for a terminal of 120 columns, with lines that say what its figures are of.

    The `notes` stand last (`condenser.evaluate.notes`).

    A cell is the mean over seeds, its standard deviation where there are several, and its interval; what does
    not fit is left to the file. `confidence` is that of the intervals.
    """
    measured = frame[frame["origin"] != _PUBLISHED]
    row = measured.iloc[-1]
    backbones = list(dict.fromkeys(measured["backbone"].dropna()))
    lines: list[str] = []
    for with_sd, with_interval in ((True, True), (False, True), (True, False), (False, False)):
        lines = align_columns(_screen(frame, with_sd, with_interval, several_backbones=len(backbones) > 1))
        if max(map(len, lines)) <= _SCREEN:
            break
    of_sentences = any(parse(name.split("/")[-1]).task for name in measures_in(frame.columns))
    texts, items = ("train sentences", "test items") if of_sentences else ("passages", "queries")
    about = f"{row['collection']}: {row['passages']:,} {texts}, {row['queries']:,} {items}"
    if len(backbones) == 1:
        about += f", backbone {backbones[0]}"
    lines.append(f"{about}.")
    if "other_columns" in frame:
        lines += [f"{part}." for part in row["other_columns"].split(_BETWEEN)]
    below = [line for note in notes for line in textwrap.wrap(note, _SCREEN)]
    if not row["queries"]:
        return "\n".join([*lines, *below])
    names = [official.name for official in OFFICIAL.values()]
    with_figures = [name for name in measures_in(frame.columns) if f"{name}_{_PUBLISHED}" in frame]
    if with_figures or len(measured) < len(frame):
        lines.append("(+ or -): ours less the published figure of the same method, on the same data.")
    elif not str(row["collection"]).startswith(tuple(names)):
        lines.append("This is not the papers' collection: do not compare with their figures.")
    elif row["collection"] not in names:
        lines.append("This is not what the papers' table was measured on: do not compare with it.")
    if with_interval:
        lines.append(
            f"[low, high]: {100 * confidence:.4g} % interval of the mean, by Student's t over the {items}."
        )
    if measured[_START].notna().any():
        lines.append(
            f"vs start: by {measures_in(frame.columns)[0]}, against the row of the untouched model that the "
            "row's training started from."
        )
    if worse := measured.loc[measured[_START] == "worse", "method"].unique().tolist():
        lines.append(f"WORSE than the untouched start: {'; '.join(worse)}.")
    return "\n".join([*lines, *below])


def describe_unmeasured(
    made: Sequence[Path], systems: Sequence[str], *, dataset: str, overlays: Sequence[str]
) -> str:
    """What a table without judged queries has made, and the command that searches with it.

    Args:
        made: files of models, and folders of indexes.
        systems: of the table's rows those that can be asked, each once for every row.
        overlays: the configuration files that the workflow was started with.
    """
    folders = dict.fromkeys(str(file.parent if file.suffix else file) for file in made)
    made_line = f"Made: {', '.join(folders)}."
    if not systems:
        return made_line
    *others, last = dict.fromkeys(systems)
    also = f" (SYSTEM may also be {joined(others, 'or')})" if others else ""
    command = search_command(dataset, last, overlays=" ".join(overlays))
    return f"{made_line}\nTo search{also}:\n  {command}"


def _screen(
    frame: pd.DataFrame, with_sd: bool, with_interval: bool, *, several_backbones: bool
) -> dict[str, list[str]]:
    """The columns that a terminal shows, by header, the method first."""
    columns: dict[str, Iterable[Any]] = {"method": frame["method"], "batch": frame["batch_size"]}
    for name in measures_in(frame.columns):
        nothing = [None] * len(frame)
        parts = (f"{name}_{what}" for what in ("sd", "low", "high", _DIFFERENCE))
        columns[name] = [
            _cell(mean, sd if with_sd else None, low if with_interval else None, high, difference)
            for mean, sd, low, high, difference in zip(
                frame[name], *(frame.get(part, nothing) for part in parts), strict=True
            )
        ]
    if (frame["origin"] != "measured").any():
        columns["origin"] = frame["origin"]
    if "train_queries" in frame:
        columns["train"] = frame["train_queries"]
    if several_backbones:
        columns["backbone"] = frame["backbone"]
    if frame[_START].notna().any():
        columns["vs start"] = frame[_START].replace({"worse": "WORSE"})
    return {
        header: ["-" if pd.isna(value) else str(value) for value in values]
        for header, values in columns.items()
    }


def _cell(mean: Any, sd: Any, low: Any, high: Any, difference: Any) -> str | None:
    """`.5123 (+.004) ±.003 [.49, .53]`, without the parts that are missing."""
    if pd.isna(mean):
        return None
    text = _fraction(mean, 4)
    if not pd.isna(difference):
        text += f" ({'-' if difference < 0 else '+'}{_fraction(abs(difference), 3)})"
    if not pd.isna(sd):
        text += f" ±{_fraction(sd, 3)}"
    if not pd.isna(low):
        text += f" [{_fraction(low, 2)}, {_fraction(high, 2)}]"
    return text


def _fraction(number: float, decimals: int) -> str:
    """A number without the 0 before its point."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{number:.{decimals}f}")
