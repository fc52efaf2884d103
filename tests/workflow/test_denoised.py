"""A cross-encoder denoises mined negatives, and labels queries that nobody judged (RocketQA)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from graphs import Graph, Load, rerun, rules
from runs import checkout, finished, scores_by_query, started_rules

from condenser.data.negatives import logit
from condenser.data.records import read_examples, read_positives
from condenser.experiment import merged
from condenser.files import read_json

pytestmark = pytest.mark.workflow

BELOW, ABOVE = 0.1, 0.9


def denoising(**thresholds: float | None) -> dict[str, Any]:
    return {"negatives": {"denoise": {"negative_below": BELOW, "positive_above": None, **thresholds}}}


SYSTEMS: dict[str, Any] = {
    "teacher": {
        **{"kind": "crossencoder", "initial": "backbone", "negatives": ["backbone-round1"]},
        **{"candidates": "backbone-round1", "depth": 20, "loss": "pointwise", "recipe": denoising()},
    },
    "denoised": {"kind": "biencoder", "initial": "backbone", "negatives": ["teacher"]},
    "labeller": {
        **{"kind": "crossencoder", "initial": "teacher", "train": False, "candidates": "denoised"},
        **{"depth": 20, "recipe": denoising(positive_above=ABOVE)},
    },
    "augmented": {
        **{"kind": "biencoder", "initial": "backbone", "negatives": ["teacher"]},
        "pseudo_labels": {"teacher": "labeller", "queries": "log"},
    },
}
LOG = {"datasets": {"msmarco": {"queries": {"log": "tests/data/tiny/queries.jsonl"}}}}
OVERLAY: dict[str, Any] = {
    "systems": SYSTEMS,
    **LOG,
    "tables": {"taught": {"rows": ["denoised", "augmented"], "measures": ["MRR@10"]}},
}
TABLE = "results/msmarco/taught.tsv"
PLACE = "results/msmarco/systems/{}/seed42/{}"


@pytest.fixture(scope="module")
def graph(load: Load) -> Graph:
    graph = load(OVERLAY)
    graph.jobs(TABLE)
    return graph


def changed(load: Load, graph: Graph, change: dict[str, Any]) -> set[str]:
    return rerun(graph.hashes(TABLE), load(merged(OVERLAY, change)).hashes(TABLE))


def test_scores_are_made_once_and_shared(graph: Graph) -> None:
    jobs = [job for job in graph.jobs(TABLE) if job.split()[0] in ("rerank", "examples", "pseudo_labels")]
    assert sorted(jobs) == [
        *("examples msmarco backbone-round1 seed42", "examples msmarco bm25 seed42"),
        *("examples msmarco teacher seed42", "pseudo_labels msmarco labeller seed42 log"),
        *("rerank msmarco labeller seed42 log", "rerank msmarco teacher seed42 train"),
    ]
    for student in ("denoised", "augmented"):
        assert "examples msmarco teacher seed42" in graph.parents(f"train msmarco {student} seed42")


def test_a_teacher_is_compared_with_its_candidates_on_held_out_queries(graph: Graph) -> None:
    compared = {
        *("rerank msmarco teacher seed42 train", "merge msmarco backbone-round1 seed42 train"),
        "held_out msmarco seed42",
    }
    assert graph.parents("examples msmarco teacher seed42") == compared | {"collect msmarco"}
    labels = graph.parents("pseudo_labels msmarco labeller seed42 log")
    assert labels == compared | {
        *("collect msmarco", "rerank msmarco labeller seed42 log", "queries msmarco log"),
    }
    splits = [f"results/msmarco/data/queries.{split}.jsonl" for split in ("train", "dev")]
    assert set(splits) < set(graph.inputs("pseudo_labels msmarco labeller seed42 log"))


def test_without_held_out_queries_nothing_is_ranked_to_compare(load: Load) -> None:
    none = {"recipes": {"marco": {"held_out": None, "validation": None}}}
    graph = load(merged(OVERLAY, none))
    graph.jobs(TABLE)
    labels = graph.parents("pseudo_labels msmarco labeller seed42 log")
    assert labels == {"collect msmarco", "rerank msmarco labeller seed42 log", "queries msmarco log"}
    assert "held_out" not in rules(graph.parents("examples msmarco teacher seed42"))


def test_a_cross_encoder_over_other_candidates_has_the_model_of_the_first(graph: Graph) -> None:
    job = "rerank msmarco labeller seed42 log"
    assert PLACE.format("teacher", "model/model.safetensors") in graph.inputs(job)
    assert "merge msmarco denoised seed42 log" in graph.parents(job)
    assert "train msmarco labeller seed42" not in graph.jobs(TABLE)


def test_a_student_reads_the_tokens_and_examples_of_both_sets_of_queries(graph: Graph) -> None:
    inputs = set(graph.inputs("train msmarco augmented seed42"))
    assert {
        "results/msmarco/tokens/backbone/queries.log.tokens.npy",
        "results/msmarco/queries/log/queries.log.jsonl",
        PLACE.format("labeller", "pseudo_labels.log.jsonl"),
        PLACE.format("teacher", "examples.jsonl"),
    } <= inputs
    assert not [file for file in graph.inputs("train msmarco denoised seed42") if ".log." in file]


@pytest.mark.parametrize("key", ["negative_below", "positive_above"])
def test_a_threshold_reruns_the_examples_and_what_follows(load: Load, graph: Graph, key: str) -> None:
    again = changed(load, graph, {"systems": {"teacher": {"recipe": denoising(**{key: 0.5})}}})
    assert again == graph.below({"examples msmarco teacher *"}, TABLE)
    assert "train msmarco teacher seed42" not in again and "train msmarco denoised seed42" in again
    again = changed(
        load, graph, {"systems": {"labeller": {"recipe": denoising(**{"positive_above": 0.8, key: 0.5})}}}
    )
    assert again == graph.below({"pseudo_labels *"}, TABLE)
    assert {job.split()[2] for job in again if " augmented " in job} == {"augmented"}
    assert not [job for job in again if job.split()[0] == "rerank"]


def test_another_loss_trains_the_teacher_again(load: Load, graph: Graph) -> None:
    plain = {"recipe": {"negatives": {"denoise": None}}, "loss": "localised"}
    overlay = {"systems": {"teacher": {**SYSTEMS["teacher"], **plain}}}
    before = load(merged(overlay, {"systems": {"teacher": {"loss": "pointwise"}}}))
    target = PLACE.format("teacher", "run.dev.trec")
    assert rules(rerun(before.hashes(target), load(overlay).hashes(target))) == {"train", "rerank"}


def test_the_official_queries_without_judgement_rerun_nothing_else(load: Load) -> None:
    paper = "configs/paper.yaml"
    target = "results/msmarco/table2.tsv"
    named = {"datasets": {"msmarco": {"unjudged": "rest"}}}
    graph = load(named, configfile=paper)
    assert graph.hashes(target) == load(configfile=paper).hashes(target)
    run = "results/msmarco/systems/condenser-round1/seed42/run.rest.trec"
    jobs = graph.jobs(run)
    assert "unjudged msmarco rest" in jobs
    assert graph.inputs("unjudged msmarco rest") == ["results/downloads/collectionandqueries.tar.gz"]
    assert graph.spec("search msmarco condenser-round1 seed42 rest 0-of-16")["config"]["depth"] == 210
    assert "results/downloads/collectionandqueries.tar.gz" in graph.inputs_of_rule("prefetch")


@pytest.mark.slow
def test_the_tiny_run_makes_examples_by_the_scores_of_its_teacher(root: Path, tmp_path: Path) -> None:
    folder = checkout(root, tmp_path / "checkout")
    asked = queries_of(folder)
    new = [(f"new-{number}", f"{text} again") for number, (_, text) in enumerate(asked[:40])]
    lines = [f"{query_id}\t{text}\n" for query_id, text in [*new, ("known", asked[0][1].upper())]]
    (folder / "log.tsv").write_text("".join(lines))
    thresholds = {"negative_below": 0.1, "positive_above": 0.5}
    longer = {"learning_rate": 3.0e-3, "epochs": 8}  # else all pairs have the same score
    changes = {
        "teacher": {"recipe": {**denoising(**thresholds), **longer}},
        "labeller": {"recipe": denoising(**thresholds)},
    }
    taught = merged(SYSTEMS, changes)
    overlay = {
        "datasets": {"tiny": {"queries": {"log": "log.tsv"}}},
        "systems": taught,
        "tables": OVERLAY["tables"],
    }
    (folder / "overlay.yaml").write_text(yaml.safe_dump(overlay))
    options = {"overlays": ["overlay.yaml"], "cores": 1}
    said = finished(folder, target="results/tiny/taught.tsv", **options)
    assert {"rerank", "examples", "pseudo_labels", "table"} <= started_rules(said)

    systems = folder / "results/tiny/systems"
    low, high = map(logit, thresholds.values())
    positives = read_positives(folder / "results/tiny/data/qrels.train.tsv")
    for place, run, judged in (
        ("teacher/seed42/examples.jsonl", "teacher/seed42/run.train.trec", positives),
        ("labeller/seed42/pseudo_labels.log.jsonl", "labeller/seed42/run.log.trec", {}),
    ):
        scores = scores_by_query(systems / run)
        examples = list(read_examples(systems / place))
        counts = read_json(systems / f"{place}.manifest.json")["counts"]
        assert len(examples) == counts["examples"] > 0
        for example in examples:
            ranked, relevant = scores[example.query_id], judged.get(example.query_id, {})
            above = [doc for doc, score in ranked.items() if score > high and doc not in relevant]
            assert list(example.positive_doc_ids) == [*relevant, *above]
            below = {doc for doc, score in ranked.items() if score < low and doc not in relevant}
            assert set(example.negative_doc_ids) <= below
            assert len(example.negative_doc_ids) == min(10, len(below))
        assert counts["teacher"] == {
            **{"queries": 0, "teacher": None, "candidates": None, "won": 0, "lost": 0, "is_used": True},
        }
    counts = read_json(systems / "labeller/seed42/pseudo_labels.log.jsonl.manifest.json")["counts"]
    assert counts["known_queries"] == 1 and counts["queries"] == len(new)
    trained = read_json(systems / "augmented/seed42/model.manifest.json")["counts"]
    assert trained["examples"] == sum(
        read_json(systems / f"{place}.manifest.json")["counts"]["examples"]
        for place in ("teacher/seed42/examples.jsonl", "labeller/seed42/pseudo_labels.log.jsonl")
    )
    assert "Nothing to be done" in finished(folder, "-n", target="results/tiny/taught.tsv", **options)

    held_out = {"share": 0.2, "least": 5, "most": 20}
    (folder / "held.yaml").write_text(yaml.safe_dump({"recipes": {"marco": {"held_out": held_out}}}))
    place = "results/tiny/systems/teacher/seed42/examples.jsonl"
    finished(folder, target=place, overlays=["overlay.yaml", "held.yaml"], cores=1)
    counts = read_json(folder / f"{place}.manifest.json")["counts"]
    compared = counts["teacher"]
    assert compared["queries"] == 20
    assert compared["is_used"] == (compared["teacher"] > compared["candidates"])
    assert ("removed_by_score" in counts) == compared["is_used"]
    assert (
        "on 20 held-out train queries"
        in (folder / "results/tiny/logs/examples.teacher.seed42.log").read_text()
    )


def queries_of(folder: Path) -> list[tuple[str, str]]:
    """The queries of the tiny collection before it is collected."""

    rows = (folder / "tests/data/tiny/queries.jsonl").read_text().splitlines()
    return [(row["_id"], row["text"]) for row in map(json.loads, rows)]
