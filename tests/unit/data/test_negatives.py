from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from job_files import do

from condenser import progress
from condenser.data.negatives import COUNTS, logit, make_examples
from condenser.data.records import (
    Passage,
    Qrel,
    Query,
    ScoredDoc,
    TrainExample,
    read_examples,
    write_passages,
    write_qrels,
    write_queries,
    write_run,
)

Judged = dict[str, dict[str, int]]
OPTIONS = {
    **{"relevant_grade": 1, "depth": 200, "sample": 30, "positive_in_run": False, "margin": None},
    **{"wanted": None, "seed": 1},
}
THRESHOLDS = {"negative_below": 0.1, "positive_above": 0.9}


def examples_of(
    folder: Path, hits: list[ScoredDoc], judged: Judged | None, *, queries: Iterable[str], **options
) -> tuple[list[TrainExample], dict[str, int]]:
    """Examples and counts from files as the rules write them; without judgements if None."""
    write_run(folder / "run.trec", hits, system="bm25")
    write_queries(folder / "queries.jsonl", [Query(query, "text") for query in queries])
    grades = [(query, doc, grade) for query, of in (judged or {}).items() for doc, grade in of.items()]
    write_qrels(folder / "qrels.tsv", [Qrel(*one) for one in grades])
    counts = make_examples(
        folder / "run.trec",
        folder / "queries.jsonl",
        None if judged is None else folder / "qrels.tsv",
        folder / "examples.jsonl",
        **{**OPTIONS, **options},
    )
    return list(read_examples(folder / "examples.jsonl")), counts


def made(
    folder: Path, run: dict[str, list[str]], judged: Judged, *, queries: list[str] | None = None, **options
) -> tuple[dict[str, TrainExample], dict[str, int]]:
    """Examples by query, and the counts, of hits whose scores are 0, -1, -2, ... by rank."""
    hits = [ScoredDoc(query, doc, -rank) for query, docs in run.items() for rank, doc in enumerate(docs)]
    examples, counts = examples_of(folder, hits, judged, queries=queries or run, **options)
    return {example.query_id: example for example in examples}, counts


def scored(
    folder: Path, run: dict[str, dict[str, float]], judged: Judged | None, **options
) -> tuple[list[TrainExample], dict[str, int]]:
    """Examples and counts of a teacher's run of probabilities."""
    hits = [ScoredDoc(query, doc, logit(share)) for query, of in run.items() for doc, share in of.items()]
    return examples_of(folder, hits, judged, queries=run, **options)


@pytest.mark.parametrize(
    ("docs", "grades", "options", "positives", "negatives"),
    [
        ("abc", {"a": 1, "b": 2, "c": 0}, {"relevant_grade": 2}, "b", "ac"),
        ("abcd", {"b": 1, "x": 2, "c": 0}, {}, "bx", "acd"),
        ("pabc", {"p": 1}, {"depth": 2}, "p", "ab"),  # positives are removed before the run is cut
    ],
)
def test_positives_have_the_relevant_grade_and_other_hits_may_be_negatives(
    tmp_path: Path, docs: str, grades: dict[str, int], options: dict[str, int], positives: str, negatives: str
) -> None:
    examples, counts = made(tmp_path, {"q": [*docs]}, {"q": grades}, **options)
    assert examples == {"q": TrainExample("q", tuple(positives), tuple(negatives))}
    assert counts["positives_removed"] == 1


def test_only_with_positive_in_run_a_query_needs_its_positive_found(tmp_path):
    run, judged = {"q": ["a", "p"], "r": ["a", "b"]}, {"q": {"p": 1}, "r": {"p": 1}}
    examples, counts = made(tmp_path, run, judged, positive_in_run=True, depth=1)
    assert list(examples) == ["q"]  # found below `depth`, yet found
    assert counts["without_positive_in_run"] == 1
    assert list(made(tmp_path, run, judged)[0]) == ["q", "r"]


def test_every_query_is_accounted_for(tmp_path):
    run = {"ok": ["p", "a"], "unjudged": ["a"], "zero": ["a"], "found": ["p"], "missed": ["a", "b"]}
    judged = {"ok": {"p": 1}, "zero": {"p": 0}, "found": {"p": 1}, "missed": {"p": 1}, "silent": {"p": 1}}
    order = ["ok", "unjudged", "zero", "silent", "found", "missed"]
    examples, counts = made(tmp_path, run, judged, queries=order, positive_in_run=True, sample=2)
    assert list(examples) == ["ok"]
    assert list(counts) == list(COUNTS)  # without thresholds no score is counted
    assert {name: count for name, count in counts.items() if count} == {
        **{"queries": 6, "without_positives": 2, "without_hits": 1, "without_positive_in_run": 1},
        **{"without_negatives": 1, "examples": 1, "fewer_negatives_than_sample": 1},
        **{"positives_removed": 1, "negatives": 1},
    }


