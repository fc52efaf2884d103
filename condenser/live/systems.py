"""The systems that can be asked, and the answers of those that are open."""

from __future__ import annotations

import re
import shlex
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from condenser import kinds
from condenser.data.records import document_of
from condenser.files import read_json
from condenser.live.searchers import FOLDER, Found
from condenser.live.texts import Lines, read_passage
from condenser.retrieve.documents import MORE, best_places

MAX_CHARACTERS = 1000
"""Of a query. Each character is a word at most, and Lucene takes 1,024 words."""

MAX_DEPTH = 100
"""Passages in one answer."""

MAX_OPEN = 4
"""Systems that are kept open; of more, the one that was not asked for longest is closed."""


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

    @property
    def name(self) -> str:
        return f"{self.dataset}, {self.system}, {self.variant}"

    def missing(self) -> list[Path]:
        """The files that are not there."""
        wanted = [*(file for files in self.files.values() for file in files), self.collection, self.doc_ids]
        return [file for file in wanted if not file.exists()]

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
            file: written by `condenser.pipeline.known.write_known`.
            overlays: CONFIG of make, for the commands that are shown.
            make_arguments: its SNAKEMAKE_ARGS.
        """
        self._datasets: dict[str, Any] = read_json(file)
        self._written_ns = file.stat().st_mtime_ns
        self._arguments = {"CONFIG": overlays, "SNAKEMAKE_ARGS": make_arguments}

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
        """System and variant of what the page may show first; the first that is ready is shown."""
        opens_with: list[list[str]] = self._dataset(dataset)["opens_with"]
        return opens_with

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
        command = self._command(entry, variant)
        if variant not in entry["variants"]:
            known = ", ".join(self.systems(dataset)[system])
            if not re.fullmatch(entry["pattern"], variant):
                raise ValueError(f"{system}: expected a variant such as {known}, got {variant!r:.80}.")
            raise NotReady(f"{dataset}, {system}, {variant}: is not trained and indexed yet.", command)
        of_variant = entry["variants"][variant]
        files = {
            name: [Path(file.format(variant=variant)) for file in files]
            for name, files in entry["files"].items()
        }
        if of_variant.get("model"):
            files["model"] = [Path(of_variant["model"])]
        needed = (file for files in files.values() for file in files)
        is_newer = any(file.exists() and file.stat().st_mtime_ns > self._written_ns for file in needed)
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
            [] if is_newer else of_variant.get("reasons", []),  # it was made again since
            of_variant.get("error"),
            command,
            texts["is_split"],
        )

    def _command(self, entry: Mapping[str, Any], variant: str) -> str:
        """What makes the files of a variant."""
        targets = [file.format(variant=variant) for files in entry["files"].values() for file in files]
        if not targets:
            return ""
        given = (f" {name}={shlex.quote(text)}" for name, text in self._arguments.items() if text.strip())
        return f"make {_braced(targets)}{''.join(given)}"


def _named(noun: str, name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """The name, which must be a known one."""
    known = list(known)
    if name not in known:
        raise ValueError(
            f"expected a {noun} of the configuration ({', '.join(known)}), got {name!r:.80}. "
            f"{kinds.meant(name, known, otherwise=otherwise)}".rstrip()
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


class LiveSystem:
    """A system that is open for queries."""

    def __init__(self, asked: Asked) -> None:
        """
        Raises:
            NotReady: its files are missing, damaged, or do not belong together.
        """
        if reason := asked.state():
            raise NotReady(reason, "" if asked.error else asked.command)
        self.asked, self.stamp = asked, _stamp(asked)
        self._collection, self._doc_ids = Lines(asked.collection), Lines(asked.doc_ids)
        searchers = kinds.load(FOLDER, asked.kind)
        try:
            self._searcher = searchers.Searcher(asked.files, asked.settings, doc_ids=self._doc_ids)
        except ValueError as error:
            raise NotReady(str(error), asked.command) from error

    def is_current(self) -> bool:
        """Whether its files are still those that were opened."""
        return self.stamp == _stamp(self.asked)

    def answer(self, query: str, depth: int) -> Answer:
        """The `depth` best passages for a query that `check` has passed."""
        found = self._documents(query, depth) if self.asked.is_split else self._searcher.search(query, depth)
        hits = []
        for rank, (row, score) in enumerate(found.hits, start=1):
            passage = read_passage(self._collection, self._doc_ids, row)
            hit = Hit(rank, score, passage.doc_id, passage.title, passage.text)
            if self.asked.is_split:
                hit = replace(hit, doc_id=document_of(passage.doc_id), passage_id=passage.doc_id)
            hits.append(hit)
        notes = list(found.notes)
        if self.asked.reasons:
            more = f" and {len(self.asked.reasons) - 1} more" if len(self.asked.reasons) > 1 else ""
            notes.append(f"Out of date: {self.asked.reasons[0]}{more}. Make it again: {self.asked.command}")
        return Answer(hits, found.milliseconds, notes)

    def _documents(self, query: str, depth: int) -> Found:
        """The best passages of the `depth` best documents; searches deeper until there are so many."""
        asked = MORE * depth
        while True:
            found = self._searcher.search(query, asked)
            places = best_places(document_of(self._doc_ids[row].decode()) for row, _ in found.hits)
            if len(places) >= depth or len(found.hits) < asked:
                return replace(found, hits=[found.hits[place] for place in places[:depth]])
            asked *= MORE

    def close(self) -> None:
        """Let its files go."""
        self._searcher.close()


def _stamp(asked: Asked) -> list[tuple[int, int, int]]:
    """What changes when a file of the system is made again: every file of a result is a new one."""
    files = [*(file for files in asked.files.values() for file in files), asked.collection, asked.doc_ids]
    states = (file.stat() for file in files if file.exists())
    return [(state.st_ino, state.st_size, state.st_mtime_ns) for state in states]


class OpenSystems:
    """Systems are opened when they are asked, and again when their files were made again."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, str, str], LiveSystem] = OrderedDict()

    def answer(self, asked: Asked, query: str, depth: int) -> Answer:
        """The answer of a system, with the time that opening it took.

        Raises:
            NotReady: see `LiveSystem`.
            ValueError: the query or the depth is refused.
        """
        check(query, depth)
        key = (asked.dataset, asked.system, asked.variant)
        began = perf_counter()
        live = self._open.pop(key, None)
        if live is not None and not live.is_current():
            live.close()
            live = None
        was_open = live is not None
        if live is None:
            live = LiveSystem(asked)
        self._open[key] = live
        if len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)[1].close()
        opened = (perf_counter() - began) * 1000
        answer = live.answer(query, depth)
        took = answer.milliseconds if was_open else {"open": opened, **answer.milliseconds}
        return Answer(answer.hits, took, answer.notes)


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
