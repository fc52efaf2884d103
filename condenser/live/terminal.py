"""Answers as lines of a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from condenser.live.known import USUAL, Asked, Known
from condenser.live.systems import Answer

_TEXT_LINES = 2


def plain(text: str) -> str:
    """A text on one line that cannot steer a terminal.

    Control characters (colours, cursor) become spaces; marks that turn the direction of writing go, because
    they would turn what stands behind the text too. Letters that are written from right to left stay.

    >>> plain("a\\x1b[31m\\tb\\u202e c")
    'a [31m b c'
    """
    kept = (" " if unicodedata.category(one) in ("Cc", "Zl", "Zp", "Cs") else one for one in text)
    return " ".join("".join(one for one in kept if unicodedata.category(one) != "Cf").split())


def cut(text: str, columns: int) -> str:
    """A text cut to so many columns, with an ellipsis if it was longer; wide letters take two.

    >>> cut("abcdef", 4), cut("漢字漢字", 5), cut("abcd", 4)
    ('abc…', '漢字…', 'abcd')
    """
    if sum(map(_width, text)) <= columns:
        return text
    kept, room = "", columns - 1
    for one in text:
        room -= _width(one)
        if room < 0:
            break
        kept += one
    return f"{kept}…"


def _width(one: str) -> int:
    if unicodedata.combining(one):
        return 0
    return 2 if unicodedata.east_asian_width(one) in "WF" else 1


def _folded(text: str, columns: int, *, indent: int) -> Iterator[str]:
    """The first lines of a text."""
    room = columns - indent
    for number in range(1, _TEXT_LINES + 1):
        line = cut(text, room)
        if line == text or number == _TEXT_LINES:
            yield " " * indent + line
            return
        line = line[:-1]
        if " " in line and not text[len(line)].isspace():
            line = line[: line.rindex(" ")]
        yield " " * indent + line.rstrip()
        text = text[len(line) :].lstrip()


def shown_answer(asked: Asked, answer: Answer, *, columns: int) -> Iterator[str]:
    """The lines of an answer: rank, score, id and title of each hit, then the beginning of its text."""
    columns = max(columns, 30)
    yield cut(plain(f"{asked.label} ({asked.name})"), columns)
    for hit in answer.hits:
        title = f"  {plain(hit.title)}" if hit.title else ""
        passage = f"  passage {hit.passage_id.rpartition('#')[2]}" if hit.passage_id else ""
        yield cut(f"{hit.rank:3d}  {hit.score:9.4f}  {plain(hit.doc_id)}{passage}{title}", columns)
        if text := plain(hit.text).strip():
            yield from _folded(text, columns, indent=5)
    if not answer.hits:
        yield "No passage has a word of the query."
    yield ", ".join(f"{step} {took:,.0f} ms" for step, took in answer.milliseconds.items())
    yield from (f"note: {note}" for note in answer.notes)


def shown_systems(known: Known, datasets: Iterable[str]) -> Iterator[str]:
    """A line for each system that can be asked now, with its command; then one for each other."""
    asked = [
        known.asked(dataset, system, variant)
        for dataset in datasets
        for system, variants in known.systems(dataset).items()
        for variant in variants
    ]
    asked.sort(key=lambda one: one.system != USUAL)
    if ready := [one for one in asked if one.state() is None]:
        yield "Ask one of these:"
    for one in ready:
        outdated = f"  # out of date: {one.reasons[0]}" if one.reasons else ""
        yield f"  {known.question(one)}{outdated}"
    if len(ready) < len(asked):
        yield "Not made yet:"
    for one in asked:
        if one.state() is not None:
            yield f"  {one.name}: {one.error or one.command}"
