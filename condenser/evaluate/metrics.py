"""The measures of a run: MRR@10 as MS MARCO's official script, the others as trec_eval.

Every mean is over all queries with judgements, like the official script's and `trec_eval -c`: a
query that the run misses counts 0, a query of the run without judgements counts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from condenser.data.records import Qrel, hits_by_query, is_relevant, read_items, read_qrels, read_similarities
from condenser.evaluate.measures import Ranking, parse
from condenser.files import write_json

if TYPE_CHECKING:
    import pyarrow

Grades = Mapping[str, Mapping[str, int]]  # query_id -> doc_id -> grade


class RankedQuery(NamedTuple):
    """The hits of a query; `places` are those of its judged passages among them, from 0."""

    query_id: str
    doc_ids: pyarrow.StringArray  # in the order of the run
    scores: Sequence[float] | np.ndarray
    places: Mapping[str, int]


def grades_of(qrels: Iterable[Qrel]) -> dict[str, dict[str, int]]:
    """Judgements by query and passage."""
    grades: dict[str, dict[str, int]] = {}
    for qrel in qrels:
        grades.setdefault(qrel.query_id, {})[qrel.doc_id] = qrel.grade
    return grades


def ranked(
    query_id: str,
    doc_ids: Sequence[str] | pyarrow.StringArray,
    scores: Sequence[float] | np.ndarray,
    grades: Grades,
) -> RankedQuery:
    """What `measure_run` needs of the hits of a query, which stand in the order of the run."""
    import pyarrow

    texts = pyarrow.array(doc_ids, pyarrow.string()) if isinstance(doc_ids, Sequence) else doc_ids
    num_hits, judged = len(texts), [*grades.get(query_id, ())]
    # the number of each text in order of first occurrence
    both = pyarrow.concat_arrays([texts, pyarrow.array(judged, pyarrow.string())])
    numbers = both.dictionary_encode().indices.to_numpy()
    assert not num_hits or numbers[num_hits - 1] == num_hits - 1, f"query {query_id} has a passage twice"
    places = zip(judged, numbers[num_hits:].tolist(), strict=True)
    return RankedQuery(
        query_id, texts, scores, {doc_id: place for doc_id, place in places if place < num_hits}
    )


def read_rankings(run_file: Path, grades: Grades) -> Iterator[RankedQuery]:
    """The rankings of a run, query by query, in file order."""
    for query_id, doc_ids, scores in hits_by_query(run_file):
        yield ranked(query_id, doc_ids, scores, grades)


def trec_ranks(ranking: RankedQuery) -> dict[str, int]:
    """The ranks from 1 that trec_eval gives the judged passages, whatever order the run has.

    By score in float32, descending; ties by doc_id as bytes, descending (in UTF-8 that is the order of str).
    """
    with np.errstate(over="ignore"):
        scores = np.asarray(ranking.scores, dtype=np.float32)
    if (scores[1:] < scores[:-1]).all():
        return {doc_id: place + 1 for doc_id, place in ranking.places.items()}
    ranks = {}
    for doc_id, place in ranking.places.items():
        tied = ranking.doc_ids.take(np.flatnonzero(scores == scores[place])).to_pylist()
        better = np.count_nonzero(scores > scores[place]) + sum(other > doc_id for other in tied)
        ranks[doc_id] = int(better) + 1
    return ranks


def measure_run(
    rankings: Iterable[RankedQuery],
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
    (judged, nothing reaches the grade), `queries_unjudged` (in the run alone), `queries_of_equal_scores`
    (judged, their first ten hits have one score), `hits`, `first_hits` (the first ten of each judged query),
    and how many of these are `unjudged_first_hits`.
    """
    asked = [parse(name) for name in measures]
    values = {query_id: dict.fromkeys(measures, 0.0) for query_id in grades}
    relevant = {
        query_id: frozenset(
            doc_id for doc_id, grade in of_query.items() if is_relevant(grade, relevant_grade)
        )
        for query_id, of_query in grades.items()
    }
    num_found = num_unjudged = num_equal = num_hits = num_first = num_first_unjudged = 0
    for ranked_query in rankings:
        query_id = ranked_query.query_id
        num_hits += len(ranked_query.doc_ids)
        if query_id not in grades:
            num_unjudged += 1
            continue
        num_found += 1
        num_equal += _are_equal(ranked_query.scores[:10])
        first = min(10, len(ranked_query.doc_ids))
        num_first += first
        num_first_unjudged += first - sum(place < 10 for place in ranked_query.places.values())
        ranking = Ranking(
            ranked_query.doc_ids,
            {doc_id: place + 1 for doc_id, place in ranked_query.places.items()},
            trec_ranks(ranked_query),
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
        "queries_of_equal_scores": num_equal,
        "hits": num_hits,
        "first_hits": num_first,
        "unjudged_first_hits": num_first_unjudged,
    }
    return values, counts


def _are_equal(scores: Sequence[float] | np.ndarray) -> bool:
    """Whether ten scores are equal; Anserini lowers each of equal ones by 1e-6 more than the one above it."""
    below = scores[0] - np.asarray(scores, dtype=np.float64) if len(scores) == 10 else np.ones(1)
    return not below.any() or bool(np.allclose(below, 1e-6 * np.arange(len(below)), rtol=0, atol=1e-8))


def means(values: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The mean of every measure over the queries."""
    measures = next(iter(values.values()))
    return {name: fsum(of_query[name] for of_query in values.values()) / len(values) for name in measures}


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
        not is_relevant(grade, relevant_grade) for of_query in grades.values() for grade in of_query.values()
    ):
        raise ValueError(
            f"{qrels_file}: expected a passage of grade {relevant_grade} or more, got none. "
            "Lower metrics.relevant_grade, complete the judgements, or take measures by answer (hits@20)."
        )
    values, counts = measure_run(
        read_rankings(run_file, grades),
        grades,
        measures=measures,
        relevant_grade=relevant_grade,
        has_answer=has_answer,
    )
    averages = means(values)
    per_query: dict[str, list] = {name: [of_query[name] for of_query in values.values()] for name in averages}
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
    """
    items = list(read_items(items_file))
    similarities = np.array([of_item for _, of_item in read_similarities(similarities_file)])
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
                "query_id": [item.item_id for item in items],
                **{name: of_items.tolist() for name, of_items in values.items()},
            },
        },
    )
    return counts
