"""Which passages hold an answer of a query, as DPR decides it.

Source: `has_answer` of facebookresearch/DPR: text and answers are brought to Unicode's form NFD, cut into
tokens and lowercased; an answer is there where its tokens stand in the text one after the other. Only the
text of a passage counts, never its title.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path

import regex

from condenser.data.records import read_passages, read_queries, read_run
from condenser.files import count_lines
from condenser.progress import track

_TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")
_BETWEEN = "\0"  # no token has it


def has_answer(text: str, answers: Collection[str]) -> bool:
    """Whether one of the answers stands in the text.

    >>> has_answer("Born in São Paulo.", ["sao paulo"]), has_answer("Born in São Paulo.", ["São Paulo"])
    (False, True)
    >>> has_answer("The answers: 42", ["answer"])  # tokens, not letters
    False
    """
    tokens = _joined(text)
    return any(answer in tokens for answer in _all_joined(answers))


def _joined(text: str) -> str:
    tokens = _TOKEN.findall(unicodedata.normalize("NFD", text))
    return _BETWEEN + "".join(token.lower() + _BETWEEN for token in tokens)


def _all_joined(answers: Collection[str]) -> list[str]:
    """Without those that have no token."""
    return [answer for answer in map(_joined, answers) if answer != _BETWEEN]


def answering_pairs(
    run: Path,
    collection: Path,
    queries: Path,
    *,
    depth: int | None,
    wanted: Collection[str] | None = None,
) -> set[tuple[str, str]]:
    """The pairs (query_id, doc_id) among the first `depth` hits of each query (None: all) that answer it.

    Of all queries, or of those whose ids are `wanted`. Of a document that is split, the passage that was
    found decides. The collection is read once, and only hits are held in memory. Each text and each answer
    is cut into tokens once: a passage may be a hit of many queries.

    Raises:
        ValueError: no query has an answer.
    """
    answers = {query.query_id: _all_joined(query.answers) for query in read_queries(queries) if query.answers}
    if not answers:
        raise ValueError(
            f"{queries}:1: expected queries with answers, got none. Take the measure hits off the data set "
            "and negatives.without_answers off its recipe, or give the queries answers."
        )
    asked: dict[str, list[tuple[str, str]]] = {}
    for query_id, hits in groupby(read_run(run), key=attrgetter("query_id")):
        for hit in islice(hits, depth):
            if query_id in answers and (wanted is None or query_id in wanted):
                asked.setdefault(hit.text_id, []).append((query_id, hit.doc_id))
    pairs = set()
    passages = track(read_passages(collection), "answers", total=count_lines(collection), unit="passages")
    for passage in passages:
        if of_text := asked.get(passage.doc_id):
            tokens = _joined(passage.text)
            pairs |= {
                (query_id, doc_id)
                for query_id, doc_id in of_text
                if any(answer in tokens for answer in answers[query_id])
            }
    return pairs