def test_a_margin_leaves_out_what_scores_near_the_best_positive_or_above_it(tmp_path):
    run = {"q": ["a", "p", "b", "c", "d"], "without": ["a", "b"], "all": ["a", "b", "p"]}
    judged = {"q": {"p": 1, "d": 1}, "without": {"p": 1}, "all": {"p": 1}}
    examples, counts = made(tmp_path, run, judged, margin=0.0)
    assert examples["q"].negative_doc_ids == ("b", "c")
    assert examples["without"].negative_doc_ids == ("a", "b")
    assert counts["without_negatives_by_margin"] == 1 and counts["without_negatives"] == 0
    assert counts["removed_by_margin"] == 1 and counts["positives_removed"] == 2
    assert made(tmp_path, run, judged, margin=2.0)[0]["q"].negative_doc_ids == ("c",)


@pytest.mark.parametrize(("judged", "negatives"), [({"q": {"p": 1}}, ("n3",)), (None, ("n1", "n2", "n3"))])
def test_a_margin_is_from_the_best_judged_positive_and_not_from_one_by_score(
    tmp_path: Path, judged: dict[str, dict[str, int]] | None, negatives: tuple[str, ...]
) -> None:
    hits = {"new": 0.99, "n1": 0.09, "p" if judged else "n2": 0.06, "near": 0.05, "n3": 0.03}
    if judged is None:
        hits.pop("near")
    margin = logit(0.06) - logit(0.04)
    examples, _ = scored(tmp_path, {"q": hits}, judged, margin=margin if judged else 9.0, **THRESHOLDS)
    assert examples == [TrainExample("q", ("p", "new") if judged else ("new",), negatives)]


def test_what_holds_an_answer_is_no_negative(tmp_path):
    run = {"q": ["a", "p", "b", "c"], "r": ["a", "b"]}
    answering = {("q", "a"), ("q", "p"), ("r", "a"), ("r", "b"), ("x", "b")}
    examples, counts = made(tmp_path, run, {"q": {"p": 1}, "r": {"p": 1}}, answering=answering, depth=2)
    assert examples == {"q": TrainExample("q", ("p",), ("b", "c"))}  # the depth is that of what is left
    assert counts["removed_by_answer"] == 1 and counts["positives_removed"] == 1
    assert counts["without_negatives_by_answer"] == 1


def test_of_split_documents_examples_have_the_best_passages_by_the_run(tmp_path: Path) -> None:
    """A passage of a relevant document is never a negative; one that was not found is its first."""
    hits = [("c", "c#4"), ("b#1", "b#1#2"), ("d", "d#1"), ("e", "e#9")]
    run = [ScoredDoc("q", doc_id, -rank, passage_id) for rank, (doc_id, passage_id) in enumerate(hits)]
    judged = {"q": {"a": 1, "b#1": 2, "c": 0}}
    examples, counts = examples_of(tmp_path, run, judged, queries="q", depth=2, is_split=True)
    assert examples == [TrainExample("q", ("a#1", "b#1#2"), ("c#4", "d#1"))]
    assert (counts["positives_by_run"], counts["positives_by_first_passage"]) == (1, 1)


def test_a_score_on_a_threshold_is_neither_negative_nor_positive(tmp_path: Path) -> None:
    run = {"q": {"a": 0.75, "b": 0.5, "c": 0.25, "d": 0.2, "p": 0.1}}  # of these, .5 has an exact logit
    examples, counts = scored(tmp_path, run, {"q": {"p": 1}}, negative_below=0.5, positive_above=0.5)
    assert examples == [TrainExample("q", ("p", "a"), ("c", "d"))]
    assert counts["removed_by_score"] == 1
    examples, counts = scored(tmp_path, run, {"q": {"p": 1}}, negative_below=1.0, positive_above=None)
    assert examples == [TrainExample("q", ("p",), ("a", "b", "c", "d"))]  # every probability is below 1
    assert counts["removed_by_score"] == 0


