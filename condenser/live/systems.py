"""The systems that can be asked, and the answers of those that are open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from condenser import kinds
from condenser.data.records import Passage, ScoredDoc
from condenser.files import sha256_file
from condenser.live.known import Asked, NotReady
from condenser.live.searchers import FOLDER, QUERY_ID, Found, sound_manifest
from condenser.live.texts import Lines, Texts
from condenser.manifest import OTHER_BYTES, SUFFIX, record_of
from condenser.retrieve.documents import OVERSAMPLING, best_passages
from condenser.retrieve.fusion import as_in_run

MAX_CHARACTERS = 1000
"""Of a query. Each character is a word at most, and Lucene takes 1,024 words."""

MAX_DEPTH = 100
"""Passages in one answer."""


@dataclass(frozen=True)
class Hit:
    """A passage of an answer, or a document by its best passage."""

    rank: int
    score: float
    doc_id: str
    title: str
    text: str
    passage_id: str = ""  # of a document that is split: title and text are those of its best passage


@dataclass(frozen=True)
class Answer:
    """The passages that a system finds for a query, best first.

    Attributes:
        milliseconds: time of each step, by its name; `open` where the system was opened for this query.
        notes: sentences on what the reader must know of this answer.
    """

    hits: list[Hit]
    milliseconds: dict[str, float]
    notes: list[str]


@dataclass(frozen=True)
class Ranking:
    """The hits of a system for a query, as a run has them.

    Attributes:
        rows: in the collection, of the hits where the search gave rows.
        milliseconds, notes: see `Answer`.
    """

    hits: list[ScoredDoc]
    milliseconds: dict[str, float]
    notes: list[str] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)


class LiveSystem:
    """A system that is open for queries."""

    def __init__(self, asked: Asked, systems: OpenSystems | None = None) -> None:
        """`systems` opens its parts, and keeps them open.

        Raises:
            NotReady: its files are missing, damaged, or do not belong together.
        """
        if reason := asked.state():
            raise NotReady(reason, "" if asked.error else asked.command)
        self.asked, self.stamp = asked, _stamp(asked)
        self._systems = systems or OpenSystems()
        try:
            _refuse_damaged(asked, self._systems.digest)
        except ValueError as error:
            raise NotReady(str(error), asked.command) from error
        self.texts = Texts(Lines(asked.collection), Lines(asked.doc_ids), asked.is_split)
        self._last: tuple[str, int, Ranking] | None = None
        kind = kinds.load(FOLDER, asked.kind)
        self._ranker: Any = None
        self._searcher: Any = None
        try:
            if asked.parts:
                self._step, self._ranker = kind.STEP, kind.ranker(asked.files, asked.settings, self.texts)
            else:
                self._searcher = kind.Searcher(asked.files, asked.settings, doc_ids=self.texts.doc_ids)
        except ValueError as error:
            raise NotReady(str(error), asked.command) from error

    def is_current(self) -> bool:
        """Whether its files are still those that were opened."""
        return self.stamp == _stamp(self.asked)

    def answer(self, query: str, depth: int) -> Answer:
        """The `depth` best passages for a query that `check` has passed."""
        ranking = self._ranked(query) if self._ranker else self._searched(query, depth)
        hits = []
        for rank, found in enumerate(ranking.hits[:depth], start=1):
            row = ranking.rows.get(found.text_id)
            row = self.texts.doc_ids.row_of(found.text_id.encode()) if row is None else row
            passage = self.texts.passage(row)
            hits.append(Hit(rank, found.score, found.doc_id, passage.title, passage.text, found.passage_id))
        notes = list(ranking.notes)
        if self._ranker and depth > (most := self.asked.settings["depth"]):
            notes.append(f"This system ranks at most {most} passages.")
        if self.asked.reasons:
            more = f" and {len(self.asked.reasons) - 1} more" if len(self.asked.reasons) > 1 else ""
            notes.append(f"Out of date: {self.asked.reasons[0]}{more}. Make it again: {self.asked.command}")
        return Answer(hits, ranking.milliseconds, notes)

    def run(self, query: str, depth: int) -> Ranking:
        """Its first hits as a run of the workflow has them; those of the last query are cached."""
        depth = min(depth, self.asked.settings["depth"])
        if self._last and self._last[0] == query and self._last[1] >= depth:
            kept = self._last[2]
            return Ranking(kept.hits, {}, kept.notes, kept.rows)
        ranking = self._ranked(query) if self._ranker else self._searched(query, depth)
        ranking = replace(ranking, hits=_as_in_run(ranking.hits))
        self._last = (query, depth, ranking)
        return ranking

    def _searched(self, query: str, depth: int) -> Ranking:
        """The best passages, or the documents by their best passages."""
        asked = OVERSAMPLING * depth if self.asked.is_split else depth
        while True:
            found = self._searcher.search(query, asked)
            rows, hits = self._named_hits(found)
            if not self.asked.is_split:
                break
            ids, scores = [hit.doc_id for hit in hits], [hit.score for hit in hits]
            hits = best_passages(QUERY_ID, ids, scores, depth=depth)
            if len(hits) >= depth or len(found.hits) < asked:
                break
            asked *= OVERSAMPLING  # until they are of enough documents
        return Ranking(hits, found.milliseconds, list(found.notes), rows)

    def _named_hits(self, found: Found) -> tuple[dict[str, int], list[ScoredDoc]]:
        """The rows that are known, by id, and the hits with their ids."""
        rows, hits = {}, []
        for place, score in found.hits:
            text_id = place if isinstance(place, str) else self.texts.doc_ids[place].decode()
            if not isinstance(place, str):
                rows[text_id] = place
            hits.append(ScoredDoc(QUERY_ID, text_id, score))
        return rows, hits

    def _ranked(self, query: str) -> Ranking:
        """The hits of the parts, ranked as the kind's rule ranks their runs."""
        notes, hits_of_parts = list[str](self._ranker.notes), list[list[ScoredDoc]]()
        took, rows = dict[str, float](), dict[str, int]()
        for part in self.asked.parts:
            ranking = self._systems.run(part, query, self._ranker.depth)
            if "open" in ranking.milliseconds:
                took["open"] = took.get("open", 0) + ranking.milliseconds.pop("open")
            took[part.system] = sum(ranking.milliseconds.values())
            notes += [note for note in ranking.notes if note not in notes]
            rows |= ranking.rows
            hits_of_parts.append(ranking.hits)
        began = perf_counter()
        hits = _as_in_run(self._ranker.rank(query, hits_of_parts)) if any(hits_of_parts) else []
        took[self._step] = (perf_counter() - began) * 1000
        ranking = Ranking(hits, took, notes, rows)
        self._last = (query, self.asked.settings["depth"], ranking)
        return ranking


