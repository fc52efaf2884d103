"""Single queries: what each system ranks first for them, what is judged, and what each measure says.

All of it goes into the page, so it is bounded: see `Limits`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any

from condenser.data.records import (
    first_passage,
    hits_by_query,
    is_relevant,
    read_passages,
    read_qrels,
    read_queries,
    read_run,
)
from condenser.evaluate.metrics import grades_of
from condenser.files import canonical_json, read_json, sha256_text

TOP = 10
"""Passages of each system that are shown for a query."""


@dataclass(frozen=True)
class Limits:
    """The most that a page holds.

    Attributes:
        queries: more are left out by a draw.
        characters: of a passage; the rest is cut, with a mark.
        megabytes: of all of it; if it would be more, fewer queries are drawn.
    """

    queries: int
    characters: int
    megabytes: float


@dataclass(frozen=True)
class Ranking:
    """One variant of a system: its files, and its name on the page.

    Attributes:
        seeds: of the row of the table, of which only this variant is shown.
    """

    label: str
    system: str
    variant: str
    metrics: Path
    run: Path
    seeds: str


def by_query(
    rankings: Sequence[Ranking],
    *,
    qrels: Path,
    queries: Path,
    collection: Path,
    is_split: bool,
    measures: Sequence[str],
    limits: Limits,
) -> dict[str, Any]:
    """What the page's script shows, as values of JSON.

    Keys: `measures`; `systems` (label, name, and by query: `values` of each measure, `first`, the rank of the
    first relevant passage or 0, `hits`, which alternate passage and score); `queries` (id, text);
    `judged` (by query: passage and grade, alternating); `passages` (id, title, text, 1 if it is cut);
    `num_queries` of the evaluation; `relevant_grade`. Passages are numbers into `passages`.

    Of a collection that is split, all these passages are documents, shown by the first one of theirs, and
    each system has `shown` besides: of each hit, the passage that was found.
    """
    judged = grades_of(read_qrels(qrels))
    metrics = [read_json(ranking.metrics) for ranking in rankings]
    ids = metrics[0]["per_query"]["query_id"]
    grades = {query_id: judged.get(query_id, {}) for query_id in ids}  # none where answers judge the hits
    texts = {query.query_id: query.text for query in read_queries(queries)}
    drawn = sorted(ids, key=sha256_text)[: limits.queries]  # a draw that more queries only extend
    chosen = set(drawn)
    least = metrics[0]["relevant_grade"]
    relevant = {
        query_id: {doc_id for doc_id, grade in grades[query_id].items() if is_relevant(grade, least)}
        for query_id in ids
    }
    found = [top_hits(ranking.run, relevant, chosen) for ranking in rankings]
    shown = [top_passages(ranking.run, chosen) if is_split else {} for ranking in rankings]
    needed = {doc_id for hits in found for top, _ in hits.values() for doc_id, _ in top}
    needed |= {doc_id for query_id in drawn for doc_id in grades[query_id]}
    documents = {first_passage(doc_id): doc_id for doc_id in needed} if is_split else {}
    if is_split:
        needed = {*documents, *(one for of_run in shown for ids in of_run.values() for one in ids)}
    passages = {
        passage.doc_id: _cut(passage.doc_id, passage.title, passage.text, limits.characters)
        for passage in read_passages(collection)
        if passage.doc_id in needed
    }
    passages |= {
        doc_id: [doc_id, *passages[first][1:]] for first, doc_id in documents.items() if first in passages
    }
    while True:
        data = _packed(
            [query_id for query_id in ids if query_id in chosen],
            rankings,
            metrics,
            found,
            shown,
            grades,
            texts,
            passages,
            measures,
        )
        data |= {"num_queries": len(ids), "relevant_grade": least}
        num_bytes = len(canonical_json(data).encode())
        if num_bytes <= limits.megabytes * 1e6 or len(chosen) == 1:
            return data
        fewer = int(len(chosen) * limits.megabytes * 1e6 / num_bytes * 0.95)
        chosen = set(drawn[: max(1, min(fewer, len(chosen) - 1))])


def top_hits(
    run: Path, relevant: Mapping[str, set[str]], chosen: set[str]
) -> dict[str, tuple[list[tuple[str, float]], int]]:
    """The first passages of chosen queries with their scores; the rank of the first relevant one, or 0."""
    found: dict[str, tuple[list[tuple[str, float]], int]] = {}
    for query_id, hits, scores in hits_by_query(run):
        if query_id in chosen:
            wanted, doc_ids = relevant.get(query_id, set()), hits.to_pylist()
            first = next((rank for rank, doc_id in enumerate(doc_ids, start=1) if doc_id in wanted), 0)
            found[query_id] = list(zip(doc_ids[:TOP], scores[:TOP].tolist(), strict=True)), first
    return found


def top_passages(run: Path, chosen: set[str]) -> dict[str, list[str]]:
    """The passages of the first hits of chosen queries."""
    by_query = groupby(read_run(run), key=attrgetter("query_id"))
    return {
        query_id: [hit.text_id for hit in islice(hits, TOP)]
        for query_id, hits in by_query
        if query_id in chosen
    }


def _cut(doc_id: str, title: str, text: str, characters: int) -> list[Any]:
    if len(text) <= characters:
        return [doc_id, title, text, 0]
    return [doc_id, title, text[:characters].rsplit(" ", 1)[0], 1]


def _packed(
    ids: Sequence[str],
    rankings: Sequence[Ranking],
    metrics: Sequence[Mapping[str, Any]],
    found: Sequence[Mapping[str, tuple[list[tuple[str, float]], int]]],
    shown: Sequence[Mapping[str, list[str]]],
    grades: Mapping[str, Mapping[str, int]],
    texts: Mapping[str, str],
    passages: Mapping[str, Sequence[Any]],
    measures: Sequence[str],
) -> dict[str, Any]:
    """The values of `by_query` for some queries, each passage once."""
    place = {query_id: index for index, query_id in enumerate(metrics[0]["per_query"]["query_id"])}
    number: dict[str, int] = {}

    def numbered(doc_id: str) -> int:
        return number.setdefault(doc_id, len(number))

    def flat(pairs: Iterable[tuple[str, float]]) -> list[float]:
        return [value for doc_id, score in pairs for value in (numbered(doc_id), round(score, 4))]

    systems = [
        {
            "label": ranking.label,
            "name": f"{ranking.system} {ranking.variant}",
            "seeds": ranking.seeds,
            "values": {
                name: [round(one["per_query"][name][place[query_id]], 4) for query_id in ids]
                for name in measures
                if name in one["per_query"]
            },
            "first": [hits.get(query_id, ([], 0))[1] for query_id in ids],
            "hits": [flat(hits.get(query_id, ([], 0))[0]) for query_id in ids],
            **({"shown": [list(map(numbered, texts_of.get(one, ()))) for one in ids]} if texts_of else {}),
        }
        for ranking, one, hits, texts_of in zip(rankings, metrics, found, shown, strict=True)
    ]
    judged = [flat(grades[query_id].items()) for query_id in ids]
    return {
        "measures": list(measures),
        "systems": systems,
        "queries": [[query_id, texts.get(query_id, "")] for query_id in ids],
        "judged": judged,
        "passages": [list(passages.get(doc_id, (doc_id, "", "", 0))) for doc_id in number],
    }
