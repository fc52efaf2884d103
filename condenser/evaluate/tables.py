"""Tables of systems and measures, from metrics files."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from condenser.evaluate.measures import parse
from condenser.evaluate.published import OFFICIAL_DEV_QUERIES, OFFICIAL_DL19_QUERIES, OFFICIAL_PASSAGES
from condenser.files import atomic_write, read_json

_OFFICIAL = "MS MARCO"
_COUNTS = ("batch_size", "passages", "queries")


def collection_name(
    dataset: str, source: str, *, num_passages: int, num_queries: int, notes: Sequence[str]
) -> str:
    """The `collection` cell. It says if the data stand in for another collection, or are incomplete.

    It is "MS MARCO" alone only where figures may stand beside published ones: all passages, all dev
    queries, no notes.
    """
    name, found = dataset, list(notes)
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
    published: Sequence[Mapping[str, str]],
    dataset: str,
    source: str,
    num_passages: int,
) -> pd.DataFrame:
    """A table of measured and published rows: method, batch size, measures, and what they were measured on.

    Published rows are there only where the collection is the official one: in the paper's order, each
    above ours of the same method. A row of several seeds shows the mean, and the standard deviation in
    columns of its own; a table of several train sizes has a column for them.

    Args:
        rows: as `condenser.experiment.table_rows` gives them.
        metrics: the metrics file of each (system, variant); none of a collection without judged queries.
        published: rows of `condenser.evaluate.published`.

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
    own = {
        "collection": collection_name(
            dataset, source, num_passages=num_passages, num_queries=num_queries, notes=notes
        ),
        "passages": num_passages,
        "queries": num_queries,
    }
    measured = [_measured(row, values, measures) | own for row in rows]
    if own["collection"] == _OFFICIAL:
        ordered = []
        for one in published:
            ordered.append({**one, **own, "origin": "published"})
            ordered += [row for row in measured if row["method"] == one["method"]]
        named = {one["method"] for one in published}
        measured = ordered + [row for row in measured if row["method"] not in named]
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
    frame = pd.DataFrame(measured, columns=columns)
    for column in columns:
        if column in _COUNTS:
            frame[column] = pd.to_numeric(frame[column]).astype("Int64")
        elif column.removesuffix("_sd") in measures:
            frame[column] = pd.to_numeric(frame[column].replace("", None)).astype("Float64")
    return frame


def _measured(
    row: Mapping[str, Any], values: Mapping[tuple[str, str], Mapping[str, float]], measures: Sequence[str]
) -> dict[str, Any]:
    of_variants = [values[row["system"], variant] for variant in row["variants"]] if values else []
    seeds = [variant.partition("seed")[2] for variant in row["variants"]]
    shown: dict[str, Any] = {
        **{key: row[key] for key in ("method", "batch_size", "backbone", "train_queries")},
        "origin": "measured" if values else None,
        "seeds": ",".join(seed for seed in seeds if seed) or None,
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


def rendered(frame: pd.DataFrame) -> str:
    """A table as text for the terminal, with a line that says what its figures are of."""
    measured = frame[frame["origin"] != "published"].iloc[-1]
    shown = frame.drop(columns=["collection", "passages", "queries", "seeds"]).astype(object)
    for column in frame.select_dtypes("Float64").columns:
        shown[column] = shown[column].map(lambda number: "-" if pd.isna(number) else f"{number:.4f}")
    text = shown.where(shown.notna(), "-").to_string(index=False)
    about = f"{measured['collection']}: {measured['passages']:,} passages, {measured['queries']:,} queries"
    if measured["collection"] == _OFFICIAL or not measured["queries"]:
        return f"{text}\n{about}."
    if str(measured["collection"]).startswith(_OFFICIAL):
        return f"{text}\n{about}. This is not what the papers' table was measured on: do not compare with it."
    return f"{text}\n{about}. This is not the papers' collection: do not compare with their figures."
