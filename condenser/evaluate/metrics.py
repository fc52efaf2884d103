"""The measures of a run: MRR@10 as MS MARCO's official script, the others as trec_eval.

Every mean is over all queries with judgements, like the official script's and `trec_eval -c`: a
query that the run misses counts 0, a query of the run without judgements counts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from math import fsum
from operator import attrgetter
from pathlib import Path

import numpy as np

from condenser.data.records import Qrel, read_items, read_qrels, read_run, read_similarities
from condenser.evaluate.measures import Ranking, parse
from condenser.files import write_json

Grades = Mapping[str, Mapping[str, int]]  # query_id -> doc_id -> grade
RunOfQuery = tuple[str, list[str], list[float]]  # query_id, doc_ids in order of the run, scores


def grades_of(qrels: Iterable[Qrel]) -> dict[str, dict[str, int]]:
    """Judgements by query and passage.

    Raises:
        ValueError: a passage is judged twice for one query, with different grades.
    """
    grades: dict[str, dict[str, int]] = {}
    for qrel in qrels:
        of_query = grades.setdefault(qrel.query_id, {})
        if of_query.setdefault(qrel.doc_id, qrel.grade) != qrel.grade:
            raise ValueError(
                f"query {qrel.query_id}: expected one grade for passage {qrel.doc_id}, got "
                f"{of_query[qrel.doc_id]} and {qrel.grade}. Correct the qrels."
            )
    return grades


def read_rankings(run_file: Path) -> Iterator[RunOfQuery]:
    """The rankings of a run, query by query, in file order.

    Raises:
        ValueError: a line is not a TREC run's, the lines of a query are not contiguous, or a query has a
            passage twice.
    """
    done: set[str] = set()
    first_line = 1
    for query_id, lines in groupby(read_run(run_file), key=attrgetter("query_id")):
        hits = list(lines)
        if query_id in done:
            raise ValueError(
                f"{run_file}:{first_line}: expected all lines of query {query_id} together, got more of "
                "them after another query. Sort the run by query."
            )
        done.add(query_id)
        doc_ids = [hit.doc_id for hit in hits]
        if len(set(doc_ids)) != len(doc_ids):
            repeated = next(index for index, doc_id in enumerate(doc_ids) if doc_id in doc_ids[:index])
            raise ValueError(
                f"{run_file}:{first_line + repeated}: expected each passage once for query {query_id}, got "
                f"{doc_ids[repeated]} again. Remove the duplicate."
            )
        yield query_id, doc_ids, [hit.score for hit in hits]
        first_line += len(hits)


def trec_order(doc_ids: Sequence[str], scores: Sequence[float]) -> list[str]:
    """The passages as trec_eval ranks them, whatever order the run has.

    By score in float32, descending; ties by doc_id as bytes, descending.
    """
    exact = np.asarray(scores, dtype=np.float32).tolist()
    pairs = sorted(zip(exact, (doc_id.encode() for doc_id in doc_ids), strict=True), reverse=True)
    return [doc_id.decode() for _, doc_id in pairs]


def measure_run(
    rankings: Iterable[RunOfQuery],
    grades: Grades,
    *,
    measures: Sequence[str],
    relevant_grade: int,
    has_answer: Callable[[str, str], bool] | None = None,
) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    """Each judged query's measures, and counts.

    A passage is relevant from `relevant_grade` on (nDCG: the grade itself). Reciprocal ranks follow
    the order of the run, as the official script follows its ranks; the others trec_eval's order.

    Args:
        measures: names such as "MRR@10" (`condenser.evaluate.measures`).
        has_answer: whether a query's answer stands in a passage, by query_id and doc_id.

    Counts: `queries` (judged), `queries_missing` (judged, not in the run), `queries_without_relevant`
    (judged, nothing reaches the grade), `queries_unjudged` (in the run alone), `hits`.
    """
    asked = [parse(name) for name in measures]
    values = {query_id: dict.fromkeys(measures, 0.0) for query_id in grades}
    relevant = {
        query_id: frozenset(doc_id for doc_id, grade in of_query.items() if grade >= relevant_grade)
        for query_id, of_query in grades.items()
    }
    num_found = num_unjudged = num_hits = 0
    for query_id, doc_ids, scores in rankings:
        num_hits += len(doc_ids)
        if query_id not in grades:
            num_unjudged += 1
            continue
        num_found += 1
        ranking = Ranking(
            doc_ids,
            trec_order(doc_ids, scores),
            relevant[query_id],
            grades[query_id],
            partial(has_answer, query_id) if has_answer else None,
        )
        values[query_id] = {measure.name: measure(ranking) for measure in asked}
    counts = {
        "queries": len(grades),
        "queries_missing": len(grades) - num_found,
        "queries_without_relevant": sum(not passages for passages in relevant.values()),
        "queries_unjudged": num_unjudged,
        "hits": num_hits,
    }
    return values, counts


def means(values: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The mean of every measure over the queries.

    Raises:
        ValueError: there is no query.
    """
    if not values:
        raise ValueError("expected judged queries, got none. Is the qrels file empty?")
    measures = next(iter(values.values()))
    return {name: fsum(one[name] for one in values.values()) / len(values) for name in measures}


