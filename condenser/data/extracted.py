"""Queries that are made from a collection, one of a passage: its title, one of its sentences, its keywords.

Nobody judges them and nobody asked them; a collection alone gives them. The id of a query is that of its
passage, which stays whole in the collection: the text of the query stands in it word by word. So BM25 finds
the passage itself almost always, and what a ranking of such queries says lies in the passages around it. A
training may remove the sentence from its passage, as the inverse cloze task does (Lee et al. 2019).

Which passages serve is drawn by their ids: sets with disjoint parts of the collection have no passage (of a
collection that is split, no document) in common, whatever their seeds.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import log1p
from pathlib import Path
from typing import Any, Literal

import regex

from condenser.data.passages import UNSPACED
from condenser.data.randomness import stream_key
from condenser.data.records import Passage, Query, document_of, read_passages, write_queries
from condenser.data.tokens import split_sentences
from condenser.files import count_lines, write_json
from condenser.progress import track

View = Literal["titles", "sentences", "keywords"]

K1, B = 0.9, 0.4  # of BM25, Anserini's defaults
LEAST_PASSAGES = 2  # that have a keyword: what one passage alone has, as an id, finds no other


class Unmade(ValueError):
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
    for passage in track(read_passages(passages), "words", total=count_lines(passages), unit="passages"):
        words = words_of(f"{passage.title} {passage.text}")
        counts.update(set(words))
        num_passages, num_words = num_passages + 1, num_words + len(words)
    return Words(counts, num_passages, num_words / max(1, num_passages))


def title_of(passage: Passage) -> str:
    """The title of a passage.

    Raises:
        Unmade: it has none.
    """
    if not words_of(passage.title):
        raise Unmade("without_title")
    return passage.title


def sentence_of(passage: Passage, *, words: Sequence[int], draw: float) -> str:
    """A sentence of a passage with `words[0]` to `words[1]` words; of several, by `draw` in [0, 1).

    Raises:
        Unmade: the passage has one sentence alone, or none of that length.
    """
    sentences = [one for one in split_sentences(passage.text) if words_of(one)]
    if len(sentences) < 2:
        raise Unmade("of_one_sentence")
    least, most = words
    fitting = [one for one in sentences if least <= len(words_of(one)) <= most]
    if not fitting:
        raise Unmade("without_sentence_of_this_length")
    return fitting[int(draw * len(fitting))]


def keywords_of(passage: Passage, words: Words, *, count: Sequence[int], draw: float) -> str:
    """The words of the highest BM25 weight in a passage, in their order there.

    Their number lies between the two of `count`, by `draw` in [0, 1). Of equal weights the first counts.

    Raises:
        Unmade: the passage has fewer words that another passage has, too.
    """
    least, most = count
    weights = words.weights(words_of(f"{passage.title} {passage.text}"))
    if len(weights) < least:
        raise Unmade("without_keywords")
    best = sorted(weights, key=lambda word: -weights[word])[: least + int(draw * (most - least + 1))]
    return " ".join(word for word in weights if word in best)


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

    A passage gives the first of `views` that it has. Of the collection only the part from `passages[0]` to
    `passages[1]` serves, each a share of it. `seed` draws the passages, the sentence and the number of
    keywords. A text that several passages give is kept once. Holds `count` queries, and for keywords every
    word of the collection.

    Counts: `passages`, `passages_of_part`, by view the queries, `repeated` (left out), and how many of the
    passages that were tried lack each view: they are tried in file order, as long as they may be among
    those drawn.

    Raises:
        ValueError: no passage gives a query.
    """
    of_words = count_words(collection) if "keywords" in views else Words({}, 0, 0.0)
    counts = Counter[str](dict.fromkeys(("passages", "passages_of_part", *views, "repeated"), 0))

    def query_of(passage: Passage) -> tuple[View, str] | None:
        draw = stream_key(seed, f"view of {passage.doc_id}") / 2**63
        for view in views:
            try:
                if view == "titles":
                    text = title_of(passage)
                elif view == "sentences":
                    text = sentence_of(passage, words=words, draw=draw)
                else:
                    text = keywords_of(passage, of_words, count=keywords, draw=draw)
            except Unmade as reason:
                counts[str(reason)] += 1
            else:
                return view, " ".join(text.split())
        return None

    drawn: list[tuple[int, int, View, Query]] = []  # a heap of the smallest keys, which are negative in it
    rows = track(read_passages(collection), "extract", total=count_lines(collection), unit="passages")
    for row, passage in enumerate(rows):
        document = document_of(passage.doc_id) if is_split else passage.doc_id
        place = stream_key(0, f"part of {document}") / 2**63
        counts["passages"] += 1
        if not passages[0] <= place < passages[1]:
            continue
        counts["passages_of_part"] += 1
        key = -stream_key(seed, f"extract {passage.doc_id}")
        if (len(drawn) < count or key > drawn[0][0]) and (made := query_of(passage)):
            entry = (key, row, made[0], Query(passage.doc_id, made[1]))
            (heapq.heappush if len(drawn) < count else heapq.heappushpop)(drawn, entry)

    by_text: dict[str, tuple[View, Query]] = {}
    for _, _, view, query in sorted(drawn, key=lambda entry: entry[1]):
        by_text.setdefault(query.text, (view, query))
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
