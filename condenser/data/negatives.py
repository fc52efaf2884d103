"""Training examples: negatives are sampled from any system's run, without the judged positives."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import numpy as np

from condenser.data.randomness import permutation
from condenser.data.records import (
    ScoredDoc,
    TrainExample,
    first_passage,
    read_positives,
    read_queries,
    read_run,
    write_examples,
)
from condenser.files import count_lines
from condenser.progress import Progress

COUNTS = (
    "queries",
    "without_positives",
    "without_hits",
    "without_positive_in_run",
    "without_negatives",
    "without_negatives_by_answer",
    "without_negatives_by_margin",
    "examples",
    "fewer_negatives_than_sample",
    "positives_removed",
    "removed_by_answer",
    "removed_by_margin",
    "negatives",
)
COUNTS_OF_SPLIT = ("positives_by_run", "positives_by_first_passage")


def make_examples(
    run: str | Path,
    queries: str | Path,
    qrels: str | Path,
    output: str | Path,
    *,
    depth: int,
    sample: int,
    positive_in_run: bool,
    margin: float | None,
    wanted: Collection[str] | None,
    seed: int,
    answering: Collection[tuple[str, str]] = frozenset(),
    is_split: bool = False,
) -> dict[str, int]:
    """Write one example for each train query that has positives and negatives; gives the counts.

    Positives are the documents judged above 0, in the order of the judgements. Negatives are
    `sample` of the first `depth` documents of the query's run that are left without them, drawn
    by (seed, query_id) and written in order of rank; all of them if there are fewer. With
    `positive_in_run`, only queries whose run contains a positive are kept; with `wanted`, only those ids.
    With a `margin`, documents that score above the query's best positive less the margin are no negatives:
    they are likely to be relevant, too. (A run without a positive is kept as it is.) The pairs of query and
    document in `answering` are no negatives: the document holds an answer.
    Source: texttron/tevatron; the margin: Qu et al. 2021 (RocketQA) and Moreira et al. 2024 (NV-Retriever);
    answers: Karpukhin et al. 2020 (DPR).

    Of a collection that is split, the texts of an example are passages. The positive of a relevant document
    is its best passage by the run, and its first passage where the run lacks the document: counted as
    `positives_by_run` and `positives_by_first_passage`. A negative is the best passage of a document that is
    not judged relevant.

    The run is read once, one query at a time, so it must be in the queries' order.
    `without_hits` counts the queries for which the system found nothing.
    Of the counts, `queries` is the sum of the seven that follow it; those after `examples` are of examples.

    Raises:
        ValueError: no query is left.
    """
    counts = dict.fromkeys((*COUNTS, *(COUNTS_OF_SPLIT if is_split else ())), 0)
    positives = read_positives(qrels)

    def examples() -> Iterator[TrainExample]:
        for query_id, hits in _runs_by_query(run, queries):
            ranked = {doc_id: hit.score for doc_id, hit in hits.items()}
            if wanted is not None and query_id not in wanted:
                continue
            judged = positives.get(query_id, {})
            unjudged = [doc_id for doc_id in ranked if doc_id not in judged]
            best = max((ranked[doc_id] for doc_id in judged if doc_id in ranked), default=None)
            unanswering = [doc_id for doc_id in unjudged if (query_id, doc_id) not in answering]
            negatives = unanswering
            if margin is not None and best is not None:
                negatives = [doc_id for doc_id in unanswering if ranked[doc_id] <= best - margin]
            counts["queries"] += 1
            if not judged:
                counts["without_positives"] += 1
            elif not ranked:
                counts["without_hits"] += 1
            elif positive_in_run and best is None:
                counts["without_positive_in_run"] += 1
            elif not unjudged:
                counts["without_negatives"] += 1
            elif not unanswering:
                counts["without_negatives_by_answer"] += 1
            elif not negatives:
                counts["without_negatives_by_margin"] += 1
            else:
                top = negatives[:depth]
                drawn = np.sort(permutation(seed, f"negatives of {query_id}", 0, len(top))[:sample])
                counts["examples"] += 1
                counts["fewer_negatives_than_sample"] += len(drawn) < sample
                counts["positives_removed"] += len(ranked) - len(unjudged)
                counts["removed_by_answer"] += len(unjudged) - len(unanswering)
                counts["removed_by_margin"] += len(unanswering) - len(negatives)
                counts["negatives"] += len(drawn)
                relevant = tuple(judged)
                if is_split:
                    by_run = [doc_id for doc_id in judged if doc_id in hits]
                    counts["positives_by_run"] += len(by_run)
                    counts["positives_by_first_passage"] += len(judged) - len(by_run)
                    relevant = tuple(
                        hits[doc_id].text_id if doc_id in hits else first_passage(doc_id) for doc_id in judged
                    )
                yield TrainExample(query_id, relevant, tuple(hits[top[index]].text_id for index in drawn))
        if counts["examples"] == 0:
            reasons = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
            advice = "Do run, queries and judgements belong together?"
            if 0 < counts["without_hits"] == counts["queries"] - counts["without_positives"]:
                advice = "None of these queries found a passage: do queries and passages share any words?"
            raise ValueError(
                f"{run}: expected a train query with positives and negatives, got none ({reasons}). {advice}"
            )

    write_examples(output, examples())
    return counts


def _runs_by_query(run: str | Path, queries: str | Path) -> Iterator[tuple[str, dict[str, ScoredDoc]]]:
    """Every query with the hits of its run by document, best first; none if it lacks the query."""
    groups = groupby(read_run(run), key=attrgetter("query_id"))
    waiting = next(groups, None)
    with Progress("examples", total=count_lines(queries), unit="queries") as progress:
        for query in read_queries(queries):
            ranked: dict[str, ScoredDoc] = {}
            if waiting is not None and waiting[0] == query.query_id:
                ranked = {hit.doc_id: hit for hit in waiting[1]}
                waiting = next(groups, None)
            yield query.query_id, ranked
            progress.advance()
    assert waiting is None, f"{run}: query {waiting[0]} is not in the order of {queries}"
