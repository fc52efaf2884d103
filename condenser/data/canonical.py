"""The canonical files of one data set: every record is checked, every row is counted.

The checks are the same for all sources: texts are not empty, ids are unique and without white space, and
judgements name existing queries and passages. The files appear together, after the last check.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, combinations
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from condenser.data.archives import open_unpacked
from condenser.data.languages import LanguageTally
from condenser.data.parsing import (
    MAX_LINE_BYTES,
    BadRow,
    Row,
    check_id,
    check_passage,
    check_query,
    check_text,
    parse_rows,
    preview,
    text_lines,
)
from condenser.data.records import (
    Item,
    Passage,
    Qrel,
    Query,
    comparable,
    mark_texts_of_collection,
    qrel_line,
    read_items,
    write_items,
    write_passages,
    write_qrels,
    write_queries,
)
from condenser.files import atomic_write
from condenser.progress import track

Parsed = TypeVar("Parsed")
Record = TypeVar("Record", Passage, Query, Qrel, Item, tuple[Query, list[str]])

log = logging.getLogger("condenser")

COUNTING_S = 10.0  # how long bad rows below the first are counted


def count_judged(counts: Mapping[str, Any]) -> Mapping[str, int]:
    """The number of queries of each split (or of items, for sentences), from `counts.json`."""
    return counts.get("queries") or counts.get("items", {})


def _faults(
    rows: Iterable[Row[Record]], file: str, check: Callable[[Record], None]
) -> Iterator[BadRow | None]:
    """What is wrong with each of the next rows of one file; None of a good row."""
    for row in rows:
        if row.file != file:
            return
        try:
            if isinstance(row.record, BadRow):
                raise row.record
            check(row.record)
        except BadRow as unfit:
            yield unfit
        else:
            yield None


def _more_bad_rows(below: Iterable[BadRow | None]) -> str:
    """A sentence on the bad rows below the first one, and on how to leave out all.

    They are counted for `COUNTING_S` seconds at most. If the rest of the file
    cannot be read, the first bad row is reported all the same.
    """
    ends, number, is_whole = time.monotonic() + COUNTING_S, 0, False
    with contextlib.suppress(ValueError, OSError):
        for unfit in below:
            number += unfit is not None
            if time.monotonic() > ends:
                break
        else:
            is_whole = True
    if not number:
        return "bad_rows: skip leaves it out."
    return (
        f"And {'' if is_whole else 'at least '}{number:,} more bad row{'s' * (number > 1)} in this file; "
        "bad_rows: skip leaves them out."
    )


def _parses(line: bytes, parse: Callable[[bytes], Any]) -> bool:
    """Whether a line is a row of the form that `parse` reads."""
    try:
        parse(line)
    except BadRow:
        return False
    return True


def _add_unique(what: str, value: str, known: set[str]) -> None:
    """Add an id that must be new."""
    if value in known:
        raise BadRow(f"unique {what} ids", f"{preview(value)} again", "Remove one of the two rows.")
    known.add(value)


def _unique_query() -> Callable[[Query], None]:
    """A check of the queries of one file."""
    seen = set[str]()

    def check(query: Query) -> None:
        check_query(query)
        _add_unique("query", query.query_id, seen)

    return check


def _unknown_passage(doc_id: str) -> BadRow:
    return BadRow(
        "the id of a passage of the collection",
        preview(doc_id),
        "Do both files belong to the same collection?",
    )


def describe_left_out(counts: Mapping[str, Any]) -> str | None:
    """A sentence on the bad rows that were left out, from `counts.json`; None if there are none.

    >>> describe_left_out({"rejected_rows": {"passages": 2, "judgements of dev": 1}})
    'Left out as bad rows: 2 passages, 1 judgements of dev; rejected.jsonl lists them.'
    """
    parts = [f"{count:,} {what}" for what, count in counts.get("rejected_rows", {}).items()]
    return f"Left out as bad rows: {', '.join(parts)}; rejected.jsonl lists them." if parts else None


class CanonicalFiles:
    """Writes `collection.jsonl`, `doc_ids.txt`, `queries.<split>.jsonl`, `qrels.<split>.tsv` and
    `rejected.jsonl` of one data set into `folder`; of a data set of sentences, `items.<split>.jsonl` instead
    of queries and judgements.

    Use it in a `with` statement: the files appear in the folder if the block ends without an error. With
    `bad_rows` "strict" the first bad row is an error with file and line; with "skip" every bad row is left
    out, counted, and listed in `rejected.jsonl` (file, line, expected, got).

    `counts` has for each file `rows` = `kept` + `rejected` + `without_judgement` (queries that are not
    used) + `repeated` (judgements that occur again) + what a source leaves out, `without_text`,
    `of_documents_without_text` (judgements) and `without_positives` (questions).
    Blank lines are not rows. `rejected_rows` has the rejected rows by what they are, `passages`, `queries`,
    `judgements of <split>`, `items of <split>` or `titles`; it is not there where none is rejected.
    `repeated_texts` counts the passages that have the title and text of an earlier one under another id; they
    are kept. `queries_of_unknown_passages` has by split the queries that are left out because all their
    judgements name passages that the collection lacks. `languages` is the `LanguageTally` of the passages, of
    many only of each 64th.
    """

    def __init__(self, folder: str | Path, *, bad_rows: str) -> None:
        self._folder, self._skips = Path(folder), bad_rows == "skip"
        self._tallies: dict[str, Counter[str]] = {}
        self._parts: dict[str, tuple[str, str]] = {}  # file -> names of its part and of itself
        self._doc_ids = set[str]()
        self._totals: dict[str, Any] = {"passages": 0, "queries": {}, "qrels": {}}
        self._rejected_rows: Counter[str] = Counter()
        self._of_unknown_passages: dict[str, set[str]] = {}  # ids of queries, by split

    def __enter__(self) -> CanonicalFiles:
        self._writing = self._written_together()
        self._writing.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._writing.__exit__(*error)

    @contextmanager
    def _written_together(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=".collect-") as scratch:
            self.scratch, self._ready = Path(scratch), Path(scratch, "ready")
            self._ready.mkdir()
            with atomic_write(self._ready / "rejected.jsonl") as self._rejected:
                yield
            for file in sorted(self._ready.iterdir()):
                file.replace(self._folder / file.name)

    @property
    def counts(self) -> dict[str, Any]:
        """The numbers of rows read, kept and left out, by file and in total."""
        rejected = sum(tally["rejected"] for tally in self._tallies.values())
        files = {name: dict(sorted(tally.items())) for name, tally in sorted(self._tallies.items())}
        rejected_rows = {"rejected_rows": dict(self._rejected_rows)} if self._rejected_rows else {}
        return {"files": files, "rejected": rejected, **rejected_rows, **self._totals}

    def add_part(self, folder: str | Path, files: Iterable[Path]) -> None:
        """Count the rows of `files` together, under the name of their `folder`.

        `rejected.jsonl` names each file by its path in that folder, as files of several parts may have
        the same name.
        """
        name = Path(folder).name
        for file in files:
            self._parts[str(file)] = name, (Path(name) / file.relative_to(folder)).as_posix()

    def _names_of(self, file: str | Path) -> tuple[str, str]:
        """The names of a file in counts and in `rejected.jsonl`, without the path of this machine."""
        return self._parts.get(str(file), (Path(file).name, Path(file).name))

    def tally(self, file: str | Path) -> Counter[str]:
        """The counter of one file, or of the part it belongs to."""
        return self._tallies.setdefault(self._names_of(file)[0], Counter(rows=0, kept=0, rejected=0))

    def rows(
        self,
        path: str | Path,
        parse: Callable[[bytes], Parsed],
        *,
        header: Sequence[str] = (),
        without_header: Callable[[bytes], Parsed] | None = None,
    ) -> Iterator[Row[Parsed]]:
        """The rows of a file, plain or gzip, parsed by `parse`; below the first line, if it is a `header`.

        A file without the `header` is parsed by `without_header`, if its first line is a row of that form.

        Raises:
            ValueError: the first line is not the `header`, tab-separated.
        """
        with open_unpacked(path) as stream:
            lines = self.lines(path, stream)
            if header:  # without one the first row would be lost in silence
                number, first = next(lines, (1, b""))
                if isinstance(first, BadRow):
                    raise first.at(str(path), number)
                if without_header is not None and _parses(first, without_header):
                    lines, parse = chain([(number, first)], lines), without_header
                elif first != "\t".join(header).encode():
                    raise BadRow(
                        f"the header {' '.join(header)}, tab-separated",
                        preview(first.decode(errors="replace")),
                        "Is it the right file? Then add the header as its first line.",
                    ).at(str(path), number)
            yield from parse_rows(str(path), lines, parse)

    def lines(self, file: str | Path, stream: IO[bytes]) -> Iterator[tuple[int, bytes | BadRow]]:
        """The lines of an open stream with their numbers, counted as those of `file`."""
        return text_lines(stream, max_line_bytes=MAX_LINE_BYTES, tally=self.tally(file))

    def reject(
        self, what: str, file: str, line: int | str, unfit: BadRow, *, below: Iterable[BadRow | None] = ()
    ) -> None:
        """Leave out a bad row; `what` it is one of, for `rejected_rows`.

        `below` says of each row below it in the file what is wrong, for the message.

        Raises:
            ValueError: `bad_rows` is "strict".
        """
        if not self._skips:
            raise unfit.at(file, line, more=_more_bad_rows(below))
        self.tally(file)["rejected"] += 1
        self._rejected_rows[what] += 1
        got = unfit.got_in(file)
        record = {"file": self._names_of(file)[1], "line": line, "expected": unfit.expected, "got": got}
        self._rejected.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")

    def good_rows(
        self, what: str, rows: Iterable[Row[Record]], check: Callable[[Record], None]
    ) -> Iterator[tuple[str, int | str, Record]]:
        """File, line and record of each row that passes `check`; the other rows are rejected.

        The caller counts what becomes of a good row.
        """
        rows = iter(rows)
        for row in rows:
            self.tally(row.file)["rows"] += 1
            record = row.record
            try:
                if isinstance(record, BadRow):
                    raise record
                check(record)
            except BadRow as unfit:
                self.reject(what, row.file, row.line, unfit, below=_faults(rows, row.file, check))
            else:
                yield row.file, row.line, record

    def _kept(
        self, what: str, rows: Iterable[Row[Record]], check: Callable[[Record], None]
    ) -> Iterator[tuple[int | str, Record]]:
        """Line and record of each good row, where all of them are kept."""
        for file, line, record in self.good_rows(what, rows, check):
            self.tally(file)["kept"] += 1
            yield line, record

    def write_collection(self, rows: Iterable[Row[Passage]], *, num_rows: int | None = None) -> None:
        """Write the good passages in their order; call it once, before `write_splits`.

        `num_rows`, if known, is used only to show the time left.

        Raises:
            ValueError: no passage is left, or a row is bad and `bad_rows` is "strict".
        """

        def check(passage: Passage) -> None:
            check_passage(passage)
            _add_unique("passage", passage.doc_id, self._doc_ids)

        digests, languages = array("Q"), LanguageTally()  # of each text eight bytes
        with atomic_write(self._ready / "doc_ids.txt") as ids:

            def kept() -> Iterator[Passage]:
                counted = track(rows, "collection", total=num_rows, unit="rows")
                for row, (_, passage) in enumerate(self._kept("passages", counted, check)):
                    if row < 1000 or row % 64 == 0:
                        languages.add(passage.text)
                    ids.write(passage.doc_id.encode() + b"\n")
                    content = f"{passage.title}\0{passage.text}".encode()  # neither contains NUL
                    digests.frombytes(hashlib.blake2b(content, digest_size=8).digest())
                    yield passage

            self._totals["passages"] = write_passages(self._ready / "collection.jsonl", kept())
        self._totals["languages"] = languages.as_json()
        if not self._totals["passages"]:
            raise self._nothing_left("passages, got none that can be used. Is it the right file?")
        # two different texts count as equal with a chance of 2^-64
        if repeated := len(digests) - len(np.unique(np.frombuffer(digests, dtype=np.uint64))):
            self._totals["repeated_texts"] = repeated
            log.warning(
                "collection: passages with the title and text of an earlier one: %s of %s. They are kept: no "
                "system can tell them apart, yet only those with a judgement count as relevant.",
                f"{repeated:,}",
                f"{self._totals['passages']:,}",
            )

    def write_splits(
        self,
        qrels: Mapping[str, Iterable[Row[Qrel]]],
        queries: Sequence[tuple[Sequence[str], Iterable[Row[Query]]]],
        *,
        answered: Collection[str] = (),
    ) -> None:
        """Write the judged queries and the judgements of every split; call it after `write_collection`.

        `queries` pairs the splits of each file with its rows (BEIR has one file for all splits). A query
        is written to the splits that judge it; a query that no split judges is counted. In the splits
        `answered` the answers of a query judge it: it needs no judgement, and no passage must be relevant.

        Raises:
            ValueError: a split has no queries left or no relevant passage, or a row is bad and `bad_rows`
                is "strict".
        """
        judgements = {split: self._known_passages(split, rows) for split, rows in qrels.items()}
        judged = {split: {qrel.query_id for _, _, qrel in rows} for split, rows in judgements.items()}
        for split, ids in judged.items():
            if lost := self._of_unknown_passages.get(split, set()) - ids:
                self._totals.setdefault("queries_of_unknown_passages", {})[split] = len(lost)
        written: dict[str, dict[str, Query]] = {split: {} for split in qrels}
        for splits, rows in queries:
            with self._not_empty("queries", splits):
                of_splits = {split: judged[split] for split in splits}
                self._sort_queries(rows, of_splits, answered, written)
        for split, rows_of_split in judgements.items():
            kept = list(self._known_queries(split, rows_of_split, written[split]))
            self._mark_texts_of_collection(split, written[split], kept)
            if split in answered and not written[split]:
                raise self._nothing_left(
                    f"queries with answers in the split {split!r}, got none. Is it the right file?"
                )
            if split not in answered and not kept:
                raise self._nothing_left(
                    f"queries with judgements in the split {split!r}, got none. "
                    "Do the ids of queries and judgements agree?"
                )
            if split not in answered and all(qrel.grade <= 0 for qrel in kept):
                raise ValueError(
                    f"{rows_of_split[0][0]}: expected a judgement above grade 0 in the split {split!r}, got "
                    "none. Grades are 0 (not relevant), 1, 2, ..."
                )
            self._totals["queries"][split] = write_queries(
                self._ready / f"queries.{split}.jsonl", written[split].values()
            )
            self._totals["qrels"][split] = write_qrels(self._ready / f"qrels.{split}.tsv", kept)
        self._count_shared(written)

    def write_relevant(self, split: str, rows: Iterable[Row[tuple[Query, list[str]]]]) -> None:
        """Write the good queries of a split, each with the passages that are relevant to it, as they come.

        Unlike `write_splits` it holds no row, for files of many millions. All query ids must differ.

        Raises:
            ValueError: there are none, or a row is bad and `bad_rows` is "strict".
        """
        name, num_judged = f"qrels.{split}.tsv", 0

        def check(row: tuple[Query, list[str]]) -> None:
            check_query(row[0])
            if unknown := [doc_id for doc_id in row[1] if doc_id not in self._doc_ids]:
                raise _unknown_passage(unknown[0])

        with atomic_write(self._ready / name) as qrels:

            def kept() -> Iterator[Query]:
                nonlocal num_judged
                for _, (query, relevant) in self._kept("queries", rows, check):
                    for doc_id in relevant:
                        qrels.write(f"{qrel_line(Qrel(query.query_id, doc_id, 1))}\n".encode())
                    num_judged += len(relevant)
                    yield query

            count = write_queries(self._ready / f"queries.{split}.jsonl", kept())
        if not count:
            raise self._nothing_left(f"queries in the split {split!r}, got none that can be used.")
        self._totals["queries"][split], self._totals["qrels"][split] = count, num_judged

    def write_unjudged(self, name: str, rows: Iterable[Row[Query]]) -> None:
        """Write the good queries of a file without judgements, in their order; nothing else is written then.

        Raises:
            ValueError: there are none, or a row is bad and `bad_rows` is "strict".
        """

        kept = (query for _, query in self._kept("queries", rows, _unique_query()))
        count = write_queries(self._ready / f"queries.{name}.jsonl", kept)
        self._totals["queries"][name] = count
        if not count:
            raise self._nothing_left("queries, got none that can be used. Is it the right file?")

    def write_items(self, rows: Mapping[str, Iterable[Row[Item]]]) -> None:
        """Write the good items of every split in their order, and the texts of the first split as collection.

        The id of an item is `<split>-<line>`. In the collection each text stands once. Items of the other
        splits whose texts the first one has together, too, are counted as `items_shared_by_splits`.

        Raises:
            ValueError: a split has no items left, or a row is bad and `bad_rows` is "strict".
        """

        def check(item: Item) -> None:
            for text in item.texts:
                check_text("sentence", text)

        def kept(split: str, of_split: Iterable[Row[Item]]) -> Iterator[Item]:
            counted = track(of_split, split, total=None, unit="rows")
            for line, item in self._kept(f"items of {split}", counted, check):
                yield Item(f"{split}-{line}", item.texts, item.label)

        places = {split: self._ready / f"items.{split}.jsonl" for split in rows}
        self._totals["items"] = {
            split: write_items(places[split], kept(split, rows[split])) for split in rows
        }
        for split, count in self._totals["items"].items():
            if not count:
                raise self._nothing_left(
                    f"items in the split {split!r}, got none that can be used. Is it the right file?"
                )
        first, *others = rows
        known = {item.texts for item in read_items(places[first])}
        self._totals["items_shared_by_splits"] = {
            f"{first}+{other}": sum(item.texts in known for item in read_items(places[other]))
            for other in others
        }
        del known
        seen: dict[str, None] = {}
        with atomic_write(self._ready / "doc_ids.txt") as ids:

            def texts() -> Iterator[Passage]:
                for item in read_items(places[first]):
                    for number, text in enumerate(item.texts, start=1):
                        if text not in seen:
                            seen[text] = None
                            ids.write(f"{item.item_id}-{number}\n".encode())
                            yield Passage(f"{item.item_id}-{number}", "", text)

            self._totals["passages"] = write_passages(self._ready / "collection.jsonl", texts())

    @contextmanager
    def _not_empty(self, what: str, splits: Sequence[str]) -> Iterator[None]:
        """Check that the files that are read inside the block have rows.

        Raises:
            ValueError: they have none.
        """
        before = set(self._tallies)
        yield
        read = self._tallies.keys() - before
        if read and not any(self._tallies[name]["rows"] for name in read):
            names = " and ".join(map(repr, splits))
            raise ValueError(
                f"{', '.join(sorted(read))}: expected {what} of the split {names}, got a file without any. "
                "Add them, or set train_split or eval_split to null if there are none."
            )

    def _known_passages(self, split: str, rows: Iterable[Row[Qrel]]) -> list[tuple[str, int | str, Qrel]]:
        """The judgements of existing passages; each pair of query and passage occurs once."""
        grades: dict[tuple[str, str], int] = {}

        def check(qrel: Qrel) -> None:
            check_id("query id", qrel.query_id)
            check_id("passage id", qrel.doc_id)
            if qrel.doc_id not in self._doc_ids:
                self._of_unknown_passages.setdefault(split, set()).add(qrel.query_id)
                raise _unknown_passage(qrel.doc_id)
            grade = grades.setdefault((qrel.query_id, qrel.doc_id), qrel.grade)
            if grade != qrel.grade:
                raise BadRow(
                    f"grade {grade} as above for query {preview(qrel.query_id)} "
                    f"and passage {preview(qrel.doc_id)}",
                    f"grade {qrel.grade}",
                    "Keep one of the two rows.",
                )

        kept: list[tuple[str, int | str, Qrel]] = []
        with self._not_empty("judgements", [split]):
            for file, line, qrel in self.good_rows(f"judgements of {split}", rows, check):
                if len(grades) == len(kept):
                    self.tally(file)["repeated"] += 1
                else:
                    kept.append((file, line, qrel))
        return kept

    def _sort_queries(
        self,
        rows: Iterable[Row[Query]],
        judged: Mapping[str, set[str]],
        answered: Collection[str],
        written: Mapping[str, dict[str, Query]],
    ) -> None:
        """Add each query of one file to the splits that judge it."""
        for file, _, query in self.good_rows("queries", rows, _unique_query()):
            of_splits = [
                split
                for split, ids in judged.items()
                if query.query_id in ids or (split in answered and query.answers)
            ]
            self.tally(file)["kept" if of_splits else "without_judgement"] += 1
            for split in of_splits:
                written[split][query.query_id] = query

    def _mark_texts_of_collection(self, split: str, queries: dict[str, Query], qrels: list[Qrel]) -> None:
        """Mark the queries that are texts of the collection themselves, and count them.

        Not those whose own text is judged relevant: it remains in their runs.
        """
        if self._doc_ids.isdisjoint(queries):
            return
        relevant = {qrel.query_id for qrel in qrels if qrel.grade > 0 and qrel.query_id == qrel.doc_id}
        files = (self._ready / name for name in ("collection.jsonl", "doc_ids.txt"))
        if num_marked := mark_texts_of_collection(queries, *files, without=relevant):
            self._totals.setdefault("queries_in_collection", {})[split] = num_marked

    def _known_queries(
        self, split: str, rows: Iterable[tuple[str, int | str, Qrel]], queries: Mapping[str, Query]
    ) -> Iterator[Qrel]:
        """The judgements whose query is written."""
        rows = iter(rows)
        for file, line, qrel in rows:
            if qrel.query_id in queries:
                self.tally(file)["kept"] += 1
                yield qrel
            else:
                unfit = BadRow(
                    "the id of a query that was kept",
                    preview(qrel.query_id),
                    "Is the query in the file of this split?",
                )
                below = (None if other.query_id in queries else unfit for *_, other in rows)
                self.reject(f"judgements of {split}", file, line, unfit, below=below)

    def _count_shared(self, written: Mapping[str, dict[str, Query]]) -> None:
        """Count the queries of each split whose text an earlier split has; ids of two files may be equal."""
        texts = {split: [comparable(query.text) for query in of.values()] for split, of in written.items()}
        for first, second in combinations(texts, 2):
            known, name = set(texts[first]), "+".join(sorted((first, second)))
            if shared := sum(text in known for text in texts[second]):
                self._totals.setdefault("queries_shared_by_splits", {})[name] = shared

    def _nothing_left(self, expected: str) -> ValueError:
        """The error of a result without rows; it says how to see why, if rows were skipped."""
        files, rejected = ", ".join(sorted(self._tallies)) or "the data", self.counts["rejected"]
        advice = (
            f" {rejected:,} rows were rejected: bad_rows: strict shows the first one." if rejected else ""
        )
        return ValueError(f"{files}: expected {expected}{advice}")
