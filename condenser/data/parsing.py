"""Rows of other people's text files: split as bytes, and one form of message for what does not fit.

A line ends at a line feed and nowhere else; one carriage return before it is taken off, and
counted. Quotes, U+2028 and the text "NA" mean nothing special.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Generic, TypeVar

from condenser.data.records import Passage, Qrel, Query

Record = TypeVar("Record")

MAX_LINE_BYTES = 64 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GRADE = re.compile(r"-?[0-9]{1,9}")


class Unfit(Exception):
    """A row that is not what it should be; the three parts of the message a person gets."""

    def __init__(self, expected: str, got: str, advice: str) -> None:
        super().__init__(expected, got, advice)
        self.expected, self.got, self.advice = expected, got, advice

    def at(self, file: str, line: int) -> ValueError:
        """The error to raise for this row: `file:line: expected ..., got .... What to do.`"""
        return ValueError(f"{file}:{line}: expected {self.expected}, got {self.got}. {self.advice}")


@dataclass(frozen=True, slots=True)
class Row(Generic[Record]):
    """One row of a file: its record, or why it has none. Lines are counted from 1."""

    file: str
    line: int
    record: Record | Unfit


def preview(value: object) -> str:
    """A value as it may stand in a one-line message: quoted and cut to 60 characters."""
    shown = ascii(value[:61] if isinstance(value, str) else value)  # a line may have millions
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def text_lines(
    stream: IO[bytes], *, max_line_bytes: int, tally: Counter[str]
) -> Iterator[tuple[int, bytes | Unfit]]:
    """The lines of a file with their numbers, without line ends; blank lines are passed over.

    A line above `max_line_bytes` is read past without being held and comes as `Unfit`. `tally`
    counts `blank_lines`, `carriage_returns` (taken off line ends) and `byte_order_marks` (taken
    off the first line).
    """
    number = 0
    while line := stream.readline(max_line_bytes + 2):
        number += 1
        if len(line.rstrip(b"\r\n")) > max_line_bytes:
            while line and not line.endswith(b"\n"):
                line = stream.readline(1 << 20)
            yield (
                number,
                Unfit(
                    f"a line of at most {max_line_bytes:,} bytes",
                    "a longer one",
                    "Are the line ends line feeds?",
                ),
            )
            continue
        if line.endswith(b"\n"):
            line = line[:-1]
        if line.endswith(b"\r"):
            line = line[:-1]
            tally["carriage_returns"] += 1
        if number == 1 and line.startswith(_BYTE_ORDER_MARK):
            line = line[len(_BYTE_ORDER_MARK) :]
            tally["byte_order_marks"] += 1
        if not line.strip():
            tally["blank_lines"] += 1
            continue
        yield number, line


def parse_rows(
    file: str,
    lines: Iterator[tuple[int, bytes | Unfit]],
    parse: Callable[[bytes], Record],
) -> Iterator[Row[Record]]:
    """Each line through `parse`; a line that raises `Unfit` becomes a row that carries it."""
    for number, line in lines:
        if isinstance(line, Unfit):
            yield Row(file, number, line)
            continue
        try:
            yield Row(file, number, parse(line))
        except Unfit as unfit:
            yield Row(file, number, unfit)


def decode(line: bytes) -> str:
    """A line as text.

    Raises:
        Unfit: the line is not UTF-8.
    """
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise Unfit(
            "UTF-8 text",
            f"the byte 0x{line[error.start]:02x} at position {error.start + 1} of the line",
            "Convert the file to UTF-8.",
        ) from None


def tab_columns(line: bytes, *, names: tuple[str, ...]) -> list[str]:
    """The columns of a tab-separated line, exactly as many as `names`.

    Raises:
        Unfit: another number of columns, or no UTF-8.
    """
    columns = decode(line).split("\t")
    if len(columns) != len(names):
        raise Unfit(
            f"{len(names)} tab-separated columns ({', '.join(names)})",
            f"{len(columns)} in {preview(decode(line))}",
            "Is it tab-separated, without tabs inside the text?",
        )
    return columns


def json_object(line: bytes) -> dict[str, Any]:
    """The JSON object of a line.

    Raises:
        Unfit: the line is no JSON object.
    """
    text = decode(line)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", type(error).__name__)
        raise Unfit(
            "one JSON object", f"{preview(text)} ({reason})", "Is it JSON Lines, one object a line?"
        ) from None
    if not isinstance(value, dict):
        raise Unfit("one JSON object", preview(text), "Is it JSON Lines, one object a line?")
    return value


def text_field(record: dict[str, Any], key: str, *, absent: str | None) -> str:
    """A text of a JSON object; `absent` stands for a missing key unless it is None.

    Raises:
        Unfit: the key is missing, or its value is no string.
    """
    value = record.get(key, absent)
    if not isinstance(value, str):
        if key not in record:
            raise Unfit(
                f'a field "{key}"',
                f"only {preview(sorted(record))}",
                "Add it, or rename what holds it.",
            )
        raise Unfit(f'a string in "{key}"', preview(value), "Write it in quotation marks.")
    return value


def whole_grade(text: str) -> int:
    """A relevance grade.

    Raises:
        Unfit: the text is no whole number of up to nine digits.
    """
    if not _GRADE.fullmatch(text):
        raise Unfit("a whole number as grade", preview(text), "Grades are 0 (not relevant), 1, 2, ...")
    return int(text)


def tsv_passages() -> Callable[[bytes], Passage]:
    """A parser of `id<tab>text` or `id<tab>title<tab>text`; its first row decides which."""
    names: tuple[str, ...] = ()

    def parse(line: bytes) -> Passage:
        nonlocal names
        if not names:
            names = ("id", "title", "text") if line.count(b"\t") == 2 else ("id", "text")
        doc_id, *title, text = tab_columns(line, names=names)
        return Passage(doc_id, title[0] if title else "", text)

    return parse


def tsv_query(line: bytes) -> Query:
    """A query from `id<tab>text`.

    Raises:
        Unfit: another number of columns, or no UTF-8.
    """
    query_id, text = tab_columns(line, names=("id", "text"))
    return Query(query_id, text)


def trec_qrel(line: bytes) -> Qrel:
    """A judgement in TREC form: `query_id 0 doc_id grade`, by tabs or spaces.

    Raises:
        Unfit: the line has another number of columns, or a grade that is no whole number.
    """
    columns = re.split(r"[ \t]+", decode(line).strip(" \t"))
    if len(columns) != 4:
        raise Unfit(
            "4 columns (query_id 0 doc_id grade)",
            f"{len(columns)} in {preview(decode(line))}",
            "BEIR's three columns with a header belong to `source: beir`.",
        )
    return Qrel(columns[0], columns[2], whole_grade(columns[3]))


def check_id(what: str, value: str) -> None:
    """Let only ids pass that survive in TREC files.

    Raises:
        Unfit: the id is empty, holds white space or NUL, or is no valid Unicode.
    """
    if value.split() != [value]:
        raise Unfit(f"a {what} without white space", preview(value), "Give every row an id of its own.")
    _check_characters(what, value)


def check_text(what: str, value: str) -> None:
    """Let only texts pass that say something and can be written.

    Raises:
        Unfit: the text is empty or white space only, holds NUL, or is no valid Unicode.
    """
    if not value.strip():
        raise Unfit(f"a {what} that is not empty", preview(value), "Give it a text, or leave the row out.")
    _check_characters(what, value)


def _check_characters(what: str, value: str) -> None:
    if "\0" in value:
        raise Unfit(f"a {what} without NUL", preview(value), "Is the file UTF-8, and complete?")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unfit(
            f"a {what} in valid Unicode", preview(value), "Repair the unpaired surrogate escape."
        ) from None


def check_passage(passage: Passage) -> None:
    """Let only passages pass that every later stage can take; raises `Unfit` otherwise."""
    check_id("passage id", passage.doc_id)
    _check_characters("passage title", passage.title)
    check_text("passage text", passage.text)


def check_query(query: Query) -> None:
    """Let only queries pass that every later stage can take; raises `Unfit` otherwise."""
    check_id("query id", query.query_id)
    check_text("query text", query.text)
    for answer in query.answers:
        check_text("answer", answer)
