"""Long documents as passages: the key `split` of a data set.

A collection that is split holds passages, each a window of a document's words under the document's title. By
`headings` it is a paragraph of a section, or several short ones; a long paragraph becomes windows, and the
headings above follow the title. Judgements, runs and measures are of documents
(`condenser.retrieve.documents` ranks them).

A passage's id is that of its document, `#`, and its number from 1, as Pyserini's `--max-passage` expects.
Every passage has a number, also the only one of a short document: so no id of a user can be taken for that of
a passage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import regex

from condenser.data.records import Passage, passage_id, read_passages, write_passages
from condenser.files import atomic_write, count_lines
from condenser.progress import track

UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"


def windows(num_words: int, *, words: int, stride: int) -> list[tuple[int, int]]:
    """First word and end of each window of a text: the first one that reaches the text's end is the last.

    >>> windows(250, words=120, stride=60)
    [(0, 120), (60, 180), (120, 240), (180, 250)]
    >>> windows(120, words=120, stride=60), windows(0, words=120, stride=60)
    ([(0, 120)], [(0, 0)])
    """
    last = max(0, -(-(num_words - words) // stride))
    return [(number * stride, min(number * stride + words, num_words)) for number in range(last + 1)]


def passages_of(document: Passage, *, words: int, stride: int, by: str = "words") -> list[Passage]:
    """The passages of a document, in order: of its text, white space included, with its title each.

    A word is what white space surrounds; in scripts that are written without spaces, a character.
    """
    if by == "words":
        titled = [(document.title, text) for text in _windows_of(document.text, words=words, stride=stride)]
    else:
        titled = [
            (" > ".join(filter(None, (document.title, heading))), text)
            for heading, section in sections_of(document.text)
            for part in _packed(_PARAGRAPH_END.split(section), words=words)
            for text in _windows_of(part, words=words, stride=stride)
            if text or heading
        ]
    return [
        Passage(passage_id(document.doc_id, number), title, text)
        for number, (title, text) in enumerate(titled or [(document.title, "")], start=1)
    ]


def sections_of(text: str) -> Iterator[tuple[str, str]]:
    """The sections of a Markdown text: the headings above, joined by ` > `, and what stands below them.

    A heading has one to six # before it, and does not stand between lines of three ` or ~. One with nothing
    below it is a section without text.

    >>> list(sections_of("first\\n# A\\nsecond\\n## B\\nthird\\n# C\\nfourth"))
    [('', 'first'), ('A', 'second'), ('A > B', 'third'), ('C', 'fourth')]
    """
    above: dict[int, str] = {}
    fence, lines = "", list[str]()
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        heading = None if fence else _HEADING.fullmatch(line)
        if heading is None:
            lines.append(line)
            continue
        level = len(heading[1])
        if any(map(str.strip, lines)) or level <= max(above, default=0):
            yield " > ".join(above.values()), "\n".join(lines)
        lines = []
        above = {one: name for one, name in above.items() if one < level} | {level: heading[2]}
    yield " > ".join(above.values()), "\n".join(lines)


_FENCE = regex.compile(r" {0,3}(`{3}|~{3})")
_HEADING = regex.compile(r" {0,3}(#{1,6})\s+(.*?)\s*#*\s*")
_PARAGRAPH_END = regex.compile(r"\n\s*\n")


def _packed(paragraphs: Sequence[str], *, words: int) -> Iterator[str]:
    """Paragraphs that stand together, as many as have at most so many words; a longer one stands alone."""
    held, num_held = list[str](), 0
    for paragraph in paragraphs:
        num_words = sum(1 for _ in _word().finditer(paragraph))
        if held and num_held + num_words > words:
            yield "\n\n".join(held)
            held, num_held = [], 0
        held.append(paragraph)
        num_held += num_words
    yield "\n\n".join(held)


def _windows_of(text: str, *, words: int, stride: int) -> list[str]:
    spans = [match.span() for match in _word().finditer(text)]
    if not spans:
        return [""]
    return [
        text[spans[first][0] : spans[end - 1][1]]
        for first, end in windows(len(spans), words=words, stride=stride)
    ]


@cache
def _word() -> regex.Pattern[str]:
    return regex.compile(rf"[{UNSPACED}]\p{{M}}*|[^\s{UNSPACED}]+")


def split_collection(folder: Path, *, words: int, stride: int, by: str = "words") -> dict[str, int]:
    """Replace the documents of a canonical collection by their passages; gives the counts.

    Counts: `passages`, `documents`, `documents_split` (of more than one passage), `most_passages` of one.
    """
    collection, counts = folder / "collection.jsonl", Counter[str](documents=0, documents_split=0)
    documents = track(read_passages(collection), "split", total=count_lines(collection), unit="documents")
    with atomic_write(folder / "doc_ids.txt") as ids:

        def passages() -> Iterator[Passage]:
            for document in documents:
                of_document = passages_of(document, words=words, stride=stride, by=by)
                counts["documents"] += 1
                counts["documents_split"] += len(of_document) > 1
                counts["most_passages"] = max(counts["most_passages"], len(of_document))
                for passage in of_document:
                    ids.write(passage.doc_id.encode() + b"\n")
                    yield passage

        counts["passages"] = write_passages(collection, passages())
    return dict(counts)
