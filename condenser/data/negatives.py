"""Training examples: negatives are sampled from any system's run, without the judged positives."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np

from condenser.data.randomness import permutation
from condenser.data.records import (
    TrainExample,
    document_of,
    first_passage,
    is_relevant,
    read_positives,
    read_qrels,
    read_runs,
    write_examples,
)
from condenser.files import count_lines
from condenser.progress import track

COUNTS = (
    "queries",
    "without_positives",
    "without_hits",
    "without_positive_in_run",
    "without_negatives",
    "without_negatives_by_answer",
    "without_negatives_by_margin",
    "examples",
    "random_negatives",
    "fewer_negatives_than_sample",
    "positives_removed",
    "removed_by_answer",
    "removed_by_margin",
    "negatives",
)
COUNTS_OF_SPLIT = ("positives_by_run", "positives_by_first_passage")
COUNTS_OF_SCORES = (
    "without_negatives_by_score",
    "examples_by_score",
    "positives_by_score",
    "removed_by_score",
)


def make_examples(
    run: str | Path,
    queries: str | Path,
    qrels: str | Path | None,
    output: str | Path,
    *,
    relevant_grade: int,
    depth: int,
    sample: int,
    positive_in_run: bool,
    margin: float | None,
    wanted: Collection[str] | None,
    seed: int,
    answering: Collection[tuple[str, str]] = frozenset(),
    is_split: bool = False,
    held_out: Collection[str] = frozenset(),
    own_passage: bool = False,
    negative_below: float | None = None,
    positive_above: float | None = None,
) -> dict[str, int]:
    """Write one example for each train query that has positives, and hits that are none; gives the counts.

    Positives are the documents judged `relevant_grade` or more, in the order of the judgements; without
    `qrels` nothing is judged. With `own_passage` the queries were made from passages, whose ids they have:
    these count as judged. Negatives are `sample` of the first `depth` documents of the query's run that are
    left without them, drawn by (seed, query_id) and written in order of rank; all of them if there are fewer.
    With `positive_in_run`, only queries whose run contains a positive are kept; with `wanted`, only those
    ids. With a `margin`, documents that score above the query's best positive less the margin are no
    negatives: they are likely to be relevant, too. (A run without a positive is kept as it is.) The pairs of
    query and document in `answering` are no negatives: the document holds an answer. Source:
    texttron/tevatron; the margin: Moreira et al. 2024 (NV-Retriever); answers: Karpukhin et al. 2020 (DPR).

    With `negative_below` the scores are logits of probabilities, and only a document whose probability is
    below it is a negative. Documents without a judgement above `positive_above` are positives, too, after the
    judged ones, best first; so a query without judgement can have some (pseudo-labels). What lies between the
    two, or on one of them, is left out. The queries `held_out`, by which models are compared, have judged
    positives alone. Source: Qu et al. 2021 (RocketQA), who add such positives only to queries without
    judgement, the best one to each.

    Of a collection that is split, the texts of an example are passages. The positive of a relevant document
    is its best passage by the run, and its first passage where the run lacks the document: counted as
    `positives_by_run` and `positives_by_first_passage`. A negative is the best passage of a document that is
    not judged relevant.

    The run is read once, one query at a time, so it must be in the queries' order.
    A query without a hit has an example without negatives (`random_negatives`): a training draws them from
    the whole collection. It is left out (`without_hits`) where its positive must be in the run, or scores
    decide.
    Of the counts, `queries` is the sum of `examples` and those `without_` something; the others are of
    examples. The hits of these are judged positives (`positives_removed`), positives by their score, those
    removed by answer, score or margin, and those that negatives are drawn from. `examples_by_score` have no
    judged positive.

    Raises:
        ValueError: no query is left.
    """
    of_scores = COUNTS_OF_SCORES if negative_below is not None else ()
    counts = dict.fromkeys((*COUNTS, *(COUNTS_OF_SPLIT if is_split else ()), *of_scores), 0)
    positives = read_positives(qrels, relevant_grade=relevant_grade) if qrels is not None else {}
    low = math.inf if negative_below is None else logit(negative_below)
    high = math.inf if positive_above is None else logit(positive_above)
    not_relevant = set[tuple[str, str]]()
    if qrels is not None and high < math.inf:
        not_relevant = {
            (qrel.query_id, qrel.doc_id)
            for qrel in read_qrels(qrels)
            if not is_relevant(qrel.grade, relevant_grade)
        }

    def examples() -> Iterator[TrainExample]:
        runs = track(read_runs([run], queries), "examples", total=count_lines(queries), unit="queries")
        for query_id, (found,) in runs:
            if wanted is not None and query_id not in wanted:
                continue
            hits = {hit.doc_id: hit for hit in found}
            scores = {doc_id: hit.score for doc_id, hit in hits.items()}
            judged = positives.get(query_id, {})
            if own_passage:
                judged = dict.fromkeys([document_of(query_id) if is_split else query_id])
            by_score = [
                doc_id
                for doc_id in (scores if high < math.inf and query_id not in held_out else ())
                if scores[doc_id] > high and doc_id not in judged and (query_id, doc_id) not in not_relevant
            ]
            relevant = judged | dict.fromkeys(by_score)
            best = max((scores[doc_id] for doc_id in judged if doc_id in scores), default=None)
            sieved = _sieve(
                {doc_id: score for doc_id, score in scores.items() if doc_id not in relevant},
                answering={doc_id for doc_id in scores if (query_id, doc_id) in answering},
                below=low,
                most=math.inf if margin is None or best is None else best - margin,
            )
            reason = next((f"without_negatives{by}" for by, left in sieved.items() if not left), None)
            if not relevant:
                reason = "without_positives"
            elif not scores and not (positive_in_run or of_scores):
                reason = None  # a training draws its negatives from the whole collection
                counts["random_negatives"] += 1
            elif not scores:
                reason = "without_hits"
            elif positive_in_run and best is None:
                reason = "without_positive_in_run"
            counts["queries"] += 1
            if reason:
                counts[reason] += 1
                continue
            top = sieved["_by_margin"][:depth]
            drawn = np.sort(permutation(seed, f"negatives of {query_id}", 0, len(top))[:sample])
            counts["examples"] += 1
            counts["fewer_negatives_than_sample"] += len(drawn) < sample
            counts["positives_removed"] += len(scores) - len(sieved[""]) - len(by_score)
            counts["negatives"] += len(drawn)
            for before, after in pairwise(sieved):
                if f"removed{after}" in counts:
                    counts[f"removed{after}"] += len(sieved[before]) - len(sieved[after])
            if of_scores:
                counts["examples_by_score"] += not judged
                counts["positives_by_score"] += len(by_score)
            text_ids = tuple(relevant)
            if is_split:
                by_run = [doc_id for doc_id in relevant if doc_id in hits]
                counts["positives_by_run"] += len(by_run)
                counts["positives_by_first_passage"] += len(relevant) - len(by_run)
                text_ids = tuple(
                    hits[doc_id].text_id if doc_id in hits else first_passage(doc_id) for doc_id in relevant
                )
                if own_passage:
                    text_ids = (query_id,)
            yield TrainExample(query_id, text_ids, tuple(hits[top[index]].text_id for index in drawn))
        if counts["examples"] == counts["random_negatives"]:
            reasons = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
            advice = "Do run, queries and judgements belong together?"
            if of_scores:
                advice = "Raise negative_below, lower positive_above, or train the teacher more."
            without_hits = counts["without_hits"] + counts["random_negatives"]
            if 0 < without_hits == counts["queries"] - counts["without_positives"]:
                advice = "None of these queries found a passage: do queries and passages share any words?"
            raise ValueError(
                f"{run}: expected a train query with positives and negatives, got none ({reasons}). {advice}"
            )

    write_examples(output, examples())
    return counts


def _sieve(
    scores: Mapping[str, float], *, answering: Collection[str], below: float, most: float
) -> dict[str, list[str]]:
    """The hits that may be negatives after each sieve, by the ending of its counts.

    >>> _sieve({"d1": 3.0, "d2": 2.0, "d3": 1.0}, answering=["d3"], below=math.inf, most=2.5)
    {'': ['d1', 'd2', 'd3'], '_by_answer': ['d1', 'd2'], '_by_score': ['d1', 'd2'], '_by_margin': ['d2']}
    """
    sieved = {"": list(scores)}
    sieved["_by_answer"] = [doc_id for doc_id in sieved[""] if doc_id not in answering]
    sieved["_by_score"] = [doc_id for doc_id in sieved["_by_answer"] if scores[doc_id] < below]
    sieved["_by_margin"] = [doc_id for doc_id in sieved["_by_score"] if scores[doc_id] <= most]
    return sieved


def logit(probability: float) -> float:
    """The score whose sigmoid is a probability.

    >>> logit(0.5), logit(0.0), logit(1.0)
    (0.0, -inf, inf)
    """
    if probability in (0.0, 1.0):
        return math.inf if probability else -math.inf
    return math.log(probability) - math.log1p(-probability)
