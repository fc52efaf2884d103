"""Queries that are made from a collection, one of a passage: its title, one of its sentences, its keywords.

They need a collection alone: no judgements, no log of queries. The id of a query is that of its passage,
which stays whole in the collection: the text of the query stands in it word by word. So BM25 finds the
passage itself almost always, and what a ranking of such queries says lies in the passages around it. A
training may remove the sentence from its passage, as the inverse cloze task does (Lee et al. 2019).

A text that several passages give, such as the title of a story in parts, is a query of none of them: each
answers it as well as the other. Case, signs and white space do not count. Passages of one document that is
split may share a text, as their document is what a query has to find.

Which passages serve is drawn by their ids: sets with disjoint parts of the collection have no passage (of a
collection that is split, no document) in common, whatever their seeds.
"""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import groupby, product
from math import log1p
from pathlib import Path
from typing import Any, Literal

import numpy as np
import regex

from condenser.data import near
from condenser.data.passages import UNSPACED
from condenser.data.randomness import stream_key
from condenser.data.records import Passage, Query, document_of, read_passages, write_queries
from condenser.data.tokens import split_sentences
from condenser.files import count_lines, write_json
from condenser.progress import track

View = Literal["titles", "sentences", "keywords"]

K1, B = 0.9, 0.4  # of BM25, Anserini's defaults
LEAST_PASSAGES = 2  # that have a keyword: what one passage alone has, as an id, finds no other


class NoQuery(ValueError):
    """A passage gives no query of a view; the message is the name of a count."""


