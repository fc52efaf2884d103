"""Rows of a user's text files, and the checks of ids, texts and grades.

Only a line feed ends a line; one carriage return before it is removed and counted. Quotes, U+2028 and the
text "NA" have no special meaning.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from condenser.data.records import Passage, Qrel, Query
from condenser.files import leads_out

Record = TypeVar("Record")

MAX_LINE_BYTES = 64 << 20
MAX_ID_BYTES = 512  # of UTF-8; Lucene's limit is 32,766, but every run repeats the ids
MAX_PASSAGE_CHARACTERS = 20_000_000  # of UTF-16; the limit of Jackson, Anserini's JSON parser
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GRADE = re.compile(r"(-?[0-9]{1,9})(?:\.0+)?")  # 1.0 is 1
_TAB_ADVICE = "Is it tab-separated, without tabs inside the text?"
_JSON_CHUNK = 1 << 20  # characters
_ARRAY_BEGIN = re.compile(r"[ \t\r\n]*(?P<mark>\[[ \t\r\n]*(?P<end>\])?)?")
_ARRAY_NEXT = re.compile(r"[ \t\r\n]*(?P<mark>,[ \t\r\n]*|(?P<end>\]))?")
_ARRAY_ADVICE = "Is it the whole file, and one JSON array?"
_INVISIBLE = re.compile("[\x00-\x1f\x7f\ufeff]")


class BadRow(Exception):
    """A row that cannot be used, with the three parts of its error message."""

    def __init__(self, expected: str, got: str, advice: str) -> None:
        super().__init__(expected, got, advice)
        self.expected, self.got, self.advice = expected, got, advice

    def at(self, file: str, line: int | str, *, more: str = "") -> ValueError:
        """The error for this row: `file:line: expected ..., got .... What to do.`, and `more` behind it."""
        message = f"{file}:{line}: expected {self.expected}, got {self.got_in(file)}. {self.advice}"
        return ValueError(f"{message} {more}".rstrip())

    def got_in(self, file: str) -> str:
        """What came; not of a link out of its folder: a folder of others may lead to a private file."""
        return "other content, which is not shown of a link" if _leads_out(file) else self.got


@dataclass(frozen=True, slots=True)
class Row(Generic[Record]):
    """One row of a file: its record, or why it has none.

    Line numbers begin at 1. A row that is no line has the place of its value, such as `data[3].qas[0]`.
    """

    file: str
    line: int | str
    record: Record | BadRow


@cache
def _leads_out(file: str) -> bool:
    return leads_out(Path(file), Path(file).parent)


def preview(value: object) -> str:
    """A value for a one-line message: quoted, in ASCII, cut to 60 characters."""
    shown = ascii(value[:61] if isinstance(value, str) else value)  # a text may have millions of characters
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def text_lines(
    stream: IO[bytes], *, max_line_bytes: int, tally: Counter[str]
) -> Iterator[tuple[int, bytes | BadRow]]:
    """The lines of a file with their numbers, without line ends and blank lines.

    A line longer than `max_line_bytes` is not kept in memory; it gives an `BadRow`. `tally` counts
    `blank_lines`, `carriage_returns` (removed from line ends) and `byte_order_marks` (removed from the
    first line).
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
                BadRow(
                    f"a line of at most {max_line_bytes:,} bytes",
                    "a longer one",
                    "Are the line ends line feeds?",
                ),
            )
            continue
        if has_carriage_return:
            tally["carriage_returns"] += 1
        if number == 1 and content.startswith(BYTE_ORDER_MARK):
            content = content.removeprefix(BYTE_ORDER_MARK)
            tally["byte_order_marks"] += 1
        if not content.strip():
            tally["blank_lines"] += 1
            continue
        yield number, content


def parse_rows(
    file: str,
    lines: Iterator[tuple[int, bytes | BadRow]],
    parse: Callable[[bytes], Record],
) -> Iterator[Row[Record]]:
    """One row for each line: the record that `parse` gives, or the `BadRow` that it raises."""
    for number, line in lines:
        if isinstance(line, BadRow):
            yield Row(file, number, line)
            continue
        try:
            yield Row(file, number, parse(line))
        except BadRow as unfit:
            yield Row(file, number, unfit)


