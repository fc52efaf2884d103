"""Judgements of a person: queries, a pool of rankings' first hits, and grades, kept in the user's folder.

The truth is a journal, `qrels/judged.jsonl` in the folder of the data set, to which each step is appended and
forced to the disk: a query, its pool, a grade, the withdrawal of one. From it `queries.judged.jsonl` and
`qrels/judged.tsv` are written anew, so that `judged` is a split like any other. A query counts there once all
texts of its pool have a grade.
"""

from __future__ import annotations

import datetime
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from condenser.files import atomic_write

SPLIT = "judged"
JOURNAL = f"qrels/{SPLIT}.jsonl"
POOL_DEPTH = 10
MOST_QUERIES = 1000
_HEADER = b"query-id\tcorpus-id\tscore\n"


@dataclass
class JudgedQuery:
    """A query with the rankings of its pool, by system, and the grades so far."""

    query_id: str
    text: str
    rankings: dict[str, list[str]] = field(default_factory=dict)
    grades: dict[str, int] = field(default_factory=dict)

    @property
    def pool(self) -> list[str]:
        """The texts to judge, in an order that shows no system: that of a digest."""
        found = {doc_id for ranking in self.rankings.values() for doc_id in ranking}
        return sorted(found, key=lambda one: hashlib.sha256(f"{self.query_id} {one}".encode()).digest())

    @property
    def left(self) -> list[str]:
        """The texts that have no grade yet."""
        return [doc_id for doc_id in self.pool if doc_id not in self.grades]

    @property
    def is_done(self) -> bool:
        """Whether it counts: its pool is judged."""
        return bool(self.rankings) and not self.left


class Judgements:
    """The judgements in the folder of one data set. Each process reads what others wrote before it writes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._journal = folder, folder / JOURNAL
        self.queries: dict[str, JudgedQuery] = {}
        self._read_bytes = 0
        self._take(self._journal.read_bytes() if self._journal.is_file() else b"")

    @property
    def done(self) -> list[JudgedQuery]:
        """The queries that count."""
        return [query for query in self.queries.values() if query.is_done]

    def add(self, texts: Sequence[str]) -> int:
        """Add queries; gives how many are new. Queries with the same text are one."""
        with self._writing() as lines:
            known = {query.text for query in self.queries.values()}
            new = list(dict.fromkeys(text for text in texts if text not in known))
            if len(self.queries) + len(new) > MOST_QUERIES:
                raise ValueError(f"queries: expected at most {MOST_QUERIES:,}, got more.")
            ids = (f"j{number}" for number in range(len(self.queries) + 1, MOST_QUERIES + 1))
            lines += [{"query": query_id, "text": text} for query_id, text in zip(ids, new, strict=False)]
        return len(new)

    def pool(self, query_id: str, rankings: Mapping[str, Sequence[str]]) -> None:
        """Add the first hits of rankings, by system, to a query's pool; the first ranking of each stays."""
        with self._writing() as lines:
            known = self.query(query_id).rankings
            new = {name: list(hits[:POOL_DEPTH]) for name, hits in rankings.items() if name not in known}
            if new:
                lines.append({"query": query_id, "depth": POOL_DEPTH, "rankings": new})

    def grade(self, query_id: str, grades: Mapping[str, int | None]) -> None:
        """Grade texts of a query's pool; None withdraws a grade."""
        with self._writing() as lines:
            if unknown := grades.keys() - set(self.query(query_id).pool):
                raise ValueError(
                    f"judgement: expected a text of {query_id}'s pool, got {min(unknown)!r:.80}."
                )
            lines += [{"query": query_id, "doc": doc_id, "grade": grade} for doc_id, grade in grades.items()]

    def query(self, query_id: str) -> JudgedQuery:
        """One of the queries.

        Raises:
            ValueError: there is none of this id.
        """
        if query_id not in self.queries:
            raise ValueError(f"query: expected one that was added, got {query_id!r:.80}.")
        return self.queries[query_id]

    @contextmanager
    def _writing(self) -> Iterator[list[dict[str, Any]]]:
        """Lines to append to the journal; the other files follow it."""
        self._journal.parent.mkdir(parents=True, exist_ok=True)
        with self._journal.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # let go of when it is closed
            file.seek(self._read_bytes)
            self._take(file.read())
            if file.tell() != self._read_bytes:  # the half of a line that a killed process wrote
                file.truncate(self._read_bytes)
            lines: list[dict[str, Any]] = []
            yield lines
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            added = b"".join(
                json.dumps({**line, "time": now}, ensure_ascii=False).encode() + b"\n" for line in lines
            )
            file.write(added)
            file.flush()
            os.fsync(file.fileno())
            self._take(added)
            if lines:
                self._write_split()

    def _take(self, content: bytes) -> None:
        """Follow the whole lines of the journal's next part."""
        whole = content[: content.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                self._follow(json.loads(line))
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise ValueError(
                    f"{self._journal}: expected a step of the judging, got something else (line {number} "
                    f"after byte {self._read_bytes}). Remove the line."
                ) from error
        self._read_bytes += len(whole)

    def _follow(self, step: Mapping[str, Any]) -> None:
        if "text" in step:
            self.queries[step["query"]] = JudgedQuery(step["query"], step["text"])
        elif "rankings" in step:
            self.queries[step["query"]].rankings.update(step["rankings"])
        elif step["grade"] is None:
            self.queries[step["query"]].grades.pop(step["doc"], None)
        else:
            self.queries[step["query"]].grades[step["doc"]] = int(step["grade"])

    def _write_split(self) -> None:
        done = self.done
        if not done and not (self.folder / f"qrels/{SPLIT}.tsv").is_file():
            return
        with atomic_write(self.folder / f"queries.{SPLIT}.jsonl") as file:
            for query in done:
                line = json.dumps({"_id": query.query_id, "text": query.text}, ensure_ascii=False)
                file.write(f"{line}\n".encode())
        with atomic_write(self.folder / f"qrels/{SPLIT}.tsv") as file:
            file.write(_HEADER)
            for query in done:
                file.writelines(
                    f"{query.query_id}\t{doc_id}\t{query.grades[doc_id]}\n".encode() for doc_id in query.pool
                )


def described_pool(journal: Path) -> dict[str, Any]:
    """From which rankings judgements were pooled, how deep, and when; for the notes of a table."""
    whole = journal.read_bytes().rpartition(b"\n")[0]
    steps = [json.loads(line) for line in whole.splitlines()]
    pooled = [step for step in steps if "rankings" in step]
    return {
        "systems": sorted({name for step in pooled for name in step["rankings"]}),
        "depth": POOL_DEPTH,
        "last": max((step["time"][:10] for step in steps), default=""),
    }
