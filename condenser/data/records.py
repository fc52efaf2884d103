"""The records every source gives and every stage reads, and their canonical files.

Canonical files hold one record a line, UTF-8, lines ended by a single line feed and split on
nothing else (U+2028 may stand inside a text):

- `collection.jsonl`: `{"doc_id", "title", "text"}`; row i of every later array is line i.
- `queries.<split>.jsonl`: `{"query_id", "text", "answers"}`.
- `qrels.<split>.tsv`: TREC form, `query_id 0 doc_id grade`, tab-separated.
- runs (`<system>.<split>.trec`): `query_id Q0 doc_id rank score system`, space-separated, rank from 1.
- examples (`<system>.jsonl`): `{"query_id", "positive_doc_ids", "negative_doc_ids"}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from condenser.files import atomic_write


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrievable text; `title` is empty where the collection has none."""

    doc_id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """One question; `answers` are strings that an answering passage contains (open-domain QA)."""

    query_id: str
    text: str
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Qrel:
    """One judgement; `grade` 0 is judged not relevant."""

    query_id: str
    doc_id: str
    grade: int


@dataclass(frozen=True, slots=True)
class ScoredDoc:
    """One line of a run; a query's lines come in order of rank, best first."""

    query_id: str
    doc_id: str
    score: float


@dataclass(frozen=True, slots=True)
class TrainExample:
    """One training query with its judged positives and its sampled negatives."""

    query_id: str
    positive_doc_ids: tuple[str, ...]
    negative_doc_ids: tuple[str, ...]


def _lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    with Path(path).open("rb") as file:  # binary files are split on b"\n" alone
        for number, line in enumerate(file, start=1):
            yield number, line.rstrip(b"\n")


def _json_lines(path: str | Path, keys: tuple[str, ...], *, first_row: int = 0) -> Iterator[dict]:
    for number, line in islice(_lines(path), first_row, None):
        try:
            record = json.loads(line)
            yield {key: record[key] for key in keys}
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path}:{number}: expected a JSON object with {', '.join(keys)} ({error!r}). "
                "Was this file made by this workflow?"
            ) from error


def _write_json_lines(path: str | Path, records: Iterable) -> int:
    count = 0
    with atomic_write(path) as file:
        for record in records:
            file.write(json.dumps(asdict(record), ensure_ascii=False).encode() + b"\n")
            count += 1
    return count


def write_passages(path: str | Path, passages: Iterable[Passage]) -> int:
    """Write a canonical collection; gives the number of passages."""
    return _write_json_lines(path, passages)


def read_passages(path: str | Path, *, first_row: int = 0) -> Iterator[Passage]:
    """The passages of a canonical collection, in row order; lines before `first_row` are not looked into."""
    for record in _json_lines(path, ("doc_id", "title", "text"), first_row=first_row):
        yield Passage(**record)


def write_queries(path: str | Path, queries: Iterable[Query]) -> int:
    """Write canonical queries; gives their number."""
    return _write_json_lines(path, queries)


def read_queries(path: str | Path) -> Iterator[Query]:
    """The queries of a canonical file, in order."""
    for record in _json_lines(path, ("query_id", "text", "answers")):
        yield Query(record["query_id"], record["text"], tuple(record["answers"]))


def write_examples(path: str | Path, examples: Iterable[TrainExample]) -> int:
    """Write training examples; gives their number."""
    return _write_json_lines(path, examples)


def read_examples(path: str | Path) -> Iterator[TrainExample]:
    """The training examples of a file, in order."""
    for record in _json_lines(path, ("query_id", "positive_doc_ids", "negative_doc_ids")):
        yield TrainExample(
            record["query_id"], tuple(record["positive_doc_ids"]), tuple(record["negative_doc_ids"])
        )


def write_qrels(path: str | Path, qrels: Iterable[Qrel]) -> int:
    """Write judgements in TREC form; gives their number."""
    count = 0
    with atomic_write(path) as file:
        for qrel in qrels:
            file.write(f"{qrel.query_id}\t0\t{qrel.doc_id}\t{qrel.grade}\n".encode())
            count += 1
    return count


def read_qrels(path: str | Path) -> Iterator[Qrel]:
    """The judgements of a canonical file, in order.

    Raises:
        ValueError: a line has not four columns or no whole-number grade.
    """
    for number, line in _lines(path):
        columns = line.decode().split("\t")
        if len(columns) != 4 or not columns[3].lstrip("-").isdigit():
            raise ValueError(
                f"{path}:{number}: expected 4 tab-separated columns (query_id 0 doc_id grade), "
                f"got {len(columns)}. Was this file made by this workflow?"
            )
        yield Qrel(columns[0], columns[2], int(columns[3]))


def write_run(path: str | Path, rows: Iterable[ScoredDoc], *, system: str) -> int:
    """Write a TREC run; rows must come grouped by query, best first. Gives the number of lines.

    Scores are written with nine significant digits, enough to give back any float32.
    """
    count, rank, current = 0, 0, None
    with atomic_write(path) as file:
        for row in rows:
            rank = rank + 1 if row.query_id == current else 1
            current = row.query_id
            file.write(f"{row.query_id} Q0 {row.doc_id} {rank} {row.score:.9g} {system}\n".encode())
            count += 1
    return count


def read_run(path: str | Path) -> Iterator[ScoredDoc]:
    """The lines of a TREC run, in file order.

    Raises:
        ValueError: a line has not six columns, or its score is no number.
    """
    for number, line in _lines(path):
        columns = line.decode().split(" ")
        try:
            query_id, _, doc_id, _, score, _ = columns
            yield ScoredDoc(query_id, doc_id, float(score))
        except ValueError as error:
            raise ValueError(
                f"{path}:{number}: expected 6 space-separated columns "
                f"(query_id Q0 doc_id rank score system), got {len(columns)}."
            ) from error


def read_doc_ids(path: str | Path) -> list[str]:
    """The ids of a collection in row order, from its `doc_ids.txt` (one id a line)."""
    return [line.decode() for _, line in _lines(path)]


def count_doc_ids(path: str | Path) -> int:
    """How many passages a collection has, from its `doc_ids.txt`, in memory that does not grow with it."""
    return sum(1 for _ in _lines(path))