def headed_rows(
    file: str,
    lines: Iterator[tuple[int, bytes | BadRow]],
    cells_of: Callable[[bytes], Sequence[str]],
    parse: Callable[[Mapping[str, str]], Record],
    *,
    needed: Sequence[str],
) -> Iterator[Row[Record]]:
    """The rows of a table whose first line names its columns, each with as many cells as there are names.

    Raises:
        ValueError: the first line lacks a name of `needed`, or has one twice.
    """
    number, header = next(lines, (1, b""))
    names = [] if isinstance(header, BadRow) else list(cells_of(header))
    if not set(needed) <= set(names) or len(set(names)) != len(names):
        raise BadRow(
            f"a header with {', '.join(needed)}, each once",
            preview(", ".join(names)),
            "Add it as the first line.",
        ).at(file, number)

    def record(line: bytes) -> Record:
        cells = cells_of(line)
        if len(cells) != len(names):
            raise BadRow(
                f"{len(names)} columns, as in the header",
                f"{len(cells)} in {preview(decode(line))}",
                "Is a separator missing, or inside a text?",
            )
        return parse(dict(zip(names, cells, strict=True)))

    yield from parse_rows(file, lines, record)


def tab_cells(line: bytes) -> list[str]:
    """The cells of a tab-separated line, in which quotes have no meaning.

    Raises:
        BadRow: the line is not UTF-8.
    """
    return decode(line).split("\t")


def csv_cells(line: bytes, *, delimiter: str = ",") -> list[str]:
    """The cells of one line of CSV, as RFC 4180 quotes them.

    A quote that does not end in its line is a fault: it would swallow the rows below.

    Raises:
        BadRow: the line is not UTF-8, or its quotes do not fit.
    """
    text = decode(line)
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True))
    except (csv.Error, StopIteration) as error:
        raise BadRow(
            "one row of CSV in a line",
            f"{preview(text)} ({error})",
            "Close its quotes, and double those in a text.",
        ) from None


def decode(line: bytes) -> str:
    """A line as text.

    Raises:
        BadRow: the line is not UTF-8.
    """
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise BadRow(
            "UTF-8 text",
            f"the byte 0x{line[error.start]:02x} at position {error.start + 1} of the line",
            "Convert the file to UTF-8.",
        ) from None


def tab_columns(line: bytes, *, names: tuple[str, ...]) -> list[str]:
    """The columns of a tab-separated line, exactly as many as `names`.

    Raises:
        BadRow: the number of columns is another, or the line is not UTF-8.
    """
    return _counted(tab_cells(line), line, names)


def _counted(columns: list[str], line: bytes, names: tuple[str, ...]) -> list[str]:
    if len(columns) != len(names):
        raise BadRow(
            f"{len(names)} tab-separated columns ({', '.join(names)})",
            f"{len(columns)} in {preview(decode(line))}",
            _TAB_ADVICE,
        )
    return columns


