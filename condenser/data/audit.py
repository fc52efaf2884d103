"""Find faults in the data before training: short, cut, repeated and leaked texts, and false negatives.

Nothing is removed. Each finding names ids, a score and what to do; docs/data.md explains the kinds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from condenser.data.lengths import TextLengths
from condenser.data.near import Passages, Rarity, numbers_of, trigrams_of, words_of
from condenser.data.records import (
    Passage,
    Query,
    TrainExample,
    document_of,
    read_examples,
    read_positives,
    read_queries,
    read_run,
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
    "near_passage": "read both: keep one of the two, or judge both",
    "short_query": "drop the query, or correct how its source is read",
    "leaked_query": "drop the train query",
    "near_leaked_query": "read both: drop the train query if it asks the same",
    "equal_negative": "remove it from the negatives: it has the text of a positive",
    "near_negative": "read it: judge it relevant, or leave it if the difference matters",
    "negative_above_positive": "read it: judge it relevant, or set negatives.margin",
}
"""What a person can do about each kind of finding, in the order of the file."""

_JUDGED = "read both: only one of them is judged relevant"
_CUT_ENDS = ("...", "\u2026", "\ufffd")  # ellipses; the sign of a broken character
_SHOWN = 200  # characters of a text


class Finding(NamedTuple):
    """One line of the audit.

    Attributes:
        where: the evaluation set of a leaked query; the system of a negative; who judges it; of unread text,
            the checkpoint whose tokenizer cuts it.
        score: a similarity from 0 to 1; of a judge, by how much the negative is above the best positive; of
            short texts, of unread text and of a cut collection, words or texts.
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


class Thresholds(NamedTuple):
    """Where a finding begins: the keys of the block `audit` of config.yaml."""

    least_words: int
    near_passages: float
    near_negatives: float
    near_queries: float
    near_queries_judged_alike: float
    query_share: float


