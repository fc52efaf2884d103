"""Lines and columns of other people's files."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections import Counter
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from condenser.data import parsing
from condenser.data.parsing import (
    MAX_ID_BYTES,
    MAX_PASSAGE_CHARACTERS,
    BadRow,
    are_titled,
    check_id,
    check_passage,
    check_text,
    csv_columns,
    json_array,
    json_object,
    preview,
    tab_columns,
    text_lines,
    trec_qrel,
    tsv_passages,
)
from condenser.data.records import Passage, Qrel


def lines_of(data: bytes, *, limit: int = 1000) -> tuple[list, Counter]:
    tally: Counter[str] = Counter()
    return list(text_lines(io.BytesIO(data), max_line_bytes=limit, tally=tally)), tally


@pytest.mark.parametrize(
    ("data", "lines", "counted"),
    [
        (b"a\r\nb\rc\n", [(1, b"a"), (2, b"b\rc")], {"carriage_returns": 1}),
        (b"a\n\n \t\nb", [(1, b"a"), (4, b"b")], {"blank_lines": 2}),
        (b"\xef\xbb\xbf1\ta\n", [(1, b"1\ta")], {"byte_order_marks": 1}),
        ("a\u2028b\u0085c\x0bd\n".encode(), [(1, "a\u2028b\u0085c\x0bd".encode())], {}),
    ],
)
def test_what_is_no_part_of_a_text_is_taken_off_and_counted_and_the_numbers_stay(data, lines, counted):
    assert lines_of(data) == (lines, Counter(counted))


def test_the_line_after_one_that_is_too_long_is_read_with_its_number():
    lines, _ = lines_of(b"x" * 3_000_000 + b"\nnext\n", limit=10)
    assert lines[0][0] == 1 and "at most 10 bytes" in lines[0][1].expected
    assert lines[1:] == [(2, b"next")]


@given(
    st.lists(st.text("ab\r ", max_size=14).map(str.encode), max_size=6),
    st.integers(1, 10),
    st.booleans(),
)
def test_lines_are_those_of_a_plain_split_whatever_the_limit(lines, limit, is_ended):
    data = b"\n".join(lines) + (b"\n" if is_ended else b"")
    expected = {}
    for number, line in enumerate(data.split(b"\n"), start=1):
        line = line.removesuffix(b"\r")
        if len(line) > limit:
            expected[number] = None
        elif line.strip():
            expected[number] = line
    came, _ = lines_of(data, limit=limit)
    assert {number: None if isinstance(line, BadRow) else line for number, line in came} == expected


def message_of(function, *arguments, **keywords) -> str:
    with pytest.raises(BadRow) as caught:
        function(*arguments, **keywords)
    message = str(caught.value.at("file.tsv", 7))
    assert message.startswith("file.tsv:7: expected ")
    assert "\n" not in message and len(message) < 300
    return message


@pytest.mark.parametrize(
    ("function", "line", "part"),
    [
        (json_object, b"{", "one JSON object"),
        (json_object, b"[1]", "one JSON object"),
        (json_object, b"[" * 100_000, "RecursionError"),
        (json_object, b'{"a": "\xff"}', "the byte 0xff at position 8"),
        (json_object, b'{"_id": "d1", "text": "one", "text": "OTHER"}', "got 'text' again"),
        (json_object, b'{"_id": "d1", "meta": [{"\\n": 1, "\\n": 1}]}', "each key once in an object"),
        (partial(tab_columns, names=("id", "text")), b"1\ta\tb", "2 tab-separated columns (id, text), got 3"),
        (trec_qrel, b"q 0 d", "got 3"),
        (trec_qrel, b"q 0 d 1 extra", "got 5"),
    ],
)
def test_what_cannot_be_read_says_what_was_expected(function, line, part):
    assert part in message_of(function, line)


@pytest.mark.parametrize(
    ("line", "grade"),
    [
        *((b"q\t0\td\t-1", -1), (b" q  0\td -1 ", -1), (b"q 0 d 1", 1), (b"q 0 d 1.0", 1)),
        *((b"q 0 d 2.000", 2), (b"q 0 d 0.0", 0), (b"q 0 d -1.0", -1)),
    ],
)
def test_a_judgement_is_separated_by_tabs_or_spaces_and_its_grade_may_have_noughts(line, grade):
    assert trec_qrel(line) == Qrel("q", "d", grade)


@pytest.mark.parametrize("grade", [b"1.5", b"1.", b".0", b"1e0", b"1.0.0", b"9" * 10, "١".encode()])
def test_a_grade_that_is_no_whole_number_is_refused(grade):
    assert "expected an integer grade" in message_of(trec_qrel, b"q 0 d " + grade)


@pytest.mark.parametrize(
    ("value", "part"),
    [
        *((value, "without white space") for value in ("", "a b", "a\u00a0b", "a\u2028", "\ta")),
        *((value, "without control characters") for value in ("a\x01b", "a\x1b[0m", "\x7f")),
        ("a\0", "without NUL"),
        ("\ud800", "in valid Unicode"),
        ("\ufeffd1", "without byte order mark, got '\\ufeffd1'"),
        ("d\ufeff1", "without byte order mark"),
        ("x" * 513, "of at most 512 bytes of UTF-8, got 513: 'xxx"),
        ("\u00e9" * 257, "of at most 512 bytes of UTF-8, got 514: '"),
    ],
)
def test_an_id_that_a_run_or_an_index_could_not_hold_is_refused(value, part):
    assert f"expected a passage id {part}" in message_of(check_id, "passage id", value)


@pytest.mark.parametrize("value", ["x" * MAX_ID_BYTES, "\u00e9" * 256, "\x80", "a\u200bb", "https://a/b?c#d"])
def test_an_id_within_the_limits_passes(value):
    check_id("passage id", value)


def test_a_passage_is_as_long_at_most_as_the_index_can_read():
    """What Anserini reads is the title, a line feed and the text, in Java's characters."""
    half = MAX_PASSAGE_CHARACTERS // 2
    check_passage(Passage("d1", "", "x" * MAX_PASSAGE_CHARACTERS))
    check_passage(Passage("d1", "x" * half, "x" * (half - 1)))
    check_passage(Passage("d1", "", "\u20ac" * MAX_PASSAGE_CHARACTERS))
    for passage in (
        Passage("d1", "", "x" * (MAX_PASSAGE_CHARACTERS + 1)),
        Passage("d1", "x" * half, "x" * half),
        Passage("d1", "", "\U0001f600" * (half + 1)),
    ):
        assert "expected a title and text of at most 20,000,000 characters" in message_of(
            check_passage, passage
        )