def selected(
    hits: dict[str, float], grades: dict[str, int], *, is_held_out: bool, answers: set[str]
) -> tuple[list[str], set[str]]:
    """Positives and possible negatives of a query, decided hit by hit on probabilities."""
    positives = [doc_id for doc_id, grade in grades.items() if grade > 0]
    negatives = set()
    for doc_id in sorted(hits, key=lambda doc_id: -hits[doc_id]):
        if grades.get(doc_id, 0) > 0:
            continue
        if hits[doc_id] > THRESHOLDS["positive_above"] and doc_id not in grades and not is_held_out:
            positives.append(doc_id)
        if hits[doc_id] < THRESHOLDS["negative_below"] and doc_id not in answers:
            negatives.add(doc_id)
    return positives, negatives


@pytest.mark.parametrize("has_judgements", [True, False])
def test_selection_by_score_is_that_of_a_decision_for_each_hit(tmp_path: Path, has_judgements: bool) -> None:
    """300 queries of 0 to 12 hits; the last hits of a query hold its answers."""
    random = np.random.default_rng(5)
    run, judged, answering, held_out = {}, {}, set(), set()
    for number in range(300):
        query = f"q{number:03}"
        docs = [f"d{doc}" for doc in random.permutation(20)[: random.integers(13)]]
        probabilities = random.beta(0.4, 0.4, len(docs)).clip(1e-9, 1 - 1e-9)
        run[query] = dict(sorted(zip(docs, probabilities.tolist(), strict=True), key=lambda hit: -hit[1]))
        answering |= {(query, doc) for doc in docs[10:]}
        if has_judgements and random.random() < 0.7:
            grades = random.integers(3, size=3).tolist()
            judged[query] = {f"d{doc}": grade for doc, grade in enumerate(grades)}
        if random.random() < 0.3:
            held_out.add(query)
    known = {"answering": answering, "held_out": held_out}
    examples, counts = scored(tmp_path, run, judged if has_judgements else None, **known, **THRESHOLDS)
    expected = []
    for query, hits in run.items():
        answers = {doc for asked, doc in answering if asked == query}
        positives, negatives = selected(
            hits, judged.get(query, {}), is_held_out=query in held_out, answers=answers
        )
        if positives and negatives:
            in_order = tuple(doc for doc in hits if doc in negatives)
            expected.append(TrainExample(query, tuple(positives), in_order))
    assert examples == expected
    assert counts["queries"] == 300 and counts["examples"] == len(expected) > 60
    with_score = sum(
        not any(grade > 0 for grade in judged.get(one.query_id, {}).values()) for one in expected
    )
    assert counts["examples_by_score"] == with_score > 20


def test_with_thresholds_every_query_and_every_hit_is_accounted_for(tmp_path: Path) -> None:
    """A query for each reason; of the one example, hits of each sort."""
    run = {
        "ok": {"p": 0.99, "new": 0.95, "between": 0.5, "answer": 0.08, "near": 0.07, "n1": 0.03, "n2": 0.02},
        "between": {"a": 0.5, "b": 0.3},
        "positives": {"a": 0.95, "b": 0.91},
        "unjudged": {"a": 0.5, "b": 0.01},
        "answered": {"a": 0.05},
        "near": {"p": 0.05, "a": 0.04},
    }
    judged = {query: {"p": 1} for query in run if query != "unjudged"}
    judged["ok"]["low"] = 1  # not found
    answering = {("ok", "answer"), ("answered", "a")}
    # the margin is counted from the lowest score above which nothing is a negative: that of the best positive
    margin = logit(0.99) - logit(0.06)
    examples, counts = scored(
        tmp_path, run, judged, answering=answering, margin=margin, sample=1, **THRESHOLDS
    )
    (example,) = examples
    assert example.positive_doc_ids == ("p", "low", "new") and example.negative_doc_ids[0] in ("n1", "n2")
    reasons = [name for name in counts if name.startswith("without_")]
    assert counts["queries"] == len(run) == counts["examples"] + sum(counts[name] for name in reasons)
    assert {name: counts[name] for name in reasons if counts[name]} == {
        "without_positives": 1,  # unjudged
        "without_negatives": 1,  # positives
        "without_negatives_by_answer": 1,
        "without_negatives_by_score": 1,  # between
        "without_negatives_by_margin": 1,  # near
    }
    sorts = ["positives_removed", "positives_by_score"]
    sorts += [f"removed_by_{reason}" for reason in ("answer", "score", "margin")]
    assert [counts[name] for name in sorts] == [1] * 5
    assert len(run["ok"]) == sum(counts[name] for name in sorts) + 2  # n1 and n2, of which one is drawn
    assert (counts["negatives"], counts["fewer_negatives_than_sample"]) == (1, 0)


