"""Our measures against trec_eval's own code, and against MS MARCO's rule written a second time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from runs import scores_by_query

from condenser.data.records import Qrel, ScoredDoc, read_qrels, write_qrels, write_run
from condenser.evaluate.metrics import grades_of, means, measure_run, read_rankings


def made_up(folder: Path, *, seed: int, depth: int, max_grade: int) -> tuple[Path, Path]:
    """A run full of ties over 30 of 40 judged queries and one unjudged, and its judgements."""
    rng = np.random.default_rng(seed)
    passages = [f"d{row}" for row in range(1500)] + ["ä1", "Z", "9"]
    qrels, rows = [], []
    for number in range(40):
        judged = rng.choice(passages, size=rng.integers(1, 60), replace=False)
        qrels += [Qrel(f"q{number}", str(one), int(rng.integers(0, max_grade + 1))) for one in judged]
    for number in [*range(30), 99]:
        found = rng.choice(passages, size=min(depth, len(passages)), replace=False)
        scores = np.sort(rng.integers(0, depth // 3 + 2, size=len(found)).astype(np.float32) / 7)[::-1]
        rows += [ScoredDoc(f"q{number}", str(one), float(s)) for one, s in zip(found, scores, strict=True)]
    write_qrels(folder / "qrels.tsv", qrels)
    write_run(folder / "run.trec", rows, system="made-up")
    return folder / "run.trec", folder / "qrels.tsv"


@pytest.mark.parametrize(
    ("seed", "depth", "max_grade", "relevant_grade"), [(1, 1000, 1, 1), (2, 12, 3, 2), (3, 5, 3, 1)]
)
def test_recall_and_ndcg_equal_trec_eval(tmp_path, seed, depth, max_grade, relevant_grade):
    run_file, qrels_file = made_up(tmp_path, seed=seed, depth=depth, max_grade=max_grade)
    judged = grades_of(read_qrels(qrels_file))
    values, _ = measure_run(
        read_rankings(run_file, judged),
        judged,
        measures=["R@1", "R@20", "R@100", "R@1000", "nDCG@5", "nDCG@10", "nDCG@1000"],
        relevant_grade=relevant_grade,
    )
    run = scores_by_query(run_file)
    binary = pytrec_eval.RelevanceEvaluator(judged, {"recall.1,20,100,1000"}, relevance_level=relevant_grade)
    graded = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.5,10,1000"})
    recalls, gains = binary.evaluate(run), graded.evaluate(run)
    assert len(recalls) == 30
    trec_name = {"R": "recall", "nDCG": "ndcg_cut"}
    for query_id, of_query in values.items():
        theirs = recalls.get(query_id, {}) | gains.get(query_id, {})
        for measure, value in of_query.items():
            family, _, depth = measure.partition("@")
            expected = theirs[f"{trec_name[family]}_{depth}"] if theirs else 0.0
            assert value == pytest.approx(expected, rel=1e-12), (query_id, measure)


def official_mrr(qrels_file: Path, run_file: Path, *, depth: int) -> float:
    """MS MARCO's rule in the plainest words: ranks as given, the sum over the judged queries."""
    relevant: dict[str, set[str]] = {}
    for line in qrels_file.read_text().splitlines():
        query, _, passage, grade = line.split("\t")
        relevant.setdefault(query, set())
        if int(grade) >= 1:
            relevant[query].add(passage)
    best: dict[str, float] = {}
    for line in run_file.read_text().splitlines():
        query, _, passage, rank, _, _ = line.split(" ")
        if int(rank) <= depth and passage in relevant.get(query, ()):
            best[query] = max(best.get(query, 0.0), 1 / int(rank))
    return sum(best.values()) / len(relevant)


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_mrr_equals_the_official_rule_with_ties_and_missing_queries(tmp_path, seed):
    run_file, qrels_file = made_up(tmp_path, seed=seed, depth=30, max_grade=1)
    judged = grades_of(read_qrels(qrels_file))
    values, counts = measure_run(
        read_rankings(run_file, judged),
        judged,
        measures=["MRR@10", "MRR@20"],
        relevant_grade=1,
    )
    for depth in (10, 20):
        expected = official_mrr(qrels_file, run_file, depth=depth)
        assert expected > 0
        assert means(values)[f"MRR@{depth}"] == pytest.approx(expected, rel=1e-12)
    assert counts["queries"] == 40
    assert counts["queries_missing"] == 10
    assert counts["queries_unjudged"] == 1
