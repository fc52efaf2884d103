"""The records that every source gives and every rule reads, and their canonical files.

A canonical file is UTF-8 with one record a line. Only a line feed ends a line: a text may contain
U+2028.

- `collection.jsonl`: `{"doc_id", "title", "text"}`; row i of every later array is line i.
- `queries.<split>.jsonl`: `{"query_id", "text", "answers"}`, and `"in_collection": true` of some (`Query`).
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
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby, islice, pairwise
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float64

from condenser.files import atomic_write

if TYPE_CHECKING:
    import pyarrow

RUN_COLUMNS = ("query_id", "passage_id", "doc_id", "rank", "score", "system")
_BLOCK_BYTES = 1 << 21  # of a run; fits into a cache


@dataclass(frozen=True, slots=True)
class Passage:
    """One text of the collection; `title` is empty if the text has none."""

    doc_id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """One query; `answers` (of open-domain QA) are strings that a relevant passage contains.

    `in_collection`: the query is itself a text of the collection, with the same id, as in ArguAna and Quora.
    No run of the query has this text (`without_own_text`).
    """

    query_id: str
    text: str
    answers: tuple[str, ...] = ()
    in_collection: bool = False


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


def _lines(path: str | Path) -> Iterator[bytes]:
    with Path(path).open("rb") as file:  # a binary file splits at b"\n" alone
        for line in file:
            yield line.rstrip(b"\n")


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
    for line in islice(_lines(path), first_row, None):
        yield Passage(**json.loads(line))


def write_queries(path: str | Path, queries: Iterable[Query]) -> int:
    """Write canonical queries; returns their number."""
    records = (asdict(query) for query in queries)
    kept = ({key: value for key, value in record.items() if value is not False} for record in records)
    return _write_lines(path, (json.dumps(record, ensure_ascii=False) for record in kept))


def read_queries(path: str | Path) -> Iterator[Query]:
    """The queries of a canonical file, in order."""
    for record in map(json.loads, _lines(path)):
        answers, in_collection = tuple(record["answers"]), record.get("in_collection", False)
        yield Query(record["query_id"], record["text"], answers, in_collection)


def without_own_text(
    hits: Iterable[ScoredDoc], in_collection: Collection[str], *, depth: int
) -> Iterator[ScoredDoc]:
    """The first `depth` hits of each query, without the query's own text.

    Source: BEIR's evaluation, which leaves out hits with the id of the query (Thakur et al. 2021).

    Args:
        hits: grouped by query, best first; `depth` + 1 of each query that is in the collection.
        in_collection: the ids of the queries that are texts of the collection (`Query.in_collection`).
    """
    for query_id, of_query in groupby(hits, key=attrgetter("query_id")):
        own_id = query_id if query_id in in_collection else None
        yield from islice((hit for hit in of_query if hit.doc_id != own_id), depth)


def comparable(text: str) -> str:
    """A text without what does not make it another one: case, and how much white space.

    >>> comparable("Who  wrote it") == comparable("who wrote\\tit ")
    True
    """
    return " ".join(text.casefold().split())


def mark_texts_of_collection(
    queries: dict[str, Query],
    collection: Path,
    doc_ids: Path,
    *,
    is_split: bool = False,
    without: Collection[str] = (),
) -> int:
    """Mark the queries, given by id, that a collection has as texts with the same id; gives their number.

    The text is that of the passage, alone or behind its title. Of a collection that is split, documents of
    one passage are recognised. `without` are queries that stay as they are.
    """
    num_marked = 0
    with doc_ids.open("rb") as ids, collection.open("rb") as passages:
        for line_of_id, line in zip(ids, passages, strict=True):
            doc_id = line_of_id.decode().removesuffix("\n")
            doc_id = doc_id.removesuffix("#1") if is_split else doc_id
            if doc_id in queries and doc_id not in without:
                passage = Passage(**json.loads(line))
                forms = passage.text, f"{passage.title} {passage.text}"
                if comparable(queries[doc_id].text) in map(comparable, forms):
                    queries[doc_id] = replace(queries[doc_id], in_collection=True)
                    num_marked += 1
    return num_marked


def write_items(path: str | Path, items: Iterable[Item]) -> int:
    """Write canonical pairs or triplets; returns their number."""
    return _write_json_lines(path, items)


def read_items(path: str | Path) -> Iterator[Item]:
    """The pairs or triplets of a canonical file, in order."""
    for record in map(json.loads, _lines(path)):
        yield Item(record["item_id"], tuple(record["texts"]), record["label"])


def write_similarities(path: str | Path, rows: Iterable[tuple[str, Sequence[float]]]) -> int:
    """Write the similarities of each item, by its id; returns the number of items.

    They have nine significant digits, which represent every float32 exactly.
    """
    return _write_lines(
        path,
        (
            "\t".join([item_id, *(f"{similarity:.9g}" for similarity in similarities)])
            for item_id, similarities in rows
        ),
    )


def read_similarities(path: str | Path) -> Iterator[tuple[str, list[float]]]:
    """The similarities of each item, by its id, in file order."""
    for line in _lines(path):
        item_id, *similarities = line.decode().split("\t")
        yield item_id, list(map(float, similarities))


def write_examples(path: str | Path, examples: Iterable[TrainExample]) -> int:
    """Write training examples; returns their number."""
    return _write_json_lines(path, examples)


def read_examples(path: str | Path) -> Iterator[TrainExample]:
    """The training examples of a file, in order."""
    for record in map(json.loads, _lines(path)):
        yield TrainExample(
            record["query_id"], tuple(record["positive_doc_ids"]), tuple(record["negative_doc_ids"])
        )


def write_qrels(path: str | Path, qrels: Iterable[Qrel]) -> int:
    """Write judgements in TREC form; returns their number."""
    return _write_lines(path, map(qrel_line, qrels))


def qrel_line(qrel: Qrel) -> str:
    """A judgement in TREC form."""
    return f"{qrel.query_id}\t0\t{qrel.doc_id}\t{qrel.grade}"


def read_qrels(path: str | Path) -> Iterator[Qrel]:
    """The judgements of a canonical file, in order."""
    for line in _lines(path):
        query_id, _, doc_id, grade = line.decode().split("\t")
        yield Qrel(query_id, doc_id, int(grade))


def is_relevant(grade: int, relevant_grade: int) -> bool:
    """Whether a passage of this grade counts as relevant, in measures and in every training."""
    return grade >= relevant_grade


def read_positives(path: str | Path, *, relevant_grade: int) -> dict[str, dict[str, None]]:
    """The relevant passages of each query that a file judges, in order."""
    positives: dict[str, dict[str, None]] = {}
    for qrel in read_qrels(path):
        if is_relevant(qrel.grade, relevant_grade):
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
    """The lines of a TREC run, in file order; of millions of lines `hits_by_query` gives columns."""
    for block in run_columns(path, "query_id", "doc_id", "score", "passage_id"):
        for query_id, doc_id, score, passage_id in zip(
            *(column.to_pylist() for column in block), strict=True
        ):
            yield ScoredDoc(query_id, doc_id, score, passage_id if "#" in passage_id else "")


def read_runs(runs: Sequence[str | Path], queries: str | Path) -> Iterator[tuple[str, list[list[ScoredDoc]]]]:
    """Each query of the file `queries`, and its hits in every run: [] where a run lacks it.

    Holds one query at a time: the queries of every run are in the order of that file.
    """
    readers = [groupby(read_run(run), key=attrgetter("query_id")) for run in runs]
    waiting = [next(reader, None) for reader in readers]
    for query in read_queries(queries):
        found: list[list[ScoredDoc]] = [[] for _ in runs]
        for place, group in enumerate(waiting):
            if group is not None and group[0] == query.query_id:
                found[place] = list(group[1])
                waiting[place] = next(readers[place], None)
        yield query.query_id, found
    assert not any(waiting), f"{runs}: a query is not in {queries}, or out of its order"


def hits_by_query(path: str | Path) -> Iterator[tuple[str, pyarrow.StringArray, Float64[np.ndarray, " hit"]]]:
    """query_id, doc_ids and scores of all hits of each query of a run, in file order."""
    import pyarrow
    import pyarrow.compute

    current: str | None = None
    doc_ids: list[pyarrow.StringArray] = []
    scores: list[np.ndarray] = []
    for query_ids, of_block, scores_of_block in run_columns(path, "query_id", "doc_id", "score"):
        changes = np.flatnonzero(pyarrow.compute.not_equal(query_ids[1:], query_ids[:-1])) + 1
        bounds = [0, *changes.tolist(), len(query_ids)]
        for start, end in pairwise(bounds):
            query_id = query_ids[start].as_py()
            if query_id != current and current is not None:
                yield current, pyarrow.concat_arrays(doc_ids), np.concatenate(scores)
                doc_ids, scores = [], []
            current = query_id
            doc_ids.append(of_block[start:end])
            scores.append(scores_of_block[start:end].to_numpy())
    if current is not None:
        yield current, pyarrow.concat_arrays(doc_ids), np.concatenate(scores)


def run_columns(path: str | Path, *names: str) -> Iterator[list[pyarrow.Array]]:
    """Some of `RUN_COLUMNS`, of a run in blocks of lines; scores are float64, all others texts."""
    import pyarrow
    from pyarrow import csv

    if not Path(path).stat().st_size:  # refused by pyarrow
        return
    types = {name: pyarrow.float64() if name == "score" else pyarrow.string() for name in names}
    with csv.open_csv(
        path,
        csv.ReadOptions(column_names=RUN_COLUMNS, use_threads=False, block_size=_BLOCK_BYTES),
        csv.ParseOptions(delimiter=" ", quote_char=False),
        csv.ConvertOptions(column_types=types, include_columns=names, null_values=[], check_utf8=False),
    ) as reader:
        for block in reader:
            if len(block):
                yield block.columns


def read_doc_ids(path: str | Path) -> list[str]:
    """The ids of a collection in row order, from its file `doc_ids.txt` (one id a line)."""
    return [line.decode() for line in _lines(path)]


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
