"""Find faults in the data before training: short, cut and equal texts, and train queries in a test set.

Nothing is removed. Each finding names ids, a score and what to do; docs/data.md explains the kinds.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from condenser.blocks import Audit
from condenser.data.lengths import TextLengths
from condenser.data.near import near, numbers_of, text_digest, trigrams_of, words_of
from condenser.data.records import (
    Passage,
    Query,
    document_of,
    read_passages,
    read_positives,
    read_queries,
)
from condenser.files import atomic_write, count_lines
from condenser.program import printable
from condenser.progress import track

WHAT_TO_DO = {
    "short_text": "read it: drop it, or correct how its source is read",
    "cut_text": "take the whole text from its source",
    "unread_text": "set lengths of the recipe, to auto or more tokens, or split the passages",
    "cut_collection": "take whole texts from their source, or say that they are cut",
    "equal_passage": "keep one of the two, with the judgements of both",
    "short_query": "drop the query, or correct how its source is read",
    "leaked_query": "drop the train query",
    "near_leaked_query": "read both: drop the train query if it asks the same",
}
"""What a person can do about each kind of finding, in the order of the file."""

_JUDGED = "read both: only one of them is judged relevant, so the other may be trained on as a negative"
_CUT_ENDS = ("...", "\u2026", "\ufffd")  # ellipses; the sign of a broken character
_SHOWN = 200  # characters of a text


class Finding(NamedTuple):
    """One line of the audit.

    Attributes:
        where: the evaluation set of a leaked query; of unread text, the checkpoint whose tokenizer cuts it.
        score: a similarity from 0 to 1; of short texts, of unread text and of a cut collection, words or
            texts.
    """

    kind: str
    query_id: str = ""
    doc_id: str = ""
    other_id: str = ""
    where: str = ""
    score: float = 1.0
    what_to_do: str = ""
    text: str = ""
    other_text: str = ""


def audit(
    collection: Path,
    *,
    train_queries: Path | None,
    eval_queries: Mapping[str, Path],
    qrels: Mapping[str, Path],
    relevant_grade: int,
    thresholds: Audit,
    lengths: Mapping[str, int | str],
    text_lengths: Mapping[str, TextLengths],
    is_split: bool = False,
) -> tuple[list[Finding], dict[str, Any]]:
    """All findings, in order of kind, and counts of what was looked at and found.

    Args:
        eval_queries: by evaluation set.
        qrels: by split, that of the train queries as their file is named; splits may share ids of queries.
        lengths: of the data set's recipe.
        text_lengths: by the checkpoint whose tokenizer they are by.
        is_split: the collection holds passages of documents; the judgements are of documents.
    """
    judged_id = document_of if is_split else str  # of what is judged, by the id of a text
    train = [] if train_queries is None else list(read_queries(train_queries))
    evaluation = {split: list(read_queries(path)) for split, path in eval_queries.items()}
    relevant = {split: read_positives(path, relevant_grade=relevant_grade) for split, path in qrels.items()}
    relevant_ids = {
        doc_id for of_split in relevant.values() for doc_ids in of_split.values() for doc_id in doc_ids
    }

    num_passages, digests = count_lines(collection), array("Q")
    findings = list(
        _single_passages(collection, num_passages, digests, thresholds.least_words, is_split=is_split)
    )
    repeated = list(_equal_passages(collection, digests, relevant_ids, judged_id))
    findings += repeated
    # the first of equal passages; two documents may share a passage
    first = {} if is_split else {finding.doc_id: finding.other_id for finding in repeated}
    judged = {
        split: {
            query_id: {first.get(doc_id, doc_id) for doc_id in doc_ids}
            for query_id, doc_ids in of_split.items()
        }
        for split, of_split in relevant.items()
    }
    of_train = {} if train_queries is None else judged.get(train_queries.name.split(".")[1], {})
    for split, queries in evaluation.items():
        findings += _leaked_queries(train, queries, of_train, judged.get(split, {}), split, thresholds)
    findings += [
        Finding("short_query", query_id=query.query_id, score=0, text=_shown(query.text))
        for query in (*train, *(query for queries in evaluation.values() for query in queries))
        if not words_of(query.text)
    ]
    for model, texts_of_model in text_lengths.items():
        cuts = texts_of_model.cuts(lengths, splits=texts_of_model.queries, in_one_row=False)
        findings += [
            Finding("unread_text", where=model, score=num_cut, text=sentence)
            for sentence, num_cut in cuts
            if num_cut
        ]
    order = list(WHAT_TO_DO)
    findings.sort(
        key=lambda finding: (order.index(finding.kind), finding.where, -finding.score, *finding[1:4])
    )
    num_of_kind = Counter(finding.kind for finding in findings)
    return findings, {
        "passages": num_passages,
        "queries": {"train": len(train)} | {split: len(of) for split, of in evaluation.items()},
        "findings": {kind: num_of_kind[kind] for kind in order},
    }


def write_findings(path: Path, findings: Iterable[Finding]) -> None:
    """Write findings as a table with a header, tab-separated; texts have no tabs and no line ends.

    A text or an id that begins as a formula of a spreadsheet does (= + - @), or with an apostrophe, gets an
    apostrophe before it; a program that reads the file removes it.
    """
    with atomic_write(path) as file:
        file.write("\t".join(Finding._fields).encode() + b"\n")
        for finding in findings:
            finding = finding._replace(what_to_do=finding.what_to_do or WHAT_TO_DO[finding.kind])
            cells = (
                f"{cell:.4g}" if isinstance(cell, float) else _unevaluated(str(cell)) for cell in finding
            )
            file.write("\t".join(cells).encode() + b"\n")


def _unevaluated(cell: str) -> str:
    cell = printable(cell)
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "'")) else cell


def _shown(text: str) -> str:
    return " ".join(text.split())[:_SHOWN]


def _beginning(passage: Passage) -> str:
    """The first characters of a passage's text; of its title where it has no text."""
    return _shown(passage.text) or _shown(passage.title)


