"""A cross-encoder denoises mined negatives, and labels queries that nobody judged (RocketQA)."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from graphs import Graph, Load, rerun, rules
from made import make
from runs import checkout, copied, digests, finished, scores_by_query

from condenser.data.records import read_examples, read_positives
from condenser.files import read_json
from condenser.settings import merged

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
TINY_TABLE, SYSTEMS_OF_TINY = "results/tiny/taught.tsv", "results/tiny/systems"
NUM_NEW, TINY_ABOVE = 40, 0.5  # queries of the log that are new; the tiny teacher is not sure
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
        *("rerank msmarco labeller seed42 log", "rerank msmarco labeller seed42 train"),
        "rerank msmarco teacher seed42 train",
    ]
    for student in ("denoised", "augmented"):
        assert "examples msmarco teacher seed42" in graph.parents(f"train msmarco {student} seed42")


def test_a_teacher_is_compared_with_its_candidates_on_held_out_queries(graph: Graph) -> None:
    assert graph.parents("examples msmarco teacher seed42") == {
        *("rerank msmarco teacher seed42 train", "merge msmarco backbone-round1 seed42 train"),
        *("held_out msmarco seed42", "collect msmarco"),
    }
    labels = "pseudo_labels msmarco labeller seed42 log"
    assert graph.parents(labels) == {
        *("rerank msmarco labeller seed42 train", "merge msmarco denoised seed42 train"),
        *("held_out msmarco seed42", "collect msmarco"),
        *("rerank msmarco labeller seed42 log", "queries msmarco log"),
    }
    splits = [f"results/msmarco/data/queries.{split}.jsonl" for split in ("train", "dev")]
    assert set(splits) < set(graph.inputs(labels))


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
    assert "queries msmarco rest" in jobs
    assert graph.inputs("queries msmarco rest") == ["results/downloads/collectionandqueries.tar.gz"]
    assert graph.spec("search msmarco condenser-round1 seed42 rest 0-of-16")["config"]["depth"] == 210
    assert "results/downloads/collectionandqueries.tar.gz" in graph.inputs_of_rule("prefetch")


@pytest.fixture(scope="module")
def taught(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with the tiny run of all of it; one query of the log is a train query in capitals."""
    folder = checkout(root, tmp_path_factory.mktemp("taught") / "checkout")
    rows = map(json.loads, (folder / "tests/data/tiny/queries.jsonl").read_text().splitlines())
    asked = [row["text"] for row in rows]
    log = [*(f"{text} again" for text in asked[:NUM_NEW]), asked[0].upper()]
    (folder / "log.tsv").write_text("".join(f"new-{number}\t{text}\n" for number, text in enumerate(log)))
    longer = {"learning_rate": 3.0e-3, "epochs": 8}  # else all pairs have the same score
    thresholds = denoising(positive_above=TINY_ABOVE)
    changes = {"teacher": {"recipe": {**thresholds, **longer}}, "labeller": {"recipe": thresholds}}
    overlay = {
        "datasets": {"tiny": {"queries": {"log": "log.tsv"}}},
        "systems": merged(SYSTEMS, changes),
        "tables": OVERLAY["tables"],
    }
    (folder / "overlay.yaml").write_text(yaml.safe_dump(overlay))
    made = make(folder, TINY_TABLE, overlays=["overlay.yaml"])
    assert {"rerank", "examples", "pseudo_labels", "table"} <= made
    return folder


def chosen(ranked: dict[str, float], relevant: list[str]) -> tuple[list[str], set[str]]:
    """Positives and possible negatives of a query by their probabilities, with one `if` for each hit."""
    positives, negatives = list(relevant), set()
    for doc_id, score in ranked.items():
        probability = 1 / (1 + math.exp(-score))
        if doc_id not in relevant and probability > TINY_ABOVE:
            positives.append(doc_id)
        elif doc_id not in relevant and probability < BELOW:
            negatives.add(doc_id)
    return positives, negatives


