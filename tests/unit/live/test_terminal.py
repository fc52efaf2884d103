"""Texts of a collection on a terminal: cut to its width, and unable to steer it."""

from __future__ import annotations

import unicodedata
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from condenser.live.known import Asked
from condenser.live.systems import Answer, Hit
from condenser.live.terminal import cut, plain, shown_answer

ASKED = Asked(
    *("mine", "learnt", "seed1", "biencoder", "A learnt one"),
    *(Path("collection.jsonl"), Path("doc_ids.txt"), {}, {}, [], None, ""),
)


def columns_of(line: str) -> int:
    wide = sum(unicodedata.east_asian_width(one) in "WF" for one in line)
    return len(line) + wide - sum(bool(unicodedata.combining(one)) for one in line)


def shown(*hits: Hit, columns: int) -> list[str]:
    return list(shown_answer(ASKED, Answer(list(hits), {"search": 1.4}, []), columns=columns))


def test_escape_sequences_and_marks_of_direction_do_not_reach_the_terminal() -> None:
    hostile = "\x1b[2J\x1b]0;title\x07red\r\n\u202ereversed\u2066\u2028end\x9b31m"
    assert plain(hostile) == "[2J ]0;title red reversed end 31m"


def test_letters_from_right_to_left_stay() -> None:
    assert plain("שלום  עולם") == "שלום עולם"


@given(st.text(), st.text(), st.integers(30, 120))
def test_no_line_of_a_hit_is_wider_than_the_terminal(title: str, text: str, columns: int) -> None:
    lines = shown(Hit(1, 0.5, "id " * 40, title, text), columns=columns)
    assert len(lines) <= 5
    for line in lines:
        assert columns_of(line) <= columns
        assert not any(unicodedata.category(one) in ("Cc", "Cf", "Cs") for one in line)


def test_two_lines_of_text_are_shown_broken_between_words() -> None:
    *_, first, second, _ = shown(Hit(3, 12.25, "d7", "Title", "word " * 40), columns=34)
    assert first == "     " + " ".join(["word"] * 5)
    assert second.startswith("     word") and second.endswith("…")


def test_rank_score_id_and_title_stand_in_the_first_line() -> None:
    lines = shown(Hit(3, 12.25, "d7", "Title", "short"), columns=80)
    assert lines[0] == "A learnt one (mine, learnt, seed1)"
    assert lines[1] == "  3    12.2500  d7  Title"
    assert lines[2:] == ["     short", "search 1 ms"]


def test_nothing_found_is_said() -> None:
    assert "No passage" in shown(columns=80)[1]


def test_a_wide_letter_is_not_cut_in_half() -> None:
    assert cut("漢字漢字", 4) == "漢…"