def test_of_split_documents_a_positive_by_score_is_the_passage_that_was_scored(tmp_path: Path) -> None:
    hits = [("b", "b#3", 0.95), ("c", "c#2", 0.05), ("d", "d#1", 0.01)]
    run = [
        ScoredDoc(query, doc_id, logit(probability), passage_id)
        for query in "qr"
        for doc_id, passage_id, probability in hits
    ]
    examples, counts = examples_of(
        tmp_path, run, {"q": {"a": 1}}, queries="qr", depth=2, is_split=True, **THRESHOLDS
    )
    assert examples == [
        TrainExample("q", ("a#1", "b#3"), ("c#2", "d#1")),
        TrainExample("r", ("b#3",), ("c#2", "d#1")),
    ]
    assert (counts["positives_by_run"], counts["positives_by_first_passage"]) == (2, 1)


def test_thresholds_that_leave_no_example_say_what_to_do(tmp_path: Path) -> None:
    message = r"\(queries 1, without_positives 1\)\. Raise negative_below, lower pos"
    with pytest.raises(ValueError, match=message):
        scored(tmp_path, {"q": {"a": 0.6, "b": 0.4}}, None, **THRESHOLDS)


def do_examples(folder, *, system="bm25", positive_in_run=(), denoise=None, **more):
    """By the program, from a run, queries and judgements in `folder`."""
    negatives = {"depth": 200, "sample": 30, "positive_in_run": list(positive_in_run), "margin": None}
    negatives["denoise"] = denoise
    settings = {"dataset": {"split": None}, "recipe": {"negatives": negatives}, "seed": 42}
    settings["metrics"] = {"relevant_grade": 1}
    files = {"run": "run.trec", "queries": "queries.jsonl", "qrels": "qrels.tsv"}
    given = {name: folder / file for name, file in files.items()}
    do(
        "examples",
        settings=settings,
        wildcards={"system": system},
        input={"raw": [], "collection": [], "subset": [], **given, **more},
        output={"examples": folder / "out", "manifest": folder / "m.json"},
    )


def test_the_program_leaves_out_answers_where_it_has_the_passages(tmp_path):
    made(tmp_path, {"q": ["a", "b"]}, {"q": {"p": 1}})
    write_queries(tmp_path / "queries.jsonl", [Query("q", "capital?", ("Paris",))])
    texts = {"a": "It is Paris.", "b": "It is Rome.", "p": "Paris, the capital."}
    write_passages(
        tmp_path / "collection.jsonl", [Passage(doc_id, "Paris", text) for doc_id, text in texts.items()]
    )
    do_examples(tmp_path, collection=tmp_path / "collection.jsonl")
    assert [one.negative_doc_ids for one in read_examples(tmp_path / "out")] == [("b",)]
    assert "collection.jsonl" in json.loads((tmp_path / "m.json").read_text())["inputs"]


def test_a_teacher_is_used_where_it_is_better_than_its_candidates_on_held_out_queries(tmp_path, caplog):
    """Its positive is second by the candidates: the better teacher puts it first, the worse one last."""
    caplog.set_level("INFO", logger="condenser")
    order = {"a": 3.0, "p": 2.0, "b": 1.0}
    candidates = [ScoredDoc("q", doc, score) for doc, score in order.items()]
    write_run(tmp_path / "candidates.trec", candidates, system="candidates")
    (tmp_path / "held.txt").write_text("q\n")
    candidates_run = tmp_path / "candidates.trec"
    compared = {
        "held_out": tmp_path / "held.txt",
        "candidates_run": candidates_run,
        "compared_runs": [tmp_path / "run.trec", candidates_run],
    }
    for probabilities, held, expected in (
        ({"p": 0.99, "a": 0.5, "b": 0.01}, compared, ("b",)),
        ({"a": 0.5, "b": 0.01, "p": 0.001}, compared, ("a", "b")),  # the candidates' own, not denoised
        ({"a": 0.5, "b": 0.01, "p": 0.001}, {name: [] for name in compared}, ("b",)),
    ):
        scored(tmp_path, {"q": probabilities}, {"q": {"p": 1}}, **THRESHOLDS)
        caplog.clear()
        do_examples(tmp_path, system="teacher", denoise=THRESHOLDS, **held)
        assert [one.negative_doc_ids for one in read_examples(tmp_path / "out")] == [expected]
        counts = json.loads((tmp_path / "m.json").read_text())["counts"]
        is_compared = held is compared
        is_used = expected == ("b",)
        assert counts["teacher"]["is_used"] == is_used and counts["teacher"]["queries"] == is_compared
        assert ("removed_by_score" in counts) == is_used
        (line,) = [record for record in caplog.records if record.message.startswith("teacher: ")]
        assert line.levelname == ("INFO" if is_used else "WARNING")