def evaluate(
    run_file: Path,
    qrels_file: Path,
    metrics_file: Path,
    *,
    system: str,
    measures: Sequence[str],
    relevant_grade: int,
    has_answer: Callable[[str, str], bool] | None = None,
    answered: Collection[str] = (),
) -> dict[str, int]:
    """Measure a run file and write means, counts and every query's values as JSON; gives the counts.

    `per_query` holds columns of equal length: `query_id` and the measures. The judged queries are those of
    the qrels, in their order, then those of `answered`, which their answers judge.

    Raises:
        ValueError: nothing is relevant, so that every measure by judgements would be 0 whatever the run.
    """
    grades = grades_of(read_qrels(qrels_file))
    for query_id in answered:
        grades.setdefault(query_id, {})
    by_answers = all(parse(name).needs_answers for name in measures)
    if not by_answers and all(
        grade < relevant_grade for of_query in grades.values() for grade in of_query.values()
    ):
        raise ValueError(
            f"{qrels_file}: expected a passage of grade {relevant_grade} or more, got none. "
            "Lower metrics.relevant_grade, complete the judgements, or take measures by answer (hits@20)."
        )
    values, counts = measure_run(
        read_rankings(run_file),
        grades,
        measures=measures,
        relevant_grade=relevant_grade,
        has_answer=has_answer,
    )
    averages = means(values)
    per_query: dict[str, list] = {name: [one[name] for one in values.values()] for name in averages}
    write_json(
        metrics_file,
        {
            "system": system,
            "relevant_grade": relevant_grade,
            "measures": averages,
            "counts": counts,
            "per_query": {"query_id": list(values), **per_query},
        },
    )
    return counts


def evaluate_sentences(
    similarities_file: Path, items_file: Path, metrics_file: Path, *, system: str, measures: Sequence[str]
) -> dict[str, int]:
    """Measure similarities of pairs or triplets, and write the same JSON as `evaluate`; gives the counts.

    Items stand in place of queries. The values of a measure are those of its module (`spearman`: normalised
    pseudo-values), and their mean is the measure.

    Raises:
        ValueError: the similarities are not those of the items.
    """
    items, found = list(read_items(items_file)), list(read_similarities(similarities_file))
    item_ids = [item.item_id for item in items]
    if [item_id for item_id, _ in found] != item_ids:
        raise ValueError(
            f"{similarities_file}: expected the items of {items_file}, in their order, got others. "
            "Make the similarities again."
        )
    similarities = np.array([of_item for _, of_item in found], dtype=np.float64)
    labels = np.array([np.nan if item.label is None else item.label for item in items], dtype=np.float64)
    values = {name: parse(name).module.values(similarities, labels) for name in measures}
    counts = {"queries": len(items)}
    write_json(
        metrics_file,
        {
            "system": system,
            "measures": {name: fsum(of_items) / len(items) for name, of_items in values.items()},
            "counts": counts,
            "per_query": {
                "query_id": item_ids,
                **{name: of_items.tolist() for name, of_items in values.items()},
            },
        },
    )
    return counts