def _single_passages(
    collection: Path, num_passages: int, digests: array[int], least_words: int, *, is_split: bool
) -> Iterator[Finding]:
    """Findings in single passages and in their lengths; adds the digest of each text to `digests`.

    A text without words has the digest 0.
    """
    longest = {"words": Counter[int](), "characters": Counter[int]()}
    for passage in track(read_passages(collection), "passages", total=num_passages, unit="passages"):
        words = words_of(f"{passage.title} {passage.text}")
        digests.append(text_digest(words) if words else 0)
        if len(words) < least_words:
            yield Finding("short_text", doc_id=passage.doc_id, score=len(words), text=_beginning(passage))
        elif passage.text.rstrip().endswith(_CUT_ENDS):
            yield Finding("cut_text", doc_id=passage.doc_id, text=_shown(passage.text.rstrip()[-_SHOWN:]))
        for unit, length in (("words", len(passage.text.split())), ("characters", len(passage.text))):
            longest[unit][length] += 1
    for unit, lengths in {} if is_split else longest.items():  # windows have one length
        most = max(lengths, default=0)
        # if no text is cut, few are exactly as long as the longest
        if lengths[most] >= max(20, num_passages / 100):
            description = f"{lengths[most]} of {num_passages} passages have {most} {unit}, and none has more"
            yield Finding("cut_collection", score=lengths[most], text=description)


def _equal_passages(
    collection: Path, digests: array[int], judged: set[str], judged_id: Callable[[str], str]
) -> Iterator[Finding]:
    """Passages with the words of an earlier one, each with the first of them."""
    of_rows = np.frombuffer(digests, np.uint64)
    _, first, numbers = np.unique(of_rows, return_index=True, return_inverse=True)
    first_rows = first[numbers]
    repeated = np.flatnonzero((first_rows != np.arange(len(of_rows))) & (of_rows != 0))
    wanted = {*repeated.tolist(), *first_rows[repeated].tolist()}
    passages = {row: passage for row, passage in enumerate(read_passages(collection)) if row in wanted}
    for row in repeated.tolist():
        passage, other = passages[row], passages[int(first_rows[row])]
        is_open = (judged_id(passage.doc_id) in judged) != (judged_id(other.doc_id) in judged)
        yield Finding(
            "equal_passage",
            doc_id=passage.doc_id,
            other_id=other.doc_id,
            what_to_do=_JUDGED if is_open else "",
            text=_beginning(passage),
            other_text=_beginning(other),
        )


def _leaked_queries(
    train: Sequence[Query],
    evaluation: Sequence[Query],
    judged_train: Mapping[str, set[str]],
    judged: Mapping[str, set[str]],
    split: str,
    thresholds: Audit,
) -> Iterator[Finding]:
    """Train queries that are also in an evaluation set, each with the nearest query of that set.

    A near query counts if it has the same numbers. Two queries with a relevant passage or an answer in common
    need resemble each other less.
    """

    def aims(query: Query, judged: Mapping[str, set[str]]) -> set[str]:
        return judged.get(query.query_id, set()) | {answer.casefold() for answer in query.answers}

    with_text = {tuple(words_of(query.text)): query for query in reversed(evaluation)}
    sets, others = ([trigrams_of(query.text) for query in queries] for queries in (train, evaluation))
    least = min(thresholds.near_queries, thresholds.near_queries_judged_alike)
    found = track(near(sets, others, least), f"leaks to {split}", total=len(train), unit="queries")
    for query, similar in zip(train, found, strict=True):
        kind, other, score = "leaked_query", with_text.get(tuple(words_of(query.text))), 1.0
        if other is None:
            kind, numbers = "near_leaked_query", numbers_of(query.text)
            for score, place in similar:
                other = evaluation[place]
                is_alike = score >= thresholds.near_queries or bool(
                    aims(query, judged_train) & aims(other, judged)
                )
                if is_alike and numbers_of(other.text) == numbers:
                    break
                other = None
        if other is not None and words_of(query.text):
            yield Finding(
                kind,
                query_id=query.query_id,
                other_id=other.query_id,
                where=split,
                score=score,
                text=_shown(query.text),
                other_text=_shown(other.text),
            )
