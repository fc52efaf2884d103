"""The records that every source gives and every stage reads, and their canonical files.

A canonical file is UTF-8 with one record a line. Only a line feed ends a line: a text may contain
U+2028.

- `collection.jsonl`: `{"doc_id", "title", "text"}`; row i of every later array is line i.
- `queries.<split>.jsonl`: `{"query_id", "text", "answers"}`.
- `qrels.<split>.tsv`: TREC form, `query_id 0 doc_id grade`, tab-separated.
- `items.<split>.jsonl`: `{"item_id", "texts", "label"}`, pairs or triplets of sentences.
- runs (`<system>.<split>.trec`): `query_id Q0 doc_id rank score system`, space-separated; ranks begin at 1.
  Of a collection that is split (`condenser.data.passages`), `doc_id` is a document, and its best passage
  stands in place of `Q0`, which no evaluation tool reads.
- similarities (`similarities.<split>.tsv`): item_id and similarities, tab-separated.
- examples (`<system>.jsonl`): `{"query_id", "positive_doc_ids", "negative_doc_ids"}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, islice
from math import isnan
from pathlib import Path
from typing import NamedTuple

from condenser.files import atomic_write, count_lines


@dataclass(frozen=True, slots=True)
class Passage:
    """One text of the collection; `title` is empty if the text has none."""

    doc_id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """One query; `answers` (of open-domain QA) are strings that a relevant passage contains."""

    query_id: str
    text: str
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Qrel:
    """One judgement; `grade` 0 means not relevant."""

    query_id: str
    doc_id: str
    grade: int


@dataclass(frozen=True, slots=True)
class Item:
    """Sentences that belong together.

    A pair has as its label a score from 0 to 5, or the number of a class. A triplet is an anchor, a positive
    and a negative, and has no label.
    """

    item_id: str
    texts: tuple[str, ...]
    label: float | None = None


class ScoredDoc(NamedTuple):
    """One line of a run; the lines of a query are ordered by rank, best first.

    A tuple, since runs have millions of lines. `passage_id` is empty where the whole document was ranked.
    """

    query_id: str
    doc_id: str
    score: float
    passage_id: str = ""

    @property
    def text_id(self) -> str:
        """The id in the collection of the text that has this score."""
        return self.passage_id or self.doc_id


@dataclass(frozen=True, slots=True)
class TrainExample:
    """One training query with its positive passages and its sampled negatives."""

    query_id: str
    positive_doc_ids: tuple[str, ...]
    negative_doc_ids: tuple[str, ...]


def _lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    with Path(path).open("rb") as file:  # a binary file splits at b"\n" alone
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
                "Did this workflow write this file?"
            ) from error


def _write_lines(path: str | Path, lines: Iterable[str]) -> int:
    count = 0
    with atomic_write(path) as file:
        for line in lines:
            file.write(f"{line}\n".encode())
            count += 1
    return count


def _write_json_lines(path: str | Path, records: Iterable) -> int:
    return _write_lines(path, (json.dumps(asdict(record), ensure_ascii=False) for record in records))


def write_passages(path: str | Path, passages: Iterable[Passage]) -> int:
    """Write a canonical collection; returns the number of passages."""
    return _write_json_lines(path, passages)


def read_passages(path: str | Path, *, first_row: int = 0) -> Iterator[Passage]:
    """The passages of a canonical collection in row order, from `first_row`; earlier lines are not parsed."""
    for record in _json_lines(path, ("doc_id", "title", "text"), first_row=first_row):
        yield Passage(**record)


def write_queries(path: str | Path, queries: Iterable[Query]) -> int:
    """Write canonical queries; returns their number."""
    return _write_json_lines(path, queries)


def read_queries(path: str | Path) -> Iterator[Query]:
    """The queries of a canonical file, in order."""
    for record in _json_lines(path, ("query_id", "text", "answers")):
        yield Query(record["query_id"], record["text"], tuple(record["answers"]))


def write_items(path: str | Path, items: Iterable[Item]) -> int:
    """Write canonical pairs or triplets; returns their number."""
    return _write_json_lines(path, items)


def read_items(path: str | Path) -> Iterator[Item]:
    """The pairs or triplets of a canonical file, in order."""
    for record in _json_lines(path, ("item_id", "texts", "label")):
        yield Item(record["item_id"], tuple(record["texts"]), record["label"])


def write_similarities(path: str | Path, rows: Iterable[tuple[str, Sequence[float]]]) -> int:
    """Write the similarities of each item, by its id; returns the number of items.

    They have nine significant digits, which represent every float32 exactly.
    """
    return _write_lines(
        path,
        ("\t".join([item_id, *(f"{one:.9g}" for one in similarities)]) for item_id, similarities in rows),
    )


def read_similarities(path: str | Path) -> Iterator[tuple[str, list[float]]]:
    """The similarities of each item, by its id, in file order.

    Raises:
        ValueError: a line has no number, or one that is NaN.
    """
    for number, line in _lines(path):
        item_id, *cells = line.decode().split("\t")
        try:
            similarities = [float(cell) for cell in cells]
            if not similarities or any(map(isnan, similarities)):
                raise ValueError("no number")
        except ValueError as error:
            raise ValueError(
                f"{path}:{number}: expected an item_id and numbers, tab-separated, "
                f"got {line.decode(errors='replace')[:80]!r}. Did this workflow write this file?"
            ) from error
        yield item_id, similarities


def write_examples(path: str | Path, examples: Iterable[TrainExample]) -> int:
    """Write training examples; returns their number."""
    return _write_json_lines(path, examples)


def read_examples(path: str | Path) -> Iterator[TrainExample]:
    """The training examples of a file, in order."""
    for record in _json_lines(path, ("query_id", "positive_doc_ids", "negative_doc_ids")):
        yield TrainExample(
            record["query_id"], tuple(record["positive_doc_ids"]), tuple(record["negative_doc_ids"])
        )


def write_qrels(path: str | Path, qrels: Iterable[Qrel]) -> int:
    """Write judgements in TREC form; returns their number."""
    return _write_lines(path, (f"{one.query_id}\t0\t{one.doc_id}\t{one.grade}" for one in qrels))


def read_qrels(path: str | Path) -> Iterator[Qrel]:
    """The judgements of a canonical file, in order.

    Raises:
        ValueError: a line does not have four columns, or its grade is not an integer.
    """
    for number, line in _lines(path):
        columns = line.decode().split("\t")
        if len(columns) != 4 or not columns[3].lstrip("-").isdigit():
            raise ValueError(
                f"{path}:{number}: expected 4 tab-separated columns (query_id 0 doc_id grade), the last an "
                f"integer, got {line.decode()[:80]!r}. Did this workflow write this file?"
            )
        yield Qrel(columns[0], columns[2], int(columns[3]))


def read_positives(path: str | Path) -> dict[str, dict[str, None]]:
    """The passages of each query that a file judges above grade 0, in order."""
    positives: dict[str, dict[str, None]] = {}
    for qrel in read_qrels(path):
        if qrel.grade > 0:
            positives.setdefault(qrel.query_id, {})[qrel.doc_id] = None
    return positives


def write_run(path: str | Path, rows: Iterable[ScoredDoc], *, system: str) -> int:
    """Write a TREC run from rows that are grouped by query, best first; returns the number of lines.

    Scores have nine significant digits, which represent every float32 exactly.
    """
    return _write_lines(
        path,
        (
            f"{query_id} {row.passage_id or 'Q0'} {row.doc_id} {rank} {row.score:.9g} {system}"
            for query_id, of_query in groupby(rows, key=lambda row: row.query_id)
            for rank, row in enumerate(of_query, start=1)
        ),
    )


def read_run(path: str | Path) -> Iterator[ScoredDoc]:
    """The lines of a TREC run, in file order (`condenser.data.runs` reads them by query, and faster).

    Raises:
        ValueError: a line is not a hit (`parse_hit`).
    """
    for number, line in _lines(path):
        yield parse_hit(path, number, line)


def parse_hit(path: str | Path, number: int, line: bytes) -> ScoredDoc:
    """One line of a TREC run, without its line feed; file and number are for the error.

    Raises:
        ValueError: the line does not have six columns, or its score is NaN or not a number.
    """
    try:
        query_id, passage_id, doc_id, _, text, _ = line.decode().split()
        if isnan(score := float(text)):
            raise ValueError("NaN cannot be ranked")
    except ValueError as error:
        raise ValueError(
            f"{path}:{number}: expected 6 columns (query_id Q0 doc_id rank score system) with a number "
            f"as score, got {line.decode(errors='replace')[:80]!r}. Is this a TREC run?"
        ) from error
    return ScoredDoc(query_id, doc_id, score, passage_id if "#" in passage_id else "")


def read_doc_ids(path: str | Path) -> list[str]:
    """The ids of a collection in row order, from its file `doc_ids.txt` (one id a line)."""
    return [line.decode() for _, line in _lines(path)]


def count_doc_ids(path: str | Path) -> int:
    """The number of passages of a collection, from its file `doc_ids.txt`."""
    return count_lines(path)


def passage_id(doc_id: str, number: int) -> str:
    """The id of a passage of a document that is split; numbers begin with 1."""
    return f"{doc_id}#{number}"


def document_of(passage_id: str) -> str:
    """The id of a passage's document.

    >>> document_of("d7#3"), document_of("a#b#12")
    ('d7', 'a#b')
    """
    return passage_id.rpartition("#")[0]


def first_passage(doc_id: str) -> str:
    """The id of a document's first passage, which every document has."""
    return passage_id(doc_id, 1)