def audit(
    collection: Path,
    *,
    train_queries: Path | None,
    eval_queries: Mapping[str, Path],
    qrels: Mapping[str, Path],
    relevant_grade: int,
    examples: Mapping[str, Path],
    runs: Mapping[str, Path],
    thresholds: Thresholds,
    lengths: Mapping[str, int | str],
    text_lengths: Mapping[str, TextLengths],
    is_split: bool = False,
) -> tuple[list[Finding], dict[str, Any]]:
    """All findings, in order of kind, and counts of what was looked at and found.

    Args:
        eval_queries: by evaluation set.
        qrels: by split, that of the train queries as their file is named; splits may share ids of queries.
        examples: train queries with negatives, by the system that they are of.
        runs: of the train queries, by the system that judges the negatives.
        lengths: of the data set's recipe.
        text_lengths: by the checkpoint whose tokenizer they are by.
        is_split: the collection holds passages of documents; the judgements are of documents.
    """
    judged_id = document_of if is_split else str  # of what is judged, by the id of a text
    counts: dict[str, Any] = {"negatives": {}, "judged": {}}
    train = [] if train_queries is None else list(read_queries(train_queries))
    evaluation = {split: list(read_queries(path)) for split, path in eval_queries.items()}
    counts["queries"] = {"train": len(train)} | {split: len(of) for split, of in evaluation.items()}
    relevant = {split: read_positives(path, relevant_grade=relevant_grade) for split, path in qrels.items()}
    relevant_ids = {
        doc_id for of_split in relevant.values() for doc_ids in of_split.values() for doc_id in doc_ids
    }
    examples_of = {system: list(read_examples(path)) for system, path in examples.items()}
    texts = {query.query_id: query.text for query in train}

    findings: list[Finding] = []
    with closing(Passages(collection, num_rows=count_lines(collection))) as passages:
        wanted = {
            doc_id
            for of_system in examples_of.values()
            for example in of_system
            for doc_id in (*example.positive_doc_ids, *example.negative_doc_ids)
        }
        rows: dict[str, int] = {}
        findings += _single_passages(passages, rows, wanted, thresholds.least_words, is_split=is_split)
        counts["passages"] = len(passages)
        repeated = list(_repeated_passages(passages, relevant_ids, thresholds.near_passages, judged_id))
        findings += repeated
        for system, of_system in examples_of.items():
            counts["negatives"][system] = sum(len(example.negative_doc_ids) for example in of_system)
            findings += _relevant_negatives(system, of_system, passages, rows, texts, thresholds)
        for judge, path in runs.items():
            above, counts["judged"][judge] = _above_positive(judge, path, examples_of.values(), judged_id)
            findings += [
                finding._replace(
                    text=_shown(texts[finding.query_id]),
                    other_text=_beginning(passages[rows[finding.doc_id]]),
                )
                for finding in above
            ]
    earlier: dict[str, str] = {}
    for finding in [] if is_split else repeated:  # two documents may share a passage
        earlier[finding.doc_id] = earlier.get(finding.other_id, finding.other_id)
    judged = {
        split: {
            query_id: {earlier.get(doc_id, doc_id) for doc_id in doc_ids}
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
    return findings, {**counts, "findings": {kind: num_of_kind[kind] for kind in order}}


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
    passages: Passages, rows: dict[str, int], wanted: set[str], least_words: int, *, is_split: bool
) -> Iterator[Finding]:
    """Findings in single passages and in their lengths.

    Reads all passages, and adds the rows of those of `wanted` to `rows`.
    """
    longest = {"words": Counter[int](), "characters": Counter[int]()}
    for row, (passage, words) in enumerate(
        track(passages.read(), "passages", total=passages.num_rows, unit="passages")
    ):
        if passage.doc_id in wanted:
            rows[passage.doc_id] = row
        if len(words) < least_words:
            yield Finding("short_text", doc_id=passage.doc_id, score=len(words), text=_beginning(passage))
        elif passage.text.rstrip().endswith(_CUT_ENDS):
            yield Finding("cut_text", doc_id=passage.doc_id, text=_shown(passage.text.rstrip()[-_SHOWN:]))
        for unit, length in (("words", len(passage.text.split())), ("characters", len(passage.text))):
            longest[unit][length] += 1
    for unit, lengths in {} if is_split else longest.items():  # windows have one length
        most = max(lengths, default=0)
        # if no text is cut, few are exactly as long as the longest
        if lengths[most] >= max(20, len(passages) / 100):
            description = f"{lengths[most]} of {len(passages)} passages have {most} {unit}, and none has more"
            yield Finding("cut_collection", score=lengths[most], text=description)


def _repeated_passages(
    passages: Passages,
    judged: set[str],
    least: float,
    judged_id: Callable[[str], str],
) -> Iterator[Finding]:
    """Passages that equal or resemble an earlier one."""

    def finding(kind: str, row: int, earlier: int, score: float) -> Finding:
        passage, other = passages[row], passages[earlier]
        is_open = (judged_id(passage.doc_id) in judged) != (judged_id(other.doc_id) in judged)
        return Finding(
            kind,
            doc_id=passage.doc_id,
            other_id=other.doc_id,
            score=score,
            what_to_do=_JUDGED if is_open else "",
            text=_beginning(passage),
            other_text=_beginning(other),
        )

    first = passages.equal_rows()
    has_words = passages.have_words(np.arange(len(passages)))
    is_first = first == np.arange(len(first))
    for row in np.flatnonzero(~is_first & has_words).tolist():
        yield finding("equal_passage", row, int(first[row]), 1.0)
    near = passages.near_rows(np.flatnonzero(is_first & has_words), least)
    for row, earlier, score in track(near, "near passages", total=None, unit="found"):
        yield finding("near_passage", row, earlier, score)


def _leaked_queries(
    train: Sequence[Query],
    evaluation: Sequence[Query],
    judged_train: Mapping[str, set[str]],
    judged: Mapping[str, set[str]],
    split: str,
    thresholds: Thresholds,
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
    near = Rarity([*sets, *others]).near(sets, others, least)
    near = track(near, f"leaks to {split}", total=len(train), unit="queries")
    for query, similar in zip(train, near, strict=True):
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


def _relevant_negatives(
    system: str,
    examples: Sequence[TrainExample],
    passages: Passages,
    rows: Mapping[str, int],
    texts: Mapping[str, str],
    thresholds: Thresholds,
) -> Iterator[Finding]:
    """Negatives that have the text of a positive, or nearly.

    A near negative must also have the share `query_share` of the weight of the query's words that the
    positive has: texts from one template on two subjects differ in the words that matter.
    """
    rarity = Rarity(frozenset(words_of(text)) for text in texts.values())
    for example in track(examples, f"negatives of {system}", total=len(examples), unit="queries"):
        text = texts[example.query_id]
        query = set(words_of(text))
        negatives = np.array([rows[doc_id] for doc_id in example.negative_doc_ids], np.int64)
        negatives = negatives[passages.have_words(negatives)]
        best: dict[int, tuple[float, str, int]] = {}
        for positive in (rows[doc_id] for doc_id in example.positive_doc_ids):
            for row in negatives[passages.may_be_similar(positive, negatives)].tolist():
                if passages.are_equal(positive, row):
                    best[row] = 1.0, "equal_negative", positive
                elif (score := passages.similarity(positive, row)) >= thresholds.near_negatives:
                    asked = query.intersection(passages.words(positive))
                    lacking = asked.difference(passages.words(row))
                    share = 1 - thresholds.query_share
                    if rarity.weight(lacking) <= share * rarity.weight(asked):
                        best[row] = max(best.get(row, (0.0, "", 0)), (score, "near_negative", positive))
        for row, (score, kind, positive) in best.items():
            yield Finding(
                kind,
                query_id=example.query_id,
                doc_id=passages[row].doc_id,
                other_id=passages[positive].doc_id,
                where=system,
                score=score,
                text=_shown(text),
                other_text=_beginning(passages[row]),
            )


def _above_positive(
    judge: str,
    run: Path,
    examples: Iterable[Sequence[TrainExample]],
    judged_id: Callable[[str], str],
) -> tuple[list[Finding], dict[str, int]]:
    """Negatives that a run of the train queries ranks above all positives, and counts of what it judges.

    A query counts only if the run has one of its positives: a judge that misses all known relevant passages
    cannot judge the others.
    """
    positives: dict[str, set[str]] = {}
    negatives: dict[str, set[str]] = {}
    for example in chain.from_iterable(examples):
        positives.setdefault(example.query_id, set()).update(example.positive_doc_ids)
        negatives.setdefault(example.query_id, set()).update(example.negative_doc_ids)
    findings, counts = [], {"queries": 0, "negatives": 0}
    for query_id, hits in groupby(read_run(run), key=lambda hit: hit.query_id):
        if query_id not in positives:
            continue
        scores = {hit.doc_id: hit.score for hit in hits}
        positive_hits = [
            (scores[judged_id(text_id)], text_id)
            for text_id in positives[query_id]
            if judged_id(text_id) in scores
        ]
        if not positive_hits:
            continue
        highest, positive = max(positive_hits)
        negative_hits = [
            (scores[judged_id(text_id)], text_id)
            for text_id in negatives[query_id] - positives[query_id]
            if judged_id(text_id) in scores
        ]
        counts["queries"] += 1
        counts["negatives"] += len(negative_hits)
        findings += [
            Finding(
                "negative_above_positive",
                query_id=query_id,
                doc_id=text_id,
                other_id=positive,
                where=judge,
                score=score - highest,
            )
            for score, text_id in negative_hits
            if score > highest
        ]
    return findings, counts
