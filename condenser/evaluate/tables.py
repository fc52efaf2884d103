"""Tables of systems and measures, from metrics files."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from condenser.evaluate.comparisons import Measured, aligned, seeds_of, written_p_value
from condenser.evaluate.measures import parse
from condenser.evaluate.published import OFFICIAL_DEV_QUERIES, OFFICIAL_DL19_QUERIES, OFFICIAL_PASSAGES
from condenser.files import atomic_write, read_json

_OFFICIAL = "MS MARCO"
_COUNTS = ("batch_size", "passages", "queries")
_START, _START_P = "compared_with_start", "compared_with_start_p"
_SCREEN = 120  # columns of a terminal


def collection_name(
    dataset: str,
    source: str,
    *,
    num_passages: int,
    num_queries: int,
    notes: Sequence[str],
    official: str | None = None,
) -> str:
    """The `collection` cell. It says if the data stand in for another collection, or are incomplete.

    It is "MS MARCO" alone only where figures may stand beside published ones: all passages, all dev
    queries, no notes. `official` is the name of what a source has counted as the official data itself.
    """
    name, found = official or dataset, list(notes)
    if source == "msmarco":
        name = _OFFICIAL
        if (num_passages, num_queries) == (OFFICIAL_PASSAGES, OFFICIAL_DL19_QUERIES):
            name = f"{_OFFICIAL}, TREC DL 2019"
        elif (num_passages, num_queries) != (OFFICIAL_PASSAGES, OFFICIAL_DEV_QUERIES):
            found.insert(0, "not the official passages and queries")
    elif dataset == "msmarco":
        name = source
        found.insert(0, "stand-in for MS MARCO")
    return f"{name} ({'; '.join(found)})" if found else name


def make_table(
    rows: Sequence[Mapping[str, Any]],
    metrics: Mapping[tuple[str, str], Path],
    *,
    measures: Sequence[str],
    found: Mapping[str, Measured],
    starts: Sequence[int | None],
    published: Sequence[Mapping[str, str]],
    dataset: str,
    source: str,
    num_passages: int,
    num_shared_queries: int,
    official: str | None = None,
) -> pd.DataFrame:
    """A table of measured and published rows: method, batch size, measures, and what they were measured on.

    Published rows are there only where the collection is the official one: in the paper's order, each
    above ours of the same method. A row of several seeds shows the mean, and the standard deviation in
    columns of its own; a table of several train sizes has a column for them. Each measure has an interval,
    `_low` to `_high`. `compared_with_start` says if a row is better or worse than its untouched start by the
    first measure, with the p-value of the test, corrected for all comparisons of the table.

    Args:
        rows: as `condenser.experiment.table_rows` gives them.
        metrics: the metrics file of each (system, variant); none of a collection without judged queries.
        found: of each measure, from `condenser.evaluate.comparisons.measured`.
        starts: of each row, the number of the row of its untouched start; None where there is none.
        published: rows of `condenser.evaluate.published`.
        num_shared_queries: queries of the evaluation that are also train queries.
        official: the name of the official data, where the source has found just these.

    Raises:
        ValueError: a file is of another system, or the systems were measured on different queries.
    """
    if metrics:
        values, num_queries = read_metrics(metrics, measures=measures)
        deepest = max(parse(name).depth for name in measures)
        depth = min(row["depth"] for row in rows)
        notes = [f"runs of {depth}"] if depth < min(deepest, num_passages) else []
    else:
        values, num_queries, notes = {}, 0, ["no judged queries: not measured"]
    if metrics and num_shared_queries:
        notes.append(f"{num_shared_queries:,} evaluation queries are also train queries")
    own = {
        "collection": collection_name(
            dataset,
            source,
            num_passages=num_passages,
            num_queries=num_queries,
            notes=notes,
            official=official,
        ),
        "passages": num_passages,
        "queries": num_queries,
    }
    measured = [_measured(row, values, measures) | own for row in rows]
    for number, (shown, start) in enumerate(zip(measured, starts, strict=True)):
        for name in measures:
            cell = found[name].cells[number]
            shown |= {f"{name}_low": cell.low, f"{name}_high": cell.high}
        comparisons = found[measures[0]].comparisons
        if start is not None and (number, start) in comparisons:
            comparison = comparisons[number, start]
            shown[_START] = comparison.verdict
            shown[_START_P] = written_p_value(comparison.holm_p_value)
    if own["collection"] in (_OFFICIAL, official):
        ordered = []
        for one in published:
            ordered.append({**one, **own, "origin": "published"})
            ordered += [row for row in measured if _is_of(row, one)]
        others = [row for row in measured if not any(_is_of(row, one) for one in published)]
        measured = ordered + others
    columns = [
        "method",
        "batch_size",
        *measures,
        "origin",
        "collection",
        "passages",
        "queries",
        "backbone",
        "seeds",
    ]
    if any(row["train_queries"] != "all" for row in rows):
        columns.append("train_queries")
    columns += [f"{name}_sd" for name in measures if any(f"{name}_sd" in row for row in measured)]
    columns += [f"{name}_{limit}" for name in measures for limit in ("low", "high")]
    columns += [_START, _START_P]
    frame = pd.DataFrame(measured, columns=columns)
    for column in columns:
        if column in _COUNTS:
            frame[column] = pd.to_numeric(frame[column]).astype("Int64")
        elif re.sub("_(sd|low|high)$", "", column) in measures:
            frame[column] = pd.to_numeric(frame[column].replace("", None)).astype("Float64")
    return frame


def _is_of(row: Mapping[str, Any], published: Mapping[str, str]) -> bool:
    """Whether a measured row has the method of a published one, and its train size where that has one."""
    size = published.get("train_queries") or str(row["train_queries"])
    return row["method"] == published["method"] and size == str(row["train_queries"])


def _measured(
    row: Mapping[str, Any], values: Mapping[tuple[str, str], Mapping[str, float]], measures: Sequence[str]
) -> dict[str, Any]:
    of_variants = [values[row["system"], variant] for variant in row["variants"]] if values else []
    shown: dict[str, Any] = {
        **{key: row[key] for key in ("method", "batch_size", "backbone", "train_queries")},
        "origin": "measured" if values else None,
        "seeds": seeds_of(row),
    }
    for name in measures:
        shown[name] = fmean(one[name] for one in of_variants) if values else None
        if len(of_variants) > 1:
            shown[f"{name}_sd"] = stdev(one[name] for one in of_variants)
    return shown


def read_metrics(
    metrics: Mapping[tuple[str, str], Path], *, measures: Sequence[str]
) -> tuple[dict[tuple[str, str], dict[str, float]], int]:
    """The measures of each (system, variant), and the number of judged queries.

    Raises:
        ValueError: a file is of another system, lacks a measure, or has another number of queries.
    """
    values: dict[tuple[str, str], dict[str, float]] = {}
    numbers: dict[str, int] = {}
    for (system, variant), file in metrics.items():
        content = read_json(file)
        if content["system"] != system:
            raise ValueError(f"{file}: expected metrics of {system}, got those of {content['system']}.")
        if missing := [name for name in measures if name not in content["measures"]]:
            raise ValueError(f"{file}: expected {', '.join(missing)}, got none. Add it to metrics.measures.")
        values[system, variant] = {name: content["measures"][name] for name in measures}
        numbers[f"{system} {variant}"] = content["counts"]["queries"]
    if len(set(numbers.values())) != 1:
        raise ValueError(f"metrics: expected one number of judged queries for all systems, got {numbers}.")
    return values, next(iter(numbers.values()))


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """Write a table as TSV: fractions with four decimals, an empty cell where there is no figure."""
    text = frame.to_csv(
        None, sep="\t", index=False, float_format="%.4f", quoting=csv.QUOTE_NONE, lineterminator="\n"
    )
    with atomic_write(path) as file:
        file.write(text.encode())


def rendered(frame: pd.DataFrame, *, confidence: float) -> str:
    """A table as text for a terminal of 120 columns, with lines that say what its figures are of.

    A cell is the mean over seeds, its standard deviation where there are several, and its interval; what does
    not fit is left to the file. `confidence` is that of the intervals.
    """
    measured = frame[frame["origin"] != "published"]
    one = measured.iloc[-1]
    backbones = list(dict.fromkeys(measured["backbone"].dropna()))
    lines: list[str] = []
    for with_sd, with_interval in ((True, True), (False, True), (True, False), (False, False)):
        lines = aligned(_screen(frame, with_sd, with_interval, several_backbones=len(backbones) > 1))
        if max(map(len, lines)) <= _SCREEN:
            break
    of_sentences = any(parse(name).task for name in _measures_of(frame))
    texts, items = ("train sentences", "test items") if of_sentences else ("passages", "queries")
    about = f"{one['collection']}: {one['passages']:,} {texts}, {one['queries']:,} {items}"
    if len(backbones) == 1:
        about += f", backbone {backbones[0]}"
    lines.append(f"{about}.")
    if not one["queries"]:
        return "\n".join(lines)
    if (frame["origin"] == "published").any():
        pass
    elif not str(one["collection"]).startswith(_OFFICIAL):
        lines.append("This is not the papers' collection: do not compare with their figures.")
    elif one["collection"] != _OFFICIAL:
        lines.append("This is not what the papers' table was measured on: do not compare with it.")
    if with_interval:
        lines.append(
            f"[low, high]: {100 * confidence:.4g} % interval of the mean, by resampling the {items}."
        )
    if measured[_START].notna().any():
        lines.append(
            f"than start: by {_measures_of(frame)[0]}, against the row of the untouched model that the row's "
            "training started from."
        )
    if worse := measured.loc[measured[_START] == "worse", "method"].unique().tolist():
        lines.append(f"WORSE than the untouched start: {'; '.join(worse)}.")
    return "\n".join(lines)


def _measures_of(frame: pd.DataFrame) -> list[str]:
    """The measures of a table, which stand between batch_size and origin."""
    names = frame.columns.tolist()
    return names[names.index("batch_size") + 1 : names.index("origin")]


def _screen(
    frame: pd.DataFrame, with_sd: bool, with_interval: bool, *, several_backbones: bool
) -> dict[str, list[str]]:
    """The columns that a terminal shows, by header, the method first."""
    columns: dict[str, Iterable[Any]] = {"method": frame["method"], "batch": frame["batch_size"]}
    for name in _measures_of(frame):
        nothing = [None] * len(frame)
        parts = (frame[name], frame.get(f"{name}_sd", nothing), frame[f"{name}_low"], frame[f"{name}_high"])
        columns[name] = [
            _cell(mean, sd if with_sd else None, low if with_interval else None, high)
            for mean, sd, low, high in zip(*parts, strict=True)
        ]
    if (frame["origin"] != "measured").any():
        columns["origin"] = frame["origin"]
    if "train_queries" in frame:
        columns["train"] = frame["train_queries"]
    if several_backbones:
        columns["backbone"] = frame["backbone"]
    if frame[_START].notna().any():
        columns["than start"] = frame[_START].replace({"worse": "WORSE"})
    return {
        header: ["-" if pd.isna(value) else str(value) for value in values]
        for header, values in columns.items()
    }


def _cell(mean: Any, sd: Any, low: Any, high: Any) -> str | None:
    """`.5123 ±.003 [.49, .53]`, without what is not there."""
    if pd.isna(mean):
        return None
    text = _fraction(mean, 4)
    if not pd.isna(sd):
        text += f" ±{_fraction(sd, 3)}"
    if not pd.isna(low):
        text += f" [{_fraction(low, 2)}, {_fraction(high, 2)}]"
    return text


def _fraction(number: float, decimals: int) -> str:
    """A number without the 0 before its point."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{number:.{decimals}f}")
