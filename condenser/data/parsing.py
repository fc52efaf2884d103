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
MAX_ID_BYTES = 512  # of UTF-8; Lucene cannot index an id above 32,766, and long ones swell every run file
MAX_PASSAGE_CHARACTERS = 20_000_000  # of UTF-16; Jackson, by which Anserini reads, refuses a longer string
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GRADE = re.compile(r"-?[0-9]{1,9}")
_TAB_ADVICE = "Is it tab-separated, without tabs inside the text?"
_INVISIBLE = re.compile("[\x00-\x1f\x7f\ufeff]")


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
        content = line.removesuffix(b"\n")
        has_carriage_return = content.endswith(b"\r")
        content = content.removesuffix(b"\r")
        if len(content) > max_line_bytes:
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
        if has_carriage_return:
            tally["carriage_returns"] += 1
        if number == 1 and content.startswith(_BYTE_ORDER_MARK):
            content = content.removeprefix(_BYTE_ORDER_MARK)
            tally["byte_order_marks"] += 1
        if not content.strip():
            tally["blank_lines"] += 1
            continue
        yield number, content


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
            _TAB_ADVICE,
        )
    return columns


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object from its keys and values, where Python's reader would keep the last of equal keys."""
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = Counter(key for key, _ in pairs)
        repeated = next(key for key, count in keys.items() if count > 1)
        raise Unfit("each key once in an object", f"{preview(repeated)} again", "Keep one of the two.")
    return value


_JSON = json.JSONDecoder(object_pairs_hook=_object_of)  # once: making one costs more than a short line


def json_object(line: bytes) -> dict[str, Any]:
    """The JSON object of a line.

    Raises:
        Unfit: the line is no JSON object, or one of its objects has a key twice.
    """
    text = decode(line)
    try:
        value = _JSON.decode(text)
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
    """A parser of `id<tab>text` or `id<tab>title<tab>text`; the first row that fits decides which."""
    decided: tuple[str, ...] = ()

    def parse(line: bytes) -> Passage:
        nonlocal decided
        names = decided
        if not decided:
            num_columns = decode(line).count("\t") + 1
            if num_columns not in (2, 3):
                raise Unfit(
                    "2 or 3 tab-separated columns (id, text or id, title, text)",
                    f"{num_columns} in {preview(decode(line))}",
                    _TAB_ADVICE,
                )
            names = ("id", "text") if num_columns == 2 else ("id", "title", "text")
        doc_id, *title, text = tab_columns(line, names=names)
        passage = Passage(doc_id, title[0] if title else "", text)
        if not decided:
            check_passage(passage)
            decided = names
        return passage

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
    """Let only ids pass that survive in TREC files and in Lucene's index.

    Raises:
        Unfit: the id is empty or above `MAX_ID_BYTES`, holds white space, control characters or a byte
            order mark, or is no valid Unicode.
    """
    if value.split() != [value]:
        raise Unfit(f"a {what} without white space", preview(value), "Give every row an id of its own.")
    _check_characters(what, value)
    if match := _INVISIBLE.search(value):
        is_mark = match[0] == "\ufeff"
        raise Unfit(
            f"a {what} without {'byte order mark' if is_mark else 'control characters'}",
            preview(value),
            "Were files with byte order marks joined? Take the marks off." if is_mark else "Clean the id.",
        )
    if (num_bytes := len(value.encode())) > MAX_ID_BYTES:
        raise Unfit(
            f"a {what} of at most {MAX_ID_BYTES} bytes of UTF-8",
            f"{num_bytes:,}: {preview(value)}",
            "Is it an id, and not a text? Runs and the BM25 index cannot hold long ones.",
        )


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
    num_characters = _utf16_length(passage.title) + bool(passage.title) + _utf16_length(passage.text)
    if num_characters > MAX_PASSAGE_CHARACTERS:
        raise Unfit(
            f"a title and text of at most {MAX_PASSAGE_CHARACTERS:,} characters (UTF-16) together",
            f"{num_characters:,} in {preview(passage.text)}",
            "Cut the text into passages: the BM25 index can read no longer one.",
        )


def _utf16_length(text: str) -> int:
    """How many characters Java counts: two for each beyond the 16 bits."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def check_query(query: Query) -> None:
    """Let only queries pass that every later stage can take; raises `Unfit` otherwise."""
    check_id("query id", query.query_id)
    check_text("query text", query.text)
    for answer in query.answers:
        check_text("answer", answer)
