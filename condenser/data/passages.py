"""Long documents as passages: the key `split` of a data set.

A collection that is split holds passages, each a window of a document's words under the document's title.
Judgements, runs and measures are of documents (`condenser.retrieve.documents` ranks them).

A passage's id is that of its document, `#`, and its number from 1, as Pyserini's `--max-passage` expects.
Every passage has a number, also the only one of a short document: so no id of a user can be taken for that of
a passage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
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


def passages_of(document: Passage, *, words: int, stride: int) -> list[Passage]:
    """The passages of a document, in order: of its text, white space included, with its title each.

    A word is what white space surrounds; in scripts that are written without spaces, a character.
    """
    spans = [match.span() for match in _word().finditer(document.text)]
    return [
        Passage(
            passage_id(document.doc_id, number),
            document.title,
            document.text[spans[first][0] : spans[end - 1][1]] if spans else "",
        )
        for number, (first, end) in enumerate(windows(len(spans), words=words, stride=stride), start=1)
    ]


@cache
def _word() -> regex.Pattern[str]:
    return regex.compile(rf"[{UNSPACED}]\p{{M}}*|[^\s{UNSPACED}]+")


def split_collection(folder: Path, *, words: int, stride: int) -> dict[str, int]:
    """Replace the documents of a canonical collection by their passages; gives the counts.

    Counts: `passages`, `documents`, `documents_split` (of more than one passage), `most_passages` of one.
    """
    collection, counts = folder / "collection.jsonl", Counter[str](documents=0, documents_split=0)
    documents = track(read_passages(collection), "split", total=count_lines(collection), unit="documents")
    with atomic_write(folder / "doc_ids.txt") as ids:

        def passages() -> Iterator[Passage]:
            for document in documents:
                of_document = passages_of(document, words=words, stride=stride)
                counts["documents"] += 1
                counts["documents_split"] += len(of_document) > 1
                counts["most_passages"] = max(counts["most_passages"], len(of_document))
                for passage in of_document:
                    ids.write(passage.doc_id.encode() + b"\n")
                    yield passage

        counts["passages"] = write_passages(collection, passages())
    return dict(counts)