def do_pseudo_labels(folder, *, denoise, split=None, **more):
    """By the program, of the run and the queries in `folder`; gives the counts."""
    files = ("known", "qrels", "collection", "compared_runs", "candidates_run", "held_out")
    do(
        "pseudo_labels",
        settings={
            "dataset": {"split": split},
            "recipe": {"negatives": {"depth": 9, "sample": 9, "denoise": denoise, "margin": None}},
            "metrics": {"relevant_grade": 1},
            "seed": 42,
        },
        wildcards={"system": "teacher"},
        input={
            **{"run": folder / "run.trec", "queries": folder / "queries.jsonl"},
            **{name: [] for name in files},
            **more,
        },
        output={"examples": folder / "out", "manifest": folder / "m.json"},
    )
    return json.loads((folder / "m.json").read_text())["counts"]


@pytest.mark.parametrize("is_split", [True, False])
def test_the_label_of_a_query_that_was_made_from_a_passage_is_this_passage(tmp_path, is_split):
    """Where a teacher has no thresholds. Other passages of its document are no negatives, either."""
    write_queries(tmp_path / "queries.jsonl", [Query("a#2", "?"), Query("c#1", "!")])
    hits = ["b#1", "a#1", "a#2", "d#3"] if not is_split else ["b#1", "a#1", "d#3"]
    run = [
        ScoredDoc(query, doc[:1] if is_split else doc, -float(rank), doc)
        for query in ("a#2", "c#1")
        for rank, doc in enumerate(hits)
    ]
    write_run(tmp_path / "run.trec", run, system="teacher")
    counts = do_pseudo_labels(tmp_path, split={"words": 9} if is_split else None, denoise=None)
    others = ("b#1", "d#3") if is_split else ("b#1", "a#1", "d#3")
    of_c = ("b#1", "a#1", "d#3") if is_split else ("b#1", "a#1", "a#2", "d#3")
    assert list(read_examples(tmp_path / "out")) == [
        TrainExample("a#2", ("a#2",), others),
        TrainExample("c#1", ("c#1",), of_c),
    ]
    assert counts["examples"] == counts["queries"] == 2 and counts["known_queries"] == 0


@pytest.mark.parametrize("is_better", [True, False])
def test_pseudo_labels_are_of_new_queries_and_of_a_better_teacher_alone(tmp_path, is_better):
    """The log has a train query under another id, which is counted and left out."""
    judged = [ScoredDoc("t", doc, -float(rank)) for rank, doc in enumerate("ap")]
    write_run(tmp_path / "candidates.trec", judged, system="candidates")
    ours = [ScoredDoc("t", doc, -float(rank)) for rank, doc in enumerate("pa" if is_better else "ap")]
    write_run(tmp_path / "teacher.trec", ours, system="teacher")
    write_qrels(tmp_path / "qrels.train.tsv", [Qrel("t", "p", 1)])
    write_queries(tmp_path / "train.jsonl", [Query("t", "what is it?")])
    (tmp_path / "held.txt").write_text("t\n")
    probabilities = {"a": 0.99, "b": 0.5, "c": 0.01}
    scored(tmp_path, {"new": probabilities, "known": probabilities}, None, **THRESHOLDS)
    write_queries(tmp_path / "queries.jsonl", [Query("new", "and this?"), Query("known", "What is  it?")])
    counts = do_pseudo_labels(
        tmp_path,
        denoise=THRESHOLDS,
        **{"known": [tmp_path / "train.jsonl"], "qrels": tmp_path / "qrels.train.tsv"},
        compared_runs=[tmp_path / "teacher.trec", tmp_path / "candidates.trec"],
        held_out=tmp_path / "held.txt",
    )
    expected = [TrainExample("new", ("a",), ("c",))] if is_better else []
    assert list(read_examples(tmp_path / "out")) == expected
    assert counts["examples"] == len(expected) and counts["teacher"]["is_used"] == is_better
    assert counts.get("known_queries") == (1 if is_better else None)


