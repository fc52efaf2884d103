"""Lines and columns of other people's files."""

from __future__ import annotations

import io
import tracemalloc
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from condenser.data.parsing import (
    Unfit,
    check_id,
    check_text,
    decode,
    json_object,
    preview,
    tab_columns,
    text_lines,
    trec_qrel,
    whole_grade,
)
from condenser.data.records import Qrel


def lines_of(data: bytes, *, limit: int = 1000) -> tuple[list, Counter]:
    tally: Counter[str] = Counter()
    return list(text_lines(io.BytesIO(data), max_line_bytes=limit, tally=tally)), tally


def test_a_carriage_return_is_taken_off_the_end_of_a_line_and_counted():
    assert lines_of(b"a\r\nb\rc\n") == ([(1, b"a"), (2, b"b\rc")], Counter(carriage_returns=1))


def test_blank_lines_are_passed_over_and_counted_and_the_numbers_stay():
    assert lines_of(b"a\n\n \t\nb") == ([(1, b"a"), (4, b"b")], Counter(blank_lines=2))


def test_a_byte_order_mark_is_no_part_of_the_first_id():
    assert lines_of(b"\xef\xbb\xbf1\ta\n") == ([(1, b"1\ta")], Counter(byte_order_marks=1))


def test_line_separators_of_unicode_end_no_line():
    text = "one\u2028two\u0085three\x0bfour"
    lines, _ = lines_of(text.encode() + b"\n")
    assert [decode(line) for _, line in lines] == [text]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_the_limit_of_a_line_is_exact_whatever_ends_it(end):
    lines, _ = lines_of(b"x" * 10 + end, limit=10)
    assert lines == [(1, b"x" * 10)]
    (number, unfit), *rest = lines_of(b"x" * 11 + end + b"", limit=10)[0]
    assert (number, isinstance(unfit, Unfit), rest) == (1, True, [])


def test_the_line_after_one_that_is_too_long_is_read_with_its_number():
    lines, _ = lines_of(b"x" * 3_000_000 + b"\nnext\n", limit=10)
    assert lines[0][0] == 1 and "at most 10 bytes" in lines[0][1].expected
    assert lines[1:] == [(2, b"next")]


@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line), max_size=20))
def test_every_line_comes_back_or_is_counted_as_blank(lines):
    came, tally = lines_of(b"".join(line + b"\n" for line in lines))
    assert len(came) + tally["blank_lines"] == len(lines)
    for number, line in came:
        original = lines[number - 1].removesuffix(b"\r")
        assert line in (original, original.removeprefix(b"\xef\xbb\xbf"))


def message_of(function, *arguments, **keywords) -> str:
    with pytest.raises(Unfit) as caught:
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
        (trec_qrel, b"q 0 d", "got 3"),
        (trec_qrel, b"q\t0\td\t1.0", "a whole number"),
        (trec_qrel, b"q 0 d 1 extra", "got 5"),
        (trec_qrel, "q 0 d ١".encode(), "a whole number"),
    ],
)
def test_what_cannot_be_read_says_what_was_expected(function, line, part):
    assert part in message_of(function, line)


def test_another_number_of_columns_is_told_with_the_names_of_those_expected():
    assert "2 tab-separated columns (id, text), got 3" in message_of(
        tab_columns, b"1\ta\tb", names=("id", "text")
    )


@pytest.mark.parametrize("line", [b"q\t0\td\t-1", b"q 0 d -1", b" q  0\td -1 "])
def test_a_judgement_may_be_separated_by_tabs_or_spaces(line):
    assert trec_qrel(line) == Qrel("q", "d", -1)


@pytest.mark.parametrize("value", ["", " ", "a b", "a\u00a0b", "a\u2028", "\ta", "a\0", "\ud800"])
def test_an_id_that_a_run_file_could_not_hold_is_refused(value):
    message_of(check_id, "passage id", value)


@pytest.mark.parametrize("value", ["", " \n\u2003", "a\0b", "a\ud800"])
def test_a_text_that_says_nothing_or_cannot_be_written_is_refused(value):
    message_of(check_text, "passage text", value)


@pytest.mark.parametrize("value", ["NA", "null", '"', "a\u2028b", "'", "1e5", "\ufeff"])
def test_a_text_that_only_looks_odd_passes(value):
    check_text("passage text", value)


def test_a_message_shows_the_beginning_of_a_long_text_without_a_copy_of_it():
    text = "\u2028" * 3_000_000
    tracemalloc.start()
    shown = preview(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert shown == preview("\u2028" * 100) == "'" + "\\u2028" * 9 + "\\u..."
    assert peak < 100_000


def test_a_grade_of_many_digits_is_refused_before_it_is_read():
    message_of(whole_grade, "9" * 5000)