@dataclass(frozen=True)
class Words:
    """How many passages have each word (title included), of how many, and their mean length in words."""

    passages_with: Mapping[str, int]
    num_passages: int
    mean_length: float

    def weights(self, words: Sequence[str]) -> dict[str, float]:
        """BM25's weight of each word of a passage, in order of their first places.

        Source: Robertson and Zaragoza 2009, eq. 3.15, with Lucene's idf, which is never negative.
        """
        norm = K1 * (1 - B + B * len(words) / self.mean_length)
        return {
            word: log1p((self.num_passages - found + 0.5) / (found + 0.5)) * count / (count + norm)
            for word, count in Counter(words).items()
            if (found := self.passages_with[word]) >= LEAST_PASSAGES
        }


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, without signs; in scripts without spaces each character is one.

    >>> words_of("The p-value of X_1, 東京")
    ['the', 'p', 'value', 'of', 'x_1', '東', '京']
    """
    return _word().findall(text.lower())


@cache
def _word() -> regex.Pattern[str]:
    return regex.compile(rf"[{UNSPACED}]\p{{M}}*|(?:(?![{UNSPACED}])[\w\p{{M}}])+")


def count_words(passages: Path) -> Words:
    """The words of a canonical collection. Holds every word of it once."""
    counts, num_passages, num_words = Counter[str](), 0, 0
    for passage in _read(passages, "words"):
        words = words_of(f"{passage.title} {passage.text}")
        counts.update(set(words))
        num_passages, num_words = num_passages + 1, num_words + len(words)
    return Words(counts, num_passages, num_words / max(1, num_passages))


def _read(collection: Path, what: str) -> Iterator[Passage]:
    return track(read_passages(collection), what, total=count_lines(collection), unit="passages")


def titles_of(passage: Passage) -> list[str]:
    """The title of a passage.

    Raises:
        NoQuery: it has none.
    """
    if not words_of(passage.title):
        raise NoQuery("without_title")
    return [passage.title]


def sentences_of(passage: Passage, *, words: Sequence[int]) -> list[str]:
    """The sentences of a passage with `words[0]` to `words[1]` words.

    Raises:
        NoQuery: the passage has one sentence alone, or none of that length.
    """
    sentences = [one for one in split_sentences(passage.text) if words_of(one)]
    if len(sentences) < 2:
        raise NoQuery("of_one_sentence")
    least, most = words
    fitting = [one for one in sentences if least <= len(words_of(one)) <= most]
    if not fitting:
        raise NoQuery("without_sentence_of_this_length")
    return fitting


def keywords_of(passage: Passage, words: Words, *, count: Sequence[int]) -> list[str]:
    """The words of highest BM25 weight in a passage, in their order there: `count[0]` to `count[1]` of them.

    Of equal weights the first counts. A passage of fewer words gives its last text again.

    Raises:
        NoQuery: the passage has fewer than `count[0]` words that another passage has, too.
    """
    least, most = count
    weights = words.weights(words_of(f"{passage.title} {passage.text}"))
    if len(weights) < least:
        raise NoQuery("without_keywords")
    best = sorted(weights, key=lambda word: -weights[word])
    return [" ".join(word for word in weights if word in best[:number]) for number in range(least, most + 1)]


def _digest(view: View, text: str) -> int:
    """A number of 64 bits that texts share that ask the same; the order of keywords says nothing."""
    words = near.words_of(text)
    return near.text_digest(sorted(words) if view == "keywords" else words)


def _repeated(sets: Iterable[set[int]]) -> frozenset[int]:
    """The numbers that several sets have."""
    numbers = array("Q")
    for of_set in sets:
        numbers.extend(of_set)
    ascending = np.sort(np.array(numbers, np.uint64))
    return frozenset(ascending[1:][ascending[1:] == ascending[:-1]].tolist())


def write_extracted(
    collection: Path,
    output: Path,
    *,
    name: str,
    views: Sequence[View],
    passages: Sequence[float],
    count: int,
    words: Sequence[int],
    keywords: Sequence[int],
    seed: int,
    is_split: bool,
) -> dict[str, Any]:
    """Write at most `count` queries in the order of their passages, and `counts.json`; gives the counts.

    A passage gives the first of `views` that it has and shares with no other. Of the collection only the
    part from `passages[0]` to `passages[1]` serves, each a share of it. `seed` draws the passages, the
    sentence and the number of keywords. A text that several passages of a document give is kept once. Holds
    `count` queries, 8 bytes for each text that a passage may give, and for keywords every word of the
    collection.

    Counts: `passages`, `passages_of_part`, by view the queries, `repeated` (left out), and how many of the
    passages that were tried lack each view, or share all its texts with another (`shared_titles`): they are
    tried in file order, as long as they may be among those drawn.

    Raises:
        ValueError: no passage gives a query.
    """
    of_words = count_words(collection) if "keywords" in views else Words({}, 0, 0.0)
    counts = Counter[str](dict.fromkeys(("passages", "passages_of_part", *views, "repeated"), 0))

    def texts_of(passage: Passage, view: View) -> list[str]:
        if view == "titles":
            return titles_of(passage)
        if view == "sentences":
            return sentences_of(passage, words=words)
        return keywords_of(passage, of_words, count=keywords)

    def origin_of(passage: Passage) -> str:
        return document_of(passage.doc_id) if is_split else passage.doc_id

    def digests_of(origin: Iterable[Passage]) -> Iterator[int]:
        for passage, view in product(origin, views):
            with suppress(NoQuery):
                yield from (_digest(view, text) for text in texts_of(passage, view))

    shared = _repeated(
        set(digests_of(origin)) for _, origin in groupby(_read(collection, "compare"), origin_of)
    )

    def query_of(passage: Passage) -> tuple[View, str] | None:
        draw = stream_key(seed, f"view of {passage.doc_id}") / 2**63
        for view in views:
            try:
                texts = [text for text in texts_of(passage, view) if _digest(view, text) not in shared]
            except NoQuery as reason:
                counts[str(reason)] += 1
                continue
            if texts:
                return view, " ".join(texts[int(draw * len(texts))].split())
            counts[f"shared_{view}"] += 1
        return None

    drawn: list[tuple[int, int, View, Query]] = []  # a heap of the smallest keys, which are negative in it
    for row, passage in enumerate(_read(collection, "extract")):
        place = stream_key(0, f"part of {origin_of(passage)}") / 2**63
        counts["passages"] += 1
        if not passages[0] <= place < passages[1]:
            continue
        counts["passages_of_part"] += 1
        key = -stream_key(seed, f"extract {passage.doc_id}")
        if (len(drawn) < count or key > drawn[0][0]) and (made := query_of(passage)):
            entry = (key, row, made[0], Query(passage.doc_id, made[1]))
            (heapq.heappush if len(drawn) < count else heapq.heappushpop)(drawn, entry)

    by_text: dict[int, tuple[View, Query]] = {}
    for _, _, view, query in sorted(drawn, key=lambda entry: entry[1]):
        by_text.setdefault(_digest(view, query.text), (view, query))
    counts["repeated"] = len(drawn) - len(by_text)
    counts.update(view for view, _ in by_text.values())
    if not by_text:
        reasons = ", ".join(f"{reason} {number}" for reason, number in counts.items() if number)
        raise ValueError(
            f"{collection}: expected passages that give queries by {', '.join(views)}, got none ({reasons}). "
            f"Name another view in extracted.{name}.views, such as keywords."
        )
    num_queries = write_queries(output, [query for _, query in by_text.values()])
    totals = {**counts, "queries": {name: num_queries}}
    write_json(output.with_name("counts.json"), totals)
    return totals