def test_negatives_are_sampled_evenly_without_replacement_in_order_of_rank(tmp_path):
    docs = [f"d{rank:03}" for rank in range(50)]
    run = {f"q{number}": docs for number in range(600)}
    examples, _ = made(tmp_path, run, {query: {"p": 1} for query in run}, depth=40, sample=10)
    drawn = [example.negative_doc_ids for example in examples.values()]
    assert all(len(set(ids)) == 10 and list(ids) == sorted(ids) for ids in drawn)
    counts = np.bincount([int(doc[1:]) for ids in drawn for doc in ids], minlength=50)
    assert (counts[40:] == 0).all()
    # each of 40 is drawn with probability 1/4; sampling without replacement tightens the spread
    assert (np.abs(counts[:40] - 150) < 5 * np.sqrt(600 * 0.25 * 0.75)).all()
    assert len(set(drawn)) > 590


@pytest.mark.parametrize(
    ("run", "judged", "queries", "message"),
    [
        ({"q": ["a"]}, {"r": {"a": 1}}, ["q"], r"got none \(queries 1, without_positives 1\)"),
        ({}, {"q": {"p": 1}}, ["q"], r"random_negatives 1, .*\)\. None of these queries found"),
        (
            {"q": ["p"]},
            {"q": {"p": 1}, "r": {"p": 1}},
            ["q", "r"],
            r"without_negatives 1, .*random_negatives 1, .*\)\. Do run, queries",
        ),
    ],
)
def test_a_run_that_leaves_no_example_is_refused_with_the_reasons(tmp_path, run, judged, queries, message):
    with pytest.raises(ValueError, match=message):
        made(tmp_path, run, judged, queries=queries)


def test_a_sample_depends_on_seed_and_query_and_not_on_the_queries_beside_it(tmp_path):
    docs = [f"d{rank}" for rank in range(100)]
    run, judged = dict.fromkeys("abcd", docs), {query: {"p": 1} for query in "abcd"}
    whole, _ = made(tmp_path, run, judged)
    some, counts = made(tmp_path, run, judged, wanted={"d", "b", "of another split"})
    assert some == {query: whole[query] for query in "bd"}
    assert counts["queries"] == counts["examples"] == 2
    assert made(tmp_path, run, judged, seed=2)[0]["b"] != whole["b"]
    assert whole["a"].negative_doc_ids != whole["b"].negative_doc_ids


def test_a_query_without_a_hit_has_an_example_without_negatives(tmp_path):
    run, judged = {"a": ["d1", "p"]}, {query: {"p": 1} for query in "ab"}
    examples, counts = made(tmp_path, run, judged, queries=["a", "b"])
    assert examples["b"] == TrainExample("b", ("p",), ()) and examples["a"].negative_doc_ids == ("d1",)
    assert (counts["examples"], counts["random_negatives"], counts["without_hits"]) == (2, 1, 0)
    examples, counts = made(tmp_path, run, judged, queries=["a", "b"], positive_in_run=True)
    assert "b" not in examples and (counts["random_negatives"], counts["without_hits"]) == (0, 1)


def test_the_program_filters_by_found_positives_the_systems_that_the_recipe_names_and_by_a_subset(tmp_path):
    made(tmp_path, {"q": ["a", "p"], "r": ["a", "b"]}, {"q": {"p": 1}, "r": {"p": 1}})
    (tmp_path / "subset.txt").write_text("r\n")
    for system, subset, expected in (("bm25", [], "q"), ("dense", [], "qr"), ("dense", "subset.txt", "r")):
        given = tmp_path / subset if subset else []
        do_examples(tmp_path, system=system, positive_in_run=["bm25"], subset=given)
        assert [example.query_id for example in read_examples(tmp_path / "out")] == list(expected)
    assert "subset.txt" in json.loads((tmp_path / "m.json").read_text())["inputs"]


def test_the_time_left_is_told_by_the_number_of_queries(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    made(tmp_path, {"q": ["a", "p"]}, {"q": {"p": 1}}, queries=["q", "r", "s"])
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("examples: 1 of 3 queries (33 %)") and lines[0].endswith(" left")
