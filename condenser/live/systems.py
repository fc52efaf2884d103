"""The systems that can be asked, and the answers of those that are open."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from condenser import kinds
from condenser.commands import make_command, search_command
from condenser.data.records import ScoredDoc
from condenser.files import read_json, sha256_file
from condenser.live.searchers import FOLDER, QUERY_ID, Found, sound_manifest
from condenser.live.texts import Lines, Texts
from condenser.manifest import OTHER_BYTES, SUFFIX, record_of
from condenser.retrieve.documents import MORE, best_passages
from condenser.retrieve.fusion import as_in_run

MAX_CHARACTERS = 1000
"""Of a query. Each character is a word at most, and Lucene takes 1,024 words."""

MAX_DEPTH = 100
"""Passages in one answer."""

USUAL = "hybrid"
"""The system that is asked where none is named."""


class NotReady(ValueError):
    """A system that has no answer yet.

    Attributes:
        command: what makes it; empty where nothing does.
    """

    def __init__(self, reason: str, command: str) -> None:
        super().__init__(f"{reason} Make it: {command}" if command else reason)
        self.reason, self.command = reason, command


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
class Asked:
    """One variant of a system of a data set, as the workflow knows it (`condenser.pipeline.known`).

    Attributes:
        files: what it needs, by name.
        reasons: why its results are out of date, by the configuration and code of today.
        error: why it cannot be asked; None if it can, once its files are made.
        is_split: whether the collection holds passages of documents.
        parts: the systems whose hits it ranks.
    """

    dataset: str
    system: str
    variant: str
    kind: str
    label: str
    collection: Path
    doc_ids: Path
    files: dict[str, list[Path]]
    settings: Mapping[str, Any]
    reasons: list[str]
    error: str | None
    command: str
    is_split: bool = False
    parts: tuple[Asked, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.dataset}, {self.system}, {self.variant}"

    def needed(self) -> list[Path]:
        """The files that it answers with, of its parts too."""
        own = [*(file for files in self.files.values() for file in files), self.collection, self.doc_ids]
        return list(dict.fromkeys([*own, *(file for part in self.parts for file in part.needed())]))

    def missing(self) -> list[Path]:
        """Those of them that are not there."""
        return [file for file in self.needed() if not file.exists()]

    def state(self) -> str | None:
        """Why there is no answer, in a sentence; None if there is one."""
        if self.error:
            return f"{self.name}: {self.error}"
        if missing := self.missing():
            return f"{self.name}: is not trained and indexed yet ({missing[0]} is missing)."
        return None


class Known:
    """What can be asked, from the file that the workflow wrote."""

    def __init__(self, file: Path, *, overlays: str = "", make_arguments: str = "") -> None:
        """
        Args:
            file: written by `condenser.pipeline.known.Known`.
            overlays: CONFIG of make, for the commands that are shown.
            make_arguments: its SNAKEMAKE_ARGS.
        """
        self._datasets: dict[str, Any] = read_json(file)
        self._written_ns = file.stat().st_mtime_ns
        self._given = {"overlays": overlays, "arguments": make_arguments}

    def datasets(self) -> list[str]:
        """The data sets, in the order of the configuration's names."""
        return list(self._datasets)

    def systems(self, dataset: str) -> dict[str, list[str]]:
        """The systems of a data set with their variants, the usual one first."""
        return {
            name: list(dict.fromkeys([entry["variant"], *entry["variants"]]))
            for name, entry in self._dataset(dataset)["systems"].items()
        }

    def opens_with(self, dataset: str) -> list[list[str]]:
        """Systems and variants that the page may show first; it shows the first that is ready."""
        opens_with: list[list[str]] = self._dataset(dataset)["opens_with"]
        return opens_with

    def usual(self, dataset: str) -> Asked:
        """The system that is asked where none is named: `USUAL`, or else the first one that is ready.

        Raises:
            NotReady: none is ready.
        """
        listed = [(name, variant) for name, found in self.systems(dataset).items() for variant in found]
        first = [names for names in listed if names[0] == USUAL]
        asked = [self.asked(dataset, *names) for names in (*first, *self.opens_with(dataset), *listed)]
        if ready := next((one for one in asked if one.state() is None), None):
            return ready
        raise NotReady(f"{dataset}: no system can be asked yet.", asked[0].command if asked else "")

    def question(self, asked: Asked) -> str:
        """The command of make that asks a system."""
        is_usual = asked.variant == self._datasets[asked.dataset]["systems"][asked.system]["variant"]
        variant = "" if is_usual else asked.variant
        return search_command(asked.dataset, asked.system, variant, **self._given)

    def _dataset(self, dataset: str) -> dict[str, Any]:
        overlay = "If an overlay names it, give that too: CONFIG=mine.yaml."
        return self._datasets[_named("data set", dataset, self._datasets, otherwise=overlay)]

    def asked(self, dataset: str, system: str, variant: str | None = None) -> Asked:
        """One variant of a system; None is the one of the configuration's seed and all train queries.

        Raises:
            ValueError: the configuration has no such data set or system, or no such variant was made.
        """
        texts = self._dataset(dataset)
        entry = texts["systems"][_named("system", system, texts["systems"])]
        variant = variant or entry["variant"]
        if variant not in entry["variants"]:
            known = ", ".join(self.systems(dataset)[system])
            if not re.fullmatch(entry["pattern"], variant):
                raise ValueError(f"{system}: expected a variant such as {known}, got {variant!r:.80}.")
            command = self._command(dataset, system, variant)
            raise NotReady(f"{dataset}, {system}, {variant}: is not trained and indexed yet.", command)
        return self._asked(dataset, system, variant)

    def _asked(self, dataset: str, system: str, variant: str) -> Asked:
        texts = self._datasets[dataset]
        entry = texts["systems"][system]
        of_variant = entry["variants"].get(variant, {"error": "is not made yet."})  # a part may lack one
        parts = [self._asked(dataset, *part) for part in of_variant.get("parts", [])]
        files = {
            name: [Path(file.format(variant=variant)) for file in files]
            for name, files in entry["files"].items()
        }
        if of_variant.get("model"):
            files["model"] = [Path(of_variant["model"])]
        needed = (file for files in files.values() for file in files)
        is_newer = any(file.exists() and file.stat().st_mtime_ns > self._written_ns for file in needed)
        reasons = [] if is_newer else of_variant.get("reasons", [])  # it was made again since
        error = of_variant.get("error")
        return Asked(
            dataset,
            system,
            variant,
            entry["kind"],
            entry["label"],
            Path(texts["collection"]),
            Path(texts["doc_ids"]),
            files,
            entry["settings"],
            list(dict.fromkeys([*reasons, *(reason for part in parts for reason in part.reasons)])),
            error or next((f"{part.system}: {part.error}" for part in parts if part.error), None),
            self._command(dataset, system, variant),
            texts["is_split"],
            tuple(parts),
        )

    def _command(self, dataset: str, system: str, variant: str) -> str:
        """The command that makes the files of a variant and of its parts."""
        targets = list(dict.fromkeys(self._targets(dataset, system, variant)))
        if not targets:
            return ""
        return make_command(" ".join(targets), **self._given)

    def _targets(self, dataset: str, system: str, variant: str) -> list[str]:
        entry = self._datasets[dataset]["systems"][system]
        of_variant = entry["variants"].get(variant, {})
        files = [file.format(variant=variant) for files in entry["files"].values() for file in files]
        targets = [_braced(files)] if files else []
        for part in of_variant.get("parts", []):
            targets += self._targets(dataset, *part)
        if "parts" in of_variant and of_variant.get("model"):
            targets.append(of_variant["model"])
        return targets


