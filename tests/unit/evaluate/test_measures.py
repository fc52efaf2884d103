from __future__ import annotations

import json
import math

import pytest

from condenser.evaluate.measures import parse
from condenser.evaluate.metrics import evaluate, means, measure_run, ranked, trec_ranks

NAMES = ["MRR@10", "R@100", "R@1000", "nDCG@10"]


def measured(run, grades, *, measures=NAMES, relevant_grade=1):
    scores = {query: [float(-rank) for rank in range(len(docs))] for query, docs in run.items()}
    rankings = (ranked(query, docs, scores[query], grades) for query, docs in run.items())
    return measure_run(rankings, grades, measures=measures, relevant_grade=relevant_grade)


@pytest.mark.parametrize(
    ("second", "grade", "counted"),
    [
        ("c", 1, {"queries_missing": 1, "queries_without_relevant": 0, "queries_unjudged": 1}),
        ("b", 0, {"queries_missing": 0, "queries_without_relevant": 1, "queries_unjudged": 0}),
    ],
    ids=["missing", "only negative judgements"],
)
def test_a_query_without_a_relevant_hit_counts_zero_and_an_unjudged_one_nothing(second, grade, counted):
    values, counts = measured({"a": ["x"], second: ["x"]}, {"a": {"x": 1}, "b": {"x": grade}})
    assert means(values)["MRR@10"] == means(values)["R@1000"] == 0.5
    first = {"first_hits": 2 - counted["queries_missing"], "unjudged_first_hits": 0}
    assert counts == {"queries": 2, "hits": 2, "queries_of_equal_scores": 0, **first, **counted}


def test_of_the_first_ten_hits_those_without_a_judgement_are_counted():
    hits = [f"d{rank}" for rank in range(12)]
    judged = {"a": {"d0": 1, "d3": 0, "d11": 1, "lost": 1}, "b": {"x": 1}}
    _, counts = measured({"a": hits, "b": ["x", "y"]}, judged)
    assert (counts["first_hits"], counts["unjudged_first_hits"]) == (12, 8 + 1)


@pytest.mark.parametrize(
    ("scores", "is_counted"),
    [
        ([0.5] * 12, True),
        ([0.5 - 1e-6 * rank for rank in range(12)], True),  # as Anserini writes equal ones
        ([0.5] * 9 + [0.4], False),
        ([0.5 - 2e-6 * rank for rank in range(12)], False),
        ([0.5] * 9, False),
    ],
)
def test_queries_whose_first_ten_scores_are_equal_are_counted(scores, is_counted):
    docs = [f"d{number}" for number in range(len(scores))]
    rankings = [ranked("q", docs, scores, {"q": {"d1": 1}})]
    _, counts = measure_run(rankings, {"q": {"d1": 1}}, measures=NAMES, relevant_grade=1)
    assert counts["queries_of_equal_scores"] == is_counted


def test_dl19_counts_grade_one_in_ndcg_alone():
    values, _ = measured({"q": ["one", "three"]}, {"q": {"one": 1, "three": 3, "two": 2}}, relevant_grade=2)
    assert values["q"]["MRR@10"] == 0.5
    assert values["q"]["R@100"] == 0.5
    ideal = 3 + 2 / math.log2(3) + 1 / 2
    assert values["q"]["nDCG@10"] == pytest.approx((1 + 3 / math.log2(3)) / ideal, rel=1e-12)


def test_trec_order_breaks_ties_by_the_later_id_and_sees_float32():
    def ranks(doc_ids, scores):
        return trec_ranks(ranked("q", doc_ids, scores, {"q": dict.fromkeys(doc_ids, 1)}))

    assert ranks(["a", "b", "c"], [1.0 + 1e-9, 1.0, 2.0]) == {"c": 1, "b": 2, "a": 3}
    assert ranks(["Z", "ä", "a"], [1.0, 1.0, 1.0]) == {"ä": 1, "a": 2, "Z": 3}
    assert ranks(["a", "b", "c"], [1e39, 2e39, 1.0]) == {"b": 1, "a": 2, "c": 3}  # infinite in float32


def test_the_metrics_file_keeps_every_query_in_the_order_of_the_judgements(tmp_path):
    (tmp_path / "run").write_text("b Q0 x 1 3 s\nb Q0 y 2 2 s\n")
    (tmp_path / "qrels").write_text("b\t0\ty\t1\na\t0\tx\t1\n")
    files = [tmp_path / name for name in ("run", "qrels", "out.json")]
    counts = evaluate(*files, system="s", measures=["nDCG@3", "MRR@10"], relevant_grade=1)
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["measures"].keys() == {"nDCG@3", "MRR@10"}
    assert content["per_query"]["query_id"] == ["b", "a"]
    assert content["per_query"]["MRR@10"] == [0.5, 0.0]
    assert content["measures"]["MRR@10"] == 0.25
    assert content["counts"] == counts


def test_judgements_without_a_relevant_passage_are_an_error_and_no_table_of_zeros(tmp_path):
    (tmp_path / "run").write_text("q Q0 x 1 3 s\n")
    (tmp_path / "qrels").write_text("q\t0\tx\t1\nr\t0\tx\t0\n")
    files = [tmp_path / name for name in ("run", "qrels", "out")]
    with pytest.raises(ValueError, match=r"qrels: expected a passage of grade 2 or more, got none"):
        evaluate(*files, system="s", measures=["R@100"], relevant_grade=2)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "name", ["MRR", "MRR@0", "MRR@010", "MRR@ten", "mrr@10", "P@5", "MRR@10@5", "spearman@10", "accuracy@1"]
)
def test_a_name_that_is_no_measure_at_a_depth_is_refused_with_those_there_are(name):
    with pytest.raises(ValueError, match=r"expected measures such as MRR@10, ") as caught:
        parse(name)
    assert repr(name) in str(caught.value)


def test_measures_of_any_depth_worked_by_hand():
    grades = {"q": {"a": 3, "b": 1, "c": -1, "d": 0}}
    names = ["MRR@1", "MRR@2", "R@1", "R@3", "nDCG@1", "nDCG@2", "nDCG@3"]
    values, _ = measured({"q": ["c", "b", "a", "x"]}, grades, measures=names)
    second, third = 1 / math.log2(3), 3 / math.log2(4)
    assert values["q"] == pytest.approx(
        {
            **{"MRR@1": 0.0, "MRR@2": 0.5, "R@1": 0.0, "R@3": 1.0},
            # a negative grade gains nothing, and the ideal has a, then b
            **{"nDCG@1": 0.0, "nDCG@2": second / (3 + second), "nDCG@3": (second + third) / (3 + second)},
        }
    )
