"""The papers' tables, from metrics files."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from condenser.evaluate.published import (
    OFFICIAL_DEV_QUERIES,
    OFFICIAL_DL19_QUERIES,
    OFFICIAL_PASSAGES,
    TABLE_2,
)
from condenser.files import atomic_write, read_json

COLUMNS = (
    "method", "batch_size", "MRR@10", "R@1000",
    "origin", "collection", "passages", "queries", "backbone", "seeds",
)  # fmt: skip
_RECALL_DEPTH = 1000
_OFFICIAL = "MS MARCO"
_PRETRAINED = {"condenser": "Condenser", "cocondenser": "coCondenser", "backbone": "Backbone"}


def method_name(system: str) -> str:
    """A system's name in the tables, after coCondenser's Table 2.

    >>> method_name("cocondenser-round2")
    'coCondenser + hard negatives'

    Raises:
        ValueError: the tables know no such system.
    """
    if system == "bm25":
        return "BM25"
    pretrained, _, number = system.partition("-round")
    if pretrained not in _PRETRAINED or not number.isdigit() or int(number) < 1:
        raise ValueError(f"expected bm25 or <pretrained>-round<r> as system, got {system!r}.")
    if number == "1":
        return f"{_PRETRAINED[pretrained]} w/o hard negatives"
    again = "" if number == "2" else f", round {number}"
    return f"{_PRETRAINED[pretrained]} + hard negatives{again}"


def backbone_name(settings: Mapping[str, Any]) -> str:
    """What the table calls the backbone of a configuration's block: its hub id, folder or shape."""
    if "id" in settings:
        return str(settings["id"])
    if "path" in settings:
        return Path(settings["path"]).name
    if "hidden_size" in settings:
        return f"BERT from scratch, {settings['num_layers']} x {settings['hidden_size']}"
    return "all-MiniLM-L6-v2"


def collection_name(dataset: str, source: str, *, num_passages: int, num_queries: int, depth: int) -> str:
    """The `collection` cell; what stands in, is incomplete or has R@1000 at another depth says so.

    It is "MS MARCO" alone only where figures may stand beside published ones: all passages, all dev
    queries, runs as deep as the recall.
    """
    name, notes = dataset, []
    if source == "msmarco":
        name = _OFFICIAL
        if (num_passages, num_queries) == (OFFICIAL_PASSAGES, OFFICIAL_DL19_QUERIES):
            name = f"{_OFFICIAL}, TREC DL 2019"
        elif (num_passages, num_queries) != (OFFICIAL_PASSAGES, OFFICIAL_DEV_QUERIES):
            notes.append("not the official passages and queries")
    elif dataset == "msmarco":
        name = source
        notes.append("stand-in for MS MARCO")
    if depth < min(_RECALL_DEPTH, num_passages):
        notes.append(f"runs of {depth}")
    return f"{name} ({'; '.join(notes)})" if notes else name


def table2(
    results: Mapping[str, tuple[float, float]],
    *,
    dataset: str,
    source: str,
    num_passages: int,
    num_queries: int,
    depth: int,
    batch_size: int,
    backbone: str,
    seed: int,
) -> pd.DataFrame:
    """coCondenser's Table 2 with what was measured: [row, column], columns as `COLUMNS`.

    Rows come in the paper's order, then BM25, then other systems. Published rows are there only
    where the collection is the official one, each above ours of the same method.

    Args:
        results: MRR@10 and R@1000 by system.
        depth: passages a query in the runs.
        batch_size: passages, as in the paper: queries times passages per query.
    """
    measured = {method_name(system): numbers for system, numbers in results.items()}
    collection = collection_name(
        dataset, source, num_passages=num_passages, num_queries=num_queries, depth=depth
    )
    own = {
        "origin": "measured",
        "collection": collection,
        "passages": num_passages,
        "queries": num_queries,
    }
    trained = {"batch_size": batch_size, "backbone": backbone, "seeds": str(seed)}
    rows: list[dict[str, Any]] = []
    for published in TABLE_2:
        if collection == _OFFICIAL:
            rows.append(
                {
                    **own,
                    "method": published.method,
                    "batch_size": published.batch_size,
                    "MRR@10": published.mrr_at_10,
                    "R@1000": published.recall_at_1000,
                    "origin": "published",
                }
            )
        if published.method in measured:
            mrr, recall = measured.pop(published.method)
            rows.append({"method": published.method, "MRR@10": mrr, "R@1000": recall, **own, **trained})
    for method in sorted(measured, key=lambda method: method != "BM25"):
        mrr, recall = measured[method]
        of_training = {} if method == "BM25" else trained
        rows.append({"method": method, "MRR@10": mrr, "R@1000": recall, **own, **of_training})
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    for column in ("MRR@10", "R@1000"):
        frame[column] = frame[column].astype("Float64")
    for column in ("batch_size", "passages", "queries"):
        frame[column] = frame[column].astype("Int64")
    return frame


def read_results(metrics: Mapping[str, Path]) -> tuple[dict[str, tuple[float, float]], int]:
    """MRR@10 and R@1000 by system, and the number of judged queries.

    Raises:
        ValueError: a file is of another system, or the systems were measured on different queries.
    """
    results: dict[str, tuple[float, float]] = {}
    numbers: dict[str, int] = {}
    for system, file in metrics.items():
        content = read_json(file)
        if content["system"] != system:
            raise ValueError(f"{file}: expected metrics of {system}, got those of {content['system']}.")
        results[system] = (content["measures"]["MRR@10"], content["measures"]["R@1000"])
        numbers[system] = content["counts"]["queries"]
    if len(set(numbers.values())) != 1:
        raise ValueError(f"metrics: expected one number of judged queries for all systems, got {numbers}.")
    return results, next(iter(numbers.values()))


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """Write a table as TSV: fractions with four decimals, an empty cell where there is no figure."""
    text = frame.to_csv(
        None, sep="\t", index=False, float_format="%.4f", quoting=csv.QUOTE_NONE, lineterminator="\n"
    )
    with atomic_write(path) as file:
        file.write(text.encode())


def rendered(frame: pd.DataFrame) -> str:
    """A table as text for the terminal, with a line that says what its figures are of."""
    measured = frame[frame["origin"] == "measured"].iloc[-1]
    shown = frame[["method", "batch_size", "MRR@10", "R@1000", "origin", "backbone"]].astype(object)
    for column in ("MRR@10", "R@1000"):
        shown[column] = shown[column].map(lambda number: "-" if pd.isna(number) else f"{number:.4f}")
    text = shown.where(shown.notna(), "-").to_string(index=False)
    about = f"{measured['collection']}: {measured['passages']:,} passages, {measured['queries']:,} queries"
    if measured["collection"] == _OFFICIAL:
        return f"{text}\n{about}."
    if str(measured["collection"]).startswith(_OFFICIAL):
        return f"{text}\n{about}. This is not what the papers' table was measured on: do not compare with it."
    return f"{text}\n{about}. This is not the papers' collection: do not compare with their figures."