def _named(noun: str, name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """The name, which must be a known one."""
    known = list(known)
    if name not in known:
        raise ValueError(
            f"expected a {noun} of the configuration ({', '.join(known)}), got {name!r:.80}. "
            f"{kinds.suggest_name(name, known, otherwise=otherwise)}".rstrip()
        )
    return name


def _braced(targets: list[str]) -> str:
    """Files that differ in the number of their shard alone, as one word of a shell.

    >>> _braced(["a/collection.0-of-2.npy", "a/collection.1-of-2.npy"])
    'a/collection.{0..1}-of-2.npy'
    """
    last = len(targets) - 1
    first = targets[0].partition(".0-of-")
    if last and targets == [f"{first[0]}.{number}-of-{first[2]}" for number in range(last + 1)]:
        return f"{first[0]}.{{0..{last}}}-of-{first[2]}"
    return " ".join(targets)


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
        self._texts = Texts(Lines(asked.collection), Lines(asked.doc_ids), asked.is_split)
        self._last: tuple[str, Ranking] | None = None
        kind = kinds.load(FOLDER, asked.kind)
        self._rank: Any = None
        self._searcher: Any = None
        try:
            if asked.parts:
                self._step, self._rank = kind.STEP, kind.ranker(asked.files, asked.settings, self._texts)
            else:
                self._searcher = kind.Searcher(asked.files, asked.settings, doc_ids=self._texts.doc_ids)
        except ValueError as error:
            raise NotReady(str(error), asked.command) from error

    def is_current(self) -> bool:
        """Whether its files are still those that were opened."""
        return self.stamp == _stamp(self.asked)

    def answer(self, query: str, depth: int) -> Answer:
        """The `depth` best passages for a query that `check` has passed."""
        ranking = self._ranked(query) if self._rank else self._searched(query, depth)
        hits = []
        for rank, found in enumerate(ranking.hits[:depth], start=1):
            row = ranking.rows.get(found.text_id)
            row = self._texts.doc_ids.row_of(found.text_id.encode()) if row is None else row
            passage = self._texts.passage(row)
            hits.append(Hit(rank, found.score, found.doc_id, passage.title, passage.text, found.passage_id))
        notes = list(ranking.notes)
        if self._rank and depth > (most := self.asked.settings["depth"]):
            notes.append(f"This system ranks at most {most} passages.")
        if self.asked.reasons:
            more = f" and {len(self.asked.reasons) - 1} more" if len(self.asked.reasons) > 1 else ""
            notes.append(f"Out of date: {self.asked.reasons[0]}{more}. Make it again: {self.asked.command}")
        return Answer(hits, ranking.milliseconds, notes)

    def run(self, query: str) -> Ranking:
        """Its hits as a run of the workflow has them; those of the last query are cached."""
        if self._last and self._last[0] == query:
            kept = self._last[1]
            return Ranking(kept.hits, {}, kept.notes, kept.rows)
        depth = self.asked.settings["depth"]
        ranking = self._ranked(query) if self._rank else self._searched(query, depth)
        ranking = replace(ranking, hits=_as_in_run(ranking.hits))
        self._last = (query, ranking)
        return ranking

    def _searched(self, query: str, depth: int) -> Ranking:
        """The best passages, or the documents by their best passages."""
        asked = MORE * depth if self.asked.is_split else depth
        while True:
            found = self._searcher.search(query, asked)
            rows, hits = self._named_hits(found)
            if not self.asked.is_split:
                break
            ids, scores = [hit.doc_id for hit in hits], [hit.score for hit in hits]
            hits = best_passages(QUERY_ID, ids, scores, depth=depth)
            if len(hits) >= depth or len(found.hits) < asked:
                break
            asked *= MORE  # until they are of enough documents
        return Ranking(hits, found.milliseconds, list(found.notes), rows)

    def _named_hits(self, found: Found) -> tuple[dict[str, int], list[ScoredDoc]]:
        """The rows that are known, by id, and the hits with their ids."""
        rows, hits = {}, []
        for place, score in found.hits:
            text_id = place if isinstance(place, str) else self._texts.doc_ids[place].decode()
            if not isinstance(place, str):
                rows[text_id] = place
            hits.append(ScoredDoc(QUERY_ID, text_id, score))
        return rows, hits

    def _ranked(self, query: str) -> Ranking:
        """The hits of the parts, ranked as the kind's rule ranks their runs."""
        notes, hits_of_parts = list[str](), list[list[ScoredDoc]]()
        took, rows = dict[str, float](), dict[str, int]()
        for part in self.asked.parts:
            ranking = self._systems.run(part, query)
            if "open" in ranking.milliseconds:
                took["open"] = took.get("open", 0) + ranking.milliseconds.pop("open")
            took[part.system] = sum(ranking.milliseconds.values())
            notes += [note for note in ranking.notes if note not in notes]
            rows |= ranking.rows
            hits_of_parts.append(ranking.hits)
        began = perf_counter()
        hits = _as_in_run(self._rank(query, hits_of_parts)) if any(hits_of_parts) else []
        took[self._step] = (perf_counter() - began) * 1000
        ranking = Ranking(hits, took, notes, rows)
        self._last = (query, ranking)
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

    def run(self, asked: Asked, query: str) -> Ranking:
        """The run of a system for one query, with the time that opening it took."""
        live, opened = self._opened(asked)
        ranking = live.run(query)
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
