"""Weights of a fusion from judged queries: against logistic regression, a grid, and known worth of runs."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from scipy.stats import zscore
from sklearn.linear_model import LogisticRegression

from condenser.data.records import Qrel, Query, ScoredDoc, write_qrels, write_queries, write_run
from condenser.retrieve import learnt_weights
from condenser.retrieve.learnt_weights import JudgedHits, fit_weights, learn_weights, read_judged_hits


def judged(
    worth: list[float], *, num_queries: int = 60, num_hits: int = 8, seed: int = 0
) -> list[JudgedHits]:
    """Queries with one relevant hit, which run i puts `worth[i]` standard deviations above the others."""
    random = np.random.default_rng(seed)
    queries = []
    for _ in range(num_queries):
        scores = random.normal(size=(num_hits, len(worth)))
        scores[0] += worth
        queries.append(JudgedHits(zscore(scores), np.arange(num_hits) == 0))
    return queries


def test_of_two_hits_the_weights_are_those_of_logistic_regression() -> None:
    random = np.random.default_rng(1)
    differences = random.normal(loc=[0.8, 0.5, 0.2], size=(200, 3))
    queries = [JudgedHits(np.stack([row, np.zeros(3)]), np.array([True, False])) for row in differences]
    both = np.concatenate([differences, -differences])
    labels = np.repeat([1, 0], len(differences))
    theirs = LogisticRegression(C=1e12, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(both, labels)
    assert fit_weights(queries, 0.0) == pytest.approx(theirs.coef_[0], abs=1e-4)


@pytest.mark.parametrize("penalty", [0.0, 0.05])
def test_no_weights_on_a_grid_have_a_lower_loss(penalty: float) -> None:
    queries = judged([1.5, 0.7], num_queries=40)
    queries[0] = JudgedHits(queries[0].scores, np.arange(8) < 2)  # two relevant hits

    scores = np.stack([query.scores for query in queries])
    is_relevant = np.stack([query.is_relevant for query in queries])[..., None]

    def objectives(weights: np.ndarray) -> np.ndarray:
        """Of each row of weights."""
        chances = log_softmax(scores @ weights.T, axis=1)
        losses = np.mean(-chances, axis=1, where=is_relevant).mean(axis=0)
        return np.asarray(losses + penalty * ((weights - weights.mean(axis=1, keepdims=True)) ** 2).sum(1))

    ours = fit_weights(queries, penalty)
    grid = np.array(list(product(np.arange(0.05, 4, 0.05), repeat=2)))
    of_grid = objectives(grid)
    assert objectives(ours[None])[0] <= of_grid.min() + 1e-9
    assert ours == pytest.approx(grid[of_grid.argmin()], abs=0.06)


def test_a_run_that_knows_nothing_gets_no_weight_and_the_better_one_more() -> None:
    learnt = learn_weights(judged([2.0, 1.0, 0.0], num_queries=400), num_runs=3, least_queries=50)
    better, good, noise = learnt.weights
    assert better > 1.5 * good and noise < 0.05 and sum(learnt.weights) == pytest.approx(1)
    assert learnt.losses["learnt"] < learnt.losses["equal"] and max(learnt.spread) < 0.05


def test_a_run_that_ranks_relevant_hits_low_gets_no_weight_below_zero() -> None:
    weights = fit_weights(judged([1.5, -1.0]), 0.0)
    assert weights[0] > 1 and 0 < weights[1] < 1e-5
    learnt = learn_weights(judged([1.5, -1.0]), num_runs=2, least_queries=50)
    assert min(learnt.weights) > 0


def test_few_queries_of_runs_of_the_same_worth_give_nearly_equal_weights() -> None:
    learnt = learn_weights(judged([1.0, 1.0, 1.0], num_queries=50), num_runs=3, least_queries=50)
    assert learnt.penalty == max(learnt_weights.PENALTIES)
    assert learnt.weights == pytest.approx([1 / 3] * 3, abs=0.02)


def test_of_penalties_that_are_as_good_the_largest_is_taken() -> None:
    queries = [JudgedHits(np.zeros((4, 2)), np.arange(4) == 0)] * 50  # no weights change a loss
    assert learn_weights(queries, num_runs=2, least_queries=50).penalty == max(learnt_weights.PENALTIES)


def test_a_fold_is_measured_by_weights_that_did_not_see_it() -> None:
    """The slow way: one query after another, by the fit without its fold."""
    queries = judged([1.0, 0.3], num_queries=53)
    learnt = learn_weights(queries, num_runs=2, least_queries=50)
    losses, equal, shares = [], [], []

    def loss(query: JudgedHits, weights: np.ndarray) -> float:
        return float(-log_softmax(query.scores @ weights)[0])

    for number, query in enumerate(queries):
        others = [other for place, other in enumerate(queries) if place % 5 != number % 5]
        weights = fit_weights(others, learnt.penalty)
        losses.append(loss(query, weights))
        shares.append(weights / weights.sum())
        best = minimize_scalar(
            lambda scale, others=others: sum(loss(one, np.full(2, scale)) for one in others)
        )
        equal.append(loss(query, np.full(2, best.x)))
    assert learnt.losses["learnt"] == pytest.approx(np.mean(losses), rel=1e-9)
    assert learnt.losses["equal"] == pytest.approx(np.mean(equal), rel=1e-6)
    assert learnt.spread == pytest.approx(np.std(shares[:5], axis=0, ddof=1))  # of the five folds


def files(folder: Path, num_queries: int) -> tuple[list[Path], Path, Path]:
    """Two runs; of each query a and d are relevant, b has grade 0; the second run lacks query 0."""
    ids = [f"q{number}" for number in range(num_queries)]
    write_queries(folder / "queries.jsonl", [Query(query_id, "words") for query_id in ids])
    qrels = [Qrel(query_id, *judged) for query_id in ids for judged in (("a", 2), ("b", 0), ("d", 1))]
    write_qrels(folder / "qrels.tsv", qrels)
    runs = [folder / "first.trec", folder / "second.trec"]
    first, second = {"c": 3.0, "b": 1.0}, {"a": 5.0, "c": 4.0, "b": 1.0, "d": 0.5}
    for run, found, asked in zip(runs, (first, second), (ids, ids[1:]), strict=True):
        hits = (ScoredDoc(query_id, *hit) for query_id in asked for hit in found.items())
        write_run(run, hits, system="one")
    return runs, folder / "queries.jsonl", folder / "qrels.tsv"


def test_hits_are_read_with_the_judgements_of_the_subset(tmp_path: Path) -> None:
    given = files(tmp_path, 30)
    subset = {f"q{number}" for number in range(20)}
    queries, counts = read_judged_hits(*given, relevant_grade=1, subset=subset, depth=2, most_queries=99)
    assert counts == {"queries": 19, "without_relevant_hit": 1, "left_out": 0}
    # c, b and then a; a run that lacks a hit among its first two gives it their lowest score
    expected = zscore([[3.0, 4.0], [1.0, 4.0], [1.0, 5.0]])
    assert all(query.scores == pytest.approx(expected) for query in queries)
    assert all(query.is_relevant.tolist() == [False, False, True] for query in queries)


def test_a_judged_query_that_no_run_has_is_counted(tmp_path: Path) -> None:
    runs, asked, qrels = files(tmp_path, 30)
    with qrels.open("a") as file:
        file.write("q of no run\t0\ta\t1\n")
    _, counts = read_judged_hits(runs, asked, qrels, relevant_grade=1, subset=None, depth=2, most_queries=99)
    assert counts == {"queries": 29, "without_relevant_hit": 2, "left_out": 0}


def test_more_queries_than_are_held_are_counted(tmp_path: Path) -> None:
    queries, counts = read_judged_hits(
        *files(tmp_path, 30), relevant_grade=1, subset=None, depth=2, most_queries=12
    )
    assert len(queries) == 12 and counts == {"queries": 12, "without_relevant_hit": 1, "left_out": 17}


def test_too_few_queries_leave_equal_weights() -> None:
    """Though all of them say that the first run alone is good."""
    queries = judged([3.0, 0.0], num_queries=50)
    few = learn_weights(queries[:49], num_runs=2, least_queries=50)
    assert (few.weights, few.spread, few.penalty) == ([0.5, 0.5], [0.0, 0.0], None)
    assert learn_weights(queries, num_runs=2, least_queries=50).weights[0] > 0.9
    assert learn_weights([], num_runs=2, least_queries=50).weights == [0.5, 0.5]