def parsed(lines: list[bytes]) -> list[Passage | str]:
    parse, came = tsv_passages(titled=are_titled(enumerate(lines, start=1))), []
    for line in lines:
        try:
            came.append(parse(line))
        except BadRow as unfit:
            came.append(unfit.expected)
    return came


@pytest.mark.parametrize(
    "bad", [b"no tab", b"a\tb\tc\td", b"\xff\tx\ty", b"d0\tempty at the end\t", b"d 0\tx\ty"]
)
def test_a_bad_first_row_does_not_decide_how_many_columns_there_are(bad):
    good = [Passage("d1", "", "one"), Passage("d2", "", "two")]
    first, *rest = parsed([bad, b"d1\tone", b"d2\ttwo", b"d3\tt\tthree"])
    assert isinstance(first, str)
    assert rest == [*good, "2 tab-separated columns (id, text)"]


@pytest.mark.parametrize(("title", "text"), [("a\0", "b"), ("a", "b\0"), ("a", "\ud800"), ("", "b\0")])
def test_title_and_text_of_a_passage_are_each_checked(title, text):
    message_of(check_passage, Passage("d1", title, text))


def test_a_title_alone_is_a_passage_and_does_not_decide_how_many_columns_there_are():
    check_passage(Passage("d1", "A title", " "))
    assert "expected a passage text that is not empty" in message_of(check_passage, Passage("d1", " ", ""))
    assert parsed([b"d0\tT\t", b"d1\tT\tone", b"d2\tU\t"]) == [
        *(Passage("d0", "T", ""), Passage("d1", "T", "one"), Passage("d2", "U", "")),
    ]
    assert parsed([b"d0\tT\t"]) == [Passage("d0", "T", "")]
    assert isinstance(parsed([b"d1\t ", b"d0\t\t"])[1], str)


def test_until_a_row_decides_two_or_three_columns_are_expected():
    expected = "2 or 3 tab-separated columns (id, text or id, title, text)"
    assert parsed([b"a", b"1\t2\t3\t4", b"d1\tT\tone", b"d2\ttwo"]) == [
        expected,
        expected,
        Passage("d1", "T", "one"),
        "3 tab-separated columns (id, title, text)",
    ]


@pytest.mark.parametrize("value", ["", " \n\u2003", "a\0b", "a\ud800"])
def test_a_text_that_says_nothing_or_cannot_be_written_is_refused(value):
    message_of(check_text, "passage text", value)