def _as_in_run(hits: Iterable[ScoredDoc]) -> list[ScoredDoc]:
    return [hit._replace(score=as_in_run(hit.score)) for hit in hits]


def _refuse_damaged(asked: Asked, digest: Callable[[Path], str]) -> None:
    """See that the files of a system have the bytes of their manifests; a model must have one."""
    opened = [file for name, files in asked.files.items() if name != "model" for file in files]
    places = [*opened, asked.collection, asked.doc_ids]
    files = [file for place in places for file in (sorted(place.rglob("*")) if place.is_dir() else [place])]
    records = [(file, record_of(file)) for file in files if not file.is_dir()]
    for weights in asked.files.get("model", []):
        of_model = sound_manifest(Path(f"{weights.parent}{SUFFIX}"))
        records += [(file, of_model) for file in of_model.outputs]
    for file, record in records:
        if record is not None and not (file.is_file() and record.outputs[file] == digest(file)):
            raise ValueError(f"{file}: {OTHER_BYTES}, {record.spec['rule']}. Delete it.")


def _stamp(asked: Asked) -> list[tuple[int, int, int]]:
    """What changes when a file of the system is made again: every file of a result is a new one."""
    files = [*(file for files in asked.files.values() for file in files), asked.collection, asked.doc_ids]
    states = (file.stat() for file in files if file.exists())
    return [(state.st_ino, state.st_size, state.st_mtime_ns) for state in states]


class OpenSystems:
    """Open systems: each is opened at its first query, and again if its files were made again."""

    def __init__(self, digest: Callable[[Path], str] = sha256_file) -> None:
        """`digest` gives the SHA-256 of a file, or remembers it."""
        self.digest = digest
        self._open: dict[tuple[str, str, str], LiveSystem] = {}

    def answer(self, asked: Asked, query: str, depth: int) -> Answer:
        """The answer of a system, with the time that opening it took.

        Raises:
            NotReady: see `LiveSystem`.
            ValueError: the query or the depth is refused.
        """
        check(query, depth)
        live, opened = self._opened(asked)
        answer = live.answer(query, depth)
        return Answer(answer.hits, _with_open(opened, answer.milliseconds), answer.notes)

    def passage(self, asked: Asked, text_id: str) -> Passage:
        """A passage of the collection by its id; of a document that is split, its first one.

        Raises:
            ValueError: there is none.
        """
        texts = self._opened(asked)[0].texts
        try:
            return texts.passage(texts.doc_ids.row_of(text_id.encode()))
        except ValueError:
            if not texts.is_split:
                raise
            return texts.passage(texts.doc_ids.row_of(f"{text_id}#1".encode()))

    def run(self, asked: Asked, query: str, depth: int) -> Ranking:
        """The first hits in the run of a system for one query, with the time that opening it took."""
        live, opened = self._opened(asked)
        ranking = live.run(query, depth)
        took = _with_open(opened, ranking.milliseconds)
        return Ranking(ranking.hits, took, ranking.notes, ranking.rows)

    def _opened(self, asked: Asked) -> tuple[LiveSystem, float]:
        """A system that is open, and the milliseconds of opening it; 0 if it was."""
        key, began = (asked.dataset, asked.system, asked.variant), perf_counter()
        live = self._open.pop(key, None)
        if live is not None and live.is_current():
            self._open[key] = live
            return live, 0.0
        self._open[key] = LiveSystem(asked, self)
        return self._open[key], (perf_counter() - began) * 1000


def _with_open(opened: float, took: Mapping[str, float]) -> dict[str, float]:
    """The time of each step; `open` comes first, of a system and its parts together."""
    total = opened + took.get("open", 0.0)
    return {
        **({"open": total} if total else {}),
        **{step: time for step, time in took.items() if step != "open"},
    }


def check(query: str, depth: int) -> None:
    """Refuse a query or a depth that cannot be answered.

    Raises:
        ValueError: one line that says why.
    """
    if not query.strip():
        raise ValueError("query: expected words, got none.")
    if len(query) > MAX_CHARACTERS:
        raise ValueError(
            f"query: expected at most {MAX_CHARACTERS:,} characters, got {len(query):,}. Shorten it."
        )
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise ValueError("query: expected Unicode text, got half a surrogate pair.") from error
    if not 1 <= depth <= MAX_DEPTH:
        raise ValueError(f"depth: expected 1 to {MAX_DEPTH}, got {depth}.")