def csv_columns(line: bytes, *, names: tuple[str, ...]) -> list[str]:
    r"""The columns of a tab-separated line whose columns may be quoted as in CSV.

    A line is one row: a quotation mark that is not closed in its line does not reach into the next one.

    >>> csv_columns(b'7\t"He said ""no""."\tA title', names=("id", "text", "title"))
    ['7', 'He said "no".', 'A title']

    Raises:
        BadRow: the quotation marks do not pair, the number of columns is another, or the line is not UTF-8.
    """
    return _counted(csv_cells(line, delimiter="\t"), line, names)


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a repeated key is an error, while Python would keep its last value."""
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = Counter(key for key, _ in pairs)
        repeated = next(key for key, count in keys.items() if count > 1)
        raise BadRow("each key once in an object", f"{preview(repeated)} again", "Keep one of the two.")
    return value


_JSON = json.JSONDecoder(object_pairs_hook=_object_of)  # made once: it takes longer than parsing a short line


def json_object(line: bytes) -> dict[str, Any]:
    """The JSON object of a line.

    Raises:
        BadRow: the line is not a JSON object, or one of its objects repeats a key.
    """
    text = decode(line)
    try:
        value = _JSON.decode(text)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", type(error).__name__)
        raise BadRow(
            "one JSON object", f"{preview(text)} ({reason})", "Is it JSON Lines, one object a line?"
        ) from None
    if not isinstance(value, dict):
        raise BadRow("one JSON object", preview(text), "Is it JSON Lines, one object a line?")
    return value


def json_array(file: str, stream: IO[bytes], *, max_characters: int) -> Iterator[tuple[int, Any]]:
    """The elements of a file that is one JSON array, each with the line that it begins in.

    Of the file, at most one element and some megabytes are in memory. Nothing behind a place that is not
    JSON can be read, so such a place is an error, also where bad rows are skipped.

    Raises:
        ValueError: `file:line: ...`: the file is no JSON array in UTF-8, an element is longer than
            `max_characters`, or an object repeats a key.
    """
    source = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    text, place, line, mark = "", 0, 1, _ARRAY_BEGIN
    while True:
        try:
            begin, end, elements = _next_element(text, place, mark)
        except (json.JSONDecodeError, RecursionError, BadRow) as error:  # is it cut, or wrong?
            waiting, behind_mark = len(text) - place, mark.match(text, place)
            assert behind_mark is not None, "a mark matches an empty text"
            try:
                more = source.read(max(_JSON_CHUNK, waiting)) if waiting <= max_characters else ""
            except UnicodeDecodeError as fault:
                raise BadRow("UTF-8 text", fault.reason, "Convert the file to UTF-8.").at(
                    file, line
                ) from None
            if not more:
                wrong = getattr(error, "pos", behind_mark.end())
                line += text.count("\n", place, wrong)
                raise _array_fault(error, text[wrong : wrong + 61], max_characters).at(file, line) from None
            text, place = text[place:] + more, 0
            continue
        line += text.count("\n", place, begin)
        yield from ((line, element) for element in elements)
        line += text.count("\n", begin, end)
        place, mark = end, _ARRAY_NEXT
        if not elements:
            break
    if rest := (text[place:] + source.read(_JSON_CHUNK)).strip():
        raise BadRow("the end of the file after the array", preview(rest), _ARRAY_ADVICE).at(file, line)


def _next_element(text: str, place: int, mark: re.Pattern[str]) -> tuple[int, int, list[Any]]:
    """Begin and end of the element behind the next mark of an array, and the element; none at its end.

    Raises:
        json.JSONDecodeError: this is no JSON, or the text ends where the element may go on.
    """
    match = mark.match(text, place)
    assert match is not None, "a mark matches an empty text"
    if match["mark"] is None:
        missing = "[" if mark is _ARRAY_BEGIN else ","
        raise json.JSONDecodeError(f"Expecting {missing!r}", text, match.end())
    if match["end"]:
        return match.end(), match.end(), []
    value, end = _JSON.raw_decode(text, match.end())
    if end == len(text):  # a number may be cut without an error
        raise json.JSONDecodeError("Expecting ','", text, end)
    return match.end(), end, [value]


def _array_fault(error: Exception, rest: str, max_characters: int) -> BadRow:
    if isinstance(error, BadRow):
        return error
    reason = getattr(error, "msg", type(error).__name__)
    expected = f"a JSON array with elements of at most {max_characters:,} characters"
    return BadRow(expected, f"{preview(rest) if rest else 'the end of the file'} ({reason})", _ARRAY_ADVICE)


def text_field(record: dict[str, Any], key: str, *, absent: str | None) -> str:
    """A string field of a JSON object, or `absent` if the key is missing; None makes it required.

    Raises:
        BadRow: a required key is missing, or the value is not a string.
    """
    value = record.get(key, absent)
    if not isinstance(value, str):
        if key not in record:
            raise BadRow(
                f'a field "{key}"',
                f"only {preview(sorted(record))}",
                "Add it, or rename the field that contains it.",
            )
        advice = "Add a text, or remove the row." if value is None else "Put it in quotation marks."
        if isinstance(value, list | dict):
            advice = "Write it as one text."
        raise BadRow(f'a string in "{key}"', "null" if value is None else preview(value), advice)
    return value


def whole_grade(text: str) -> int:
    """A relevance grade; `1.0`, as tables with numbers write it, is 1.

    Raises:
        BadRow: the text is not an integer of at most nine digits.
    """
    match = _GRADE.fullmatch(text)
    if not match:
        raise BadRow("an integer grade", preview(text), "Grades are 0 (not relevant), 1, 2, ...")
    return int(match[1])


def tsv_passages(*, titled: bool) -> Callable[[bytes], Passage]:
    """A parser of `id<tab>text` or `id<tab>title<tab>text`; the first valid row with a text decides which.

    Above that row, a title without a text is a passage if the file is `titled`: else it is a text and a tab.
    """
    decided: tuple[str, ...] = ()

    def parse(line: bytes) -> Passage:
        nonlocal decided
        names = decided
        if not decided:
            num_columns = decode(line).count("\t") + 1
            if num_columns not in (2, 3):
                raise BadRow(
                    "2 or 3 tab-separated columns (id, text or id, title, text)",
                    f"{num_columns} in {preview(decode(line))}",
                    _TAB_ADVICE,
                )
            names = ("id", "text") if num_columns == 2 else ("id", "title", "text")
        doc_id, *title, text = tab_columns(line, names=names)
        passage = Passage(doc_id, title[0] if title else "", text)
        if not decided:
            if not titled:
                check_text("passage text", passage.text)
            check_passage(passage)
            decided = names if passage.text.strip() else ()
        return passage

    return parse


def are_titled(lines: Iterable[tuple[int, bytes | BadRow]]) -> bool:
    """Whether the rows of a `collection.tsv` have titles, by the first valid one with a text.

    Where no row has a text, they have: a row without title and text is none.
    """
    parse = tsv_passages(titled=False)
    for _, line in lines:
        if not isinstance(line, BadRow):
            with contextlib.suppress(BadRow):
                parse(line)
                return line.count(b"\t") == 2
    return True


def tsv_query(line: bytes) -> Query:
    """A query from `id<tab>text`.

    Raises:
        BadRow: the number of columns is not 2, or the line is not UTF-8.
    """
    query_id, text = tab_columns(line, names=("id", "text"))
    return Query(query_id, text)


def json_query(line: bytes) -> Query:
    """A query from a JSON object with `_id`, `text` and optional `answers`, as BEIR has them.

    Raises:
        BadRow: the line is not such an object.
    """
    record = json_object(line)
    answers = answers_of(record.get("answers", []))
    return Query(
        text_field(record, "_id", absent=None), text_field(record, "text", absent=None), tuple(answers)
    )


def answers_of(value: Any) -> list[str]:
    """The value of `answers` in a JSON object; raises `BadRow` where it is no list of strings."""
    if isinstance(value, list) and all(isinstance(answer, str) for answer in value):
        return value
    raise BadRow('a list of strings in "answers"', preview(value), 'For instance ["Paris"].')


def trec_qrel(line: bytes) -> Qrel:
    """A judgement in TREC form: `query_id 0 doc_id grade`, separated by tabs or spaces.

    Raises:
        BadRow: the number of columns is not 4, or the grade is not an integer.
    """
    columns = re.split(r"[ \t]+", decode(line).strip(" \t"))
    if len(columns) != 4:
        raise BadRow(
            "4 columns (query_id 0 doc_id grade)",
            f"{len(columns)} in {preview(decode(line))}",
            "BEIR's three columns with a header belong to `source: beir`.",
        )
    return Qrel(columns[0], columns[2], whole_grade(columns[3]))


def check_id(what: str, value: str) -> None:
    """Check that an id can be used in TREC files and in Lucene's index.

    Raises:
        BadRow: the id is empty, is longer than `MAX_ID_BYTES`, contains white space, control characters or
            a byte order mark, or is not valid Unicode.
    """
    if value.split() != [value]:
        raise BadRow(f"a {what} without white space", preview(value), "Give every row its own id.")
    _check_characters(what, value)
    if match := _INVISIBLE.search(value):
        is_mark = match[0] == "\ufeff"
        raise BadRow(
            f"a {what} without {'byte order mark' if is_mark else 'control characters'}",
            preview(value),
            "Were files with byte order marks joined? Remove the marks." if is_mark else "Clean the id.",
        )
    if (num_bytes := len(value.encode())) > MAX_ID_BYTES:
        raise BadRow(
            f"a {what} of at most {MAX_ID_BYTES} bytes of UTF-8",
            f"{num_bytes:,}: {preview(value)}",
            "Is it an id, and not a text? Shorten it.",
        )


def check_text(what: str, value: str) -> None:
    """Check that a text is not empty and can be written as UTF-8.

    Raises:
        BadRow: the text is empty or only white space, contains NUL, or is not valid Unicode.
    """
    if not value.strip():
        raise BadRow(f"a {what} that is not empty", preview(value), "Add a text, or remove the row.")
    _check_characters(what, value)


def _check_characters(what: str, value: str) -> None:
    if "\0" in value:
        raise BadRow(f"a {what} without NUL", preview(value), "Is the file UTF-8, and complete?")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadRow(
            f"a {what} in valid Unicode", preview(value), "Repair the unpaired surrogate escape."
        ) from None


def check_passage(passage: Passage) -> None:
    """Check that every later rule can use a passage; raises `BadRow` otherwise."""
    check_id("passage id", passage.doc_id)
    _check_characters("passage title", passage.title)
    if passage.title.strip():  # a title alone is a passage, too, as in BEIR
        _check_characters("passage text", passage.text)
    else:
        check_text("passage text", passage.text)
    num_characters = _utf16_length(passage.title) + bool(passage.title) + _utf16_length(passage.text)
    if num_characters > MAX_PASSAGE_CHARACTERS:
        raise BadRow(
            f"a title and text of at most {MAX_PASSAGE_CHARACTERS:,} characters (UTF-16) together",
            f"{num_characters:,} in {preview(passage.text or passage.title)}",
            "Cut the text into shorter passages: BM25's reader has this limit.",
        )


def _utf16_length(text: str) -> int:
    """The length of a text in Java: characters above U+FFFF count twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def check_query(query: Query) -> None:
    """Check that every later rule can use a query; raises `BadRow` otherwise."""
    check_id("query id", query.query_id)
    check_text("query text", query.text)
    for answer in query.answers:
        check_text("answer", answer)