@pytest.mark.parametrize("value", ["NA", "null", '"', "a\u2028b", "'", "1e5", "\ufeff"])
def test_a_text_that_only_looks_odd_passes(value):
    check_text("passage text", value)


def test_a_message_shows_the_beginning_of_a_long_text():
    assert preview("\u2028" * 3_000_000) == "'" + "\\u2028" * 9 + "\\u..."


ARRAY = '[\n {"a": "\u00e9 \\"[x], \\ud83d\\ude00", "b": [1, {"c": null}]},\n\n {"a": "two"}, 17, "s]"\n]\n'


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_the_elements_of_an_array_are_those_of_the_whole_however_it_is_cut(size, mark, monkeypatch):
    monkeypatch.setattr(parsing, "_JSON_CHUNK", size)
    found = list(json_array("f", io.BytesIO(mark + ARRAY.encode()), max_characters=1000))
    assert [element for _, element in found] == json.loads(ARRAY)
    assert [line for line, _ in found] == [2, 4, 4, 4]
    assert list(json_array("f", io.BytesIO(b" [ ] \n"), max_characters=10)) == []


def test_of_a_long_array_only_a_part_is_in_memory():
    element = json.dumps({"text": "x" * 1000}) + ",\n"
    times = 20_000  # 20 MB
    content = io.BytesIO(b"[" + element.encode() * times + b"1]")
    tracemalloc.start()
    try:
        assert sum(1 for _ in json_array("f", content, max_characters=1 << 20)) == times + 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 << 20


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"f:1: ARRAY, got the end of the file \(Expecting '\['\)\. Is it the whole"),
        (b'{"a": 1}', r"f:1: ARRAY, got '\{\"a\": 1\}' \(Expecting '\['\)\. "),
        (b'[\n{"a": 1}\n{"a": 2}]', r"f:3: ARRAY, got '\{\"a\": 2\}\]' \(Expecting ','"),
        (b'[{"a": 1},\n{"a": 2}\n', r"f:3: ARRAY, got the end of the file \(Expecting ','"),
        (b'[{"a": 1},\n12', r"f:2: ARRAY, got the end of the file \(Expecting ','"),
        (b'[\n{"a":\n tru', r"f:3: ARRAY, got 'tru' \(Expecting value"),
        (b'[{"a": "cut', r"f:1: ARRAY, got '\"cut' \(Unterminated string"),
        (b'[\n{"a": 1, "a": 2}]', "f:2: expected each key once in an object, got 'a' again"),
        (b'[{"a": "\xe9 no UTF-8, and more text behind it"}]', "f:1: expected UTF-8 text, got invalid cont"),
        (b"[1] 2", "f:1: expected the end of the file after the array, got '2'"),
        (b"[1,]", r"f:1: ARRAY, got '\]' "),
        (b"[" * 100_000, "f:1: ARRAY, .*RecursionError"),
        (b'["' + b"x" * 3000 + b'"]', "f:1: expected a JSON array with elements of at most 1,000 char"),
    ],
)
def test_what_is_no_array_is_an_error_at_its_line(content, message, monkeypatch):
    monkeypatch.setattr(parsing, "_JSON_CHUNK", 64)
    limit = 1000 if content.startswith(b'["x') else 1 << 20
    with pytest.raises(ValueError, match=message.replace("ARRAY", "expected a JSON array .*")):
        list(json_array("f", io.BytesIO(content), max_characters=limit))


@pytest.mark.parametrize(
    ("line", "columns"),
    [
        (b"1\tplain text\tTitle", ["1", "plain text", "Title"]),
        (b'1\t"Say ""no"" twice."\t"""Weird"" Al"', ["1", 'Say "no" twice.', '"Weird" Al']),
        (b'1\t"a\ttab"\tTitle', ["1", "a\ttab", "Title"]),
        (b'1\tNA\ta "quoted" word', ["1", "NA", 'a "quoted" word']),
        ("1\tline\u2028separator\tT".encode(), ["1", "line\u2028separator", "T"]),
    ],
)
def test_columns_may_be_quoted_as_in_csv(line, columns):
    assert csv_columns(line, names=("id", "text", "title")) == columns


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (b'1\t"not closed\tTitle', "one row of CSV in a line"),
        (b'1\t"closed" early\tTitle', "one row of CSV in a line"),
        (b"1\ttext", "3 tab-separated columns (id, text, title)"),
        (b"1\tt\xe9xt\tTitle", "UTF-8 text"),
    ],
)
def test_a_quotation_mark_reaches_no_other_line(line, part):
    assert f"expected {part}" in message_of(csv_columns, line, names=("id", "text", "title"))
