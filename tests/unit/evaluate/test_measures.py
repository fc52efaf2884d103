from __future__ import annotations

import json
import math

import pytest

from condenser.data.records import Qrel
from condenser.evaluate.metrics import evaluate, grades_of, means, measure_run, read_rankings, trec_order


def measured(run, grades, *, relevant_grade=1):
    return measure_run(
        ((query, docs, [float(-rank) for rank in range(len(docs))]) for query, docs in run.items()),
        grades,
        relevant_grade=relevant_grade,
    )


def test_a_relevant_passage_at_rank_eleven_gives_no_reciprocal_rank():
    docs = [f"d{rank}" for rank in range(1, 12)]
    values, _ = measured({"q": docs}, {"q": {"d11": 1}})
    assert values["q"]["MRR@10"] == 0.0
    values, _ = measured({"q": docs}, {"q": {"d10": 1, "d11": 1}})
    assert values["q"]["MRR@10"] == 0.1
    assert values["q"]["R@100"] == 1.0


def test_a_missing_query_counts_zero_and_an_unjudged_one_nothing():
    values, counts = measured({"a": ["x"], "c": ["x"]}, {"a": {"x": 1}, "b": {"x": 1}})
    assert means(values)["MRR@10"] == 0.5
    assert counts == {
        "queries": 2,
        "queries_missing": 1,
        "queries_without_relevant": 0,
        "queries_unjudged": 1,
        "hits": 2,
    }


def test_a_query_whose_judgements_are_all_negative_counts_zero_and_is_told():
    values, counts = measured({"a": ["x"], "b": ["x"]}, {"a": {"x": 1}, "b": {"x": 0}})
    assert means(values)["MRR@10"] == 0.5
    assert means(values)["R@1000"] == 0.5
    assert counts["queries_without_relevant"] == 1


def test_dl19_counts_grade_one_in_ndcg_alone():
    values, _ = measured({"q": ["one", "three"]}, {"q": {"one": 1, "three": 3, "two": 2}}, relevant_grade=2)
    assert values["q"]["MRR@10"] == 0.5
    assert values["q"]["R@100"] == 0.5
    ideal = 3 + 2 / math.log2(3) + 1 / 2
    assert values["q"]["nDCG@10"] == pytest.approx((1 + 3 / math.log2(3)) / ideal, rel=1e-12)


def test_a_passage_twice_in_a_list_is_an_error_with_its_line(tmp_path):
    run = tmp_path / "run.trec"
    run.write_text("q Q0 a 1 3 s\nq Q0 b 2 2 s\nq Q0 a 3 1 s\n")
    with pytest.raises(ValueError, match=r"run\.trec:3: .*query q, got a again"):
        list(read_rankings(run))


def test_a_query_in_two_places_is_an_error_with_its_line(tmp_path):
    run = tmp_path / "run.trec"
    run.write_text("q Q0 a 1 3 s\np Q0 b 1 2 s\nq Q0 c 2 1 s\n")
    with pytest.raises(ValueError, match=r"run\.trec:3: .*query q together"):
        list(read_rankings(run))


@pytest.mark.parametrize(
    "line", ["q Q0 a 1 3", "q Q0 a 1 high s", "q Q0 a 1 nan s", "q\tQ0\ta b\t1\t3\ts", ""]
)
def test_a_line_that_is_no_hit_is_an_error_with_its_line(tmp_path, line):
    run = tmp_path / "run.trec"
    run.write_text(f"q Q0 z 1 3 s\n{line}\n")
    with pytest.raises(ValueError, match=r"run\.trec:2: expected 6 columns"):
        list(read_rankings(run))


def test_two_grades_for_one_passage_are_an_error():
    assert grades_of([Qrel("q", "d", 1), Qrel("q", "d", 1)]) == {"q": {"d": 1}}
    with pytest.raises(ValueError, match="one grade for passage d, got 1 and 2"):
        grades_of([Qrel("q", "d", 1), Qrel("q", "d", 2)])


def test_trec_order_breaks_ties_by_the_later_id_and_sees_float32():
    assert trec_order(["a", "b", "c"], [1.0 + 1e-9, 1.0, 2.0]) == ["c", "b", "a"]
    assert trec_order(["Z", "ä", "a"], [1.0, 1.0, 1.0]) == ["ä", "a", "Z"]


def test_the_metrics_file_keeps_every_query_in_the_order_of_the_judgements(tmp_path):
    (tmp_path / "run").write_text("b Q0 x 1 3 s\nb Q0 y 2 2 s\n")
    (tmp_path / "qrels").write_text("b\t0\ty\t1\na\t0\tx\t1\n")
    counts = evaluate(
        tmp_path / "run", tmp_path / "qrels", tmp_path / "out.json", system="s", relevant_grade=1
    )
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["per_query"]["query_id"] == ["b", "a"]
    assert content["per_query"]["MRR@10"] == [0.5, 0.0]
    assert content["measures"]["MRR@10"] == 0.25
    assert content["counts"] == counts


def test_judgements_without_a_relevant_passage_are_an_error_and_no_table_of_zeros(tmp_path):
    (tmp_path / "run").write_text("q Q0 x 1 3 s\n")
    (tmp_path / "qrels").write_text("q\t0\tx\t1\nr\t0\tx\t0\n")
    with pytest.raises(ValueError, match=r"qrels: expected a passage of grade 2 or more, got none"):
        evaluate(tmp_path / "run", tmp_path / "qrels", tmp_path / "out", system="s", relevant_grade=2)
    assert not (tmp_path / "out").exists()


def test_no_judgements_at_all_are_an_error():
    with pytest.raises(ValueError, match="expected judged queries, got none"):
        means({})