@pytest.mark.ci
@pytest.mark.parametrize(
    ("place", "split"),
    [("teacher/seed42/examples.jsonl", "train"), ("labeller/seed42/pseudo_labels.log.jsonl", "log")],
)
def test_the_tiny_runs_examples_are_those_of_its_teachers_scores(
    taught: Path, place: str, split: str
) -> None:
    file = taught / SYSTEMS_OF_TINY / place
    scores = scores_by_query(file.parent / f"run.{split}.trec")
    qrels = taught / "results/tiny/data/qrels.train.tsv"
    judged = read_positives(qrels, relevant_grade=1) if split == "train" else {}
    examples = {example.query_id: example for example in read_examples(file)}
    counts = read_json(Path(f"{file}.manifest.json"))["counts"]
    assert counts["examples"] == len(examples) > 0 and counts["positives_by_score"] > 0
    for query_id, ranked in scores.items():
        positives, negatives = chosen(ranked, list(judged.get(query_id, {})))
        is_known = query_id == f"new-{NUM_NEW}"
        assert (query_id in examples) == bool(positives and negatives and not is_known)
        if example := examples.get(query_id):
            assert list(example.positive_doc_ids) == positives
            assert set(example.negative_doc_ids) <= negatives
            assert len(example.negative_doc_ids) == min(10, len(negatives))
    assert counts["teacher"] == {
        **{"queries": 0, "teacher": None, "candidates": None, "won": 0, "lost": 0, "is_used": True},
    }
    assert counts.get("known_queries") == (1 if split == "log" else None)


@pytest.mark.ci
def test_a_tiny_student_learns_from_both_files_and_a_second_run_has_the_same_bytes(taught: Path) -> None:
    of_student, *parts = (
        read_json(taught / SYSTEMS_OF_TINY / place)["counts"]["examples"]
        for place in (
            "augmented/seed42/model.manifest.json",
            "teacher/seed42/examples.jsonl.manifest.json",
            "labeller/seed42/pseudo_labels.log.jsonl.manifest.json",
        )
    )
    assert of_student == sum(parts)
    options: dict[str, Any] = {"target": TINY_TABLE, "overlays": ["overlay.yaml"]}
    assert "Nothing to be done" in finished(taught, "-n", **options)
    before = digests(taught)
    for system in ("teacher", "labeller", "augmented"):
        shutil.rmtree(taught / SYSTEMS_OF_TINY / system)
    (taught / TINY_TABLE).unlink()
    finished(taught, **options)
    assert digests(taught) == before


@pytest.mark.ci
def test_a_tiny_teacher_that_is_not_better_than_its_candidates_is_not_used(
    taught: Path, tmp_path: Path
) -> None:
    """A teacher of one hit for each query ranks as its candidates, which is not better."""
    folder = copied(taught, tmp_path / "checkout")
    held_out = {"share": 0.2, "least": 5, "most": 20}
    one_hit = {"teacher": {"depth": 1}, "labeller": {"depth": 1}}
    overlay = {"recipes": {"marco": {"held_out": held_out}}, "systems": one_hit}
    (folder / "held.yaml").write_text(yaml.safe_dump(overlay))
    finished(folder, target=TINY_TABLE, overlays=["overlay.yaml", "held.yaml"])
    systems = folder / SYSTEMS_OF_TINY
    examples = systems / "teacher/seed42/examples.jsonl"
    assert examples.read_bytes() == (systems / "backbone-round1/seed42/examples.jsonl").read_bytes()
    labels = systems / "labeller/seed42/pseudo_labels.log.jsonl"
    assert labels.read_bytes() == b""
    for file, log in ((examples, "examples.teacher.seed42"), (labels, "pseudo_labels.labeller.seed42.log")):
        compared = read_json(Path(f"{file}.manifest.json"))["counts"]["teacher"]
        assert compared["queries"] == 20 and compared["is_used"] is False
        assert compared["teacher"] == compared["candidates"]
        line = "teacher: NOT used, NOT better than its candidates on 20 held-out train queries (MRR@10)"
        assert line in (folder / f"results/tiny/logs/{log}.log").read_text()
    ours, theirs = (systems / f"{name}/seed42/model/model.safetensors" for name in ("augmented", "denoised"))
    assert ours.read_bytes() == theirs.read_bytes()
