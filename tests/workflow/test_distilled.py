"""A bi-encoder that is distilled from another system, without any judgement."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graphs import Graph, Load, refusal, rerun, rules
from made import make
from runs import digests, finished

from condenser.files import read_json

TABLE = "results/msmarco/adapt.tsv"
MODEL = "train msmarco distilled seed42"
BELOW = {"train", "encode", "encode_queries", "search", "merge", "metrics", "table"}


@pytest.fixture(scope="module")
def graph(load: Load) -> Graph:
    graph = load()
    graph.jobs(TABLE)
    return graph


def test_a_model_is_made_from_the_run_of_its_teacher_and_from_no_train_query(graph: Graph) -> None:
    assert graph.parents(MODEL) == {
        *("checkpoint msmarco backbone", "tokens msmarco backbone 0-of-1", "collect msmarco"),
        *("query_tokens msmarco backbone practice", "extracted msmarco practice"),
        "fusion msmarco hybrid untrained practice",
    }
    jobs = graph.jobs("results/msmarco/systems/distilled/seed42/run.dev.trec")
    assert not rules(set(jobs)) & {"examples", "subset", "pretrain"}
    assert not [job for job in jobs if job.split()[-1] == "train"]


def test_without_any_judged_query_the_table_makes_the_model(load: Load) -> None:
    mine = {"source": "beir", "path": "tests/data/tiny", "train_split": None, "eval_split": None}
    jobs = load({"datasets": {"mine": mine}}).jobs("results/mine/adapt.tsv")
    assert "train mine distilled seed42" in jobs


@pytest.mark.parametrize(
    "changes",
    [
        *({"distillation": {key: value}} for key, value in [
            ("teacher", "late"), ("queries", "held-titles"), ("own_passage", False), ("temperature", 0.5),
            ("initial_share", 0.5),
        ]),
        *({"recipe": {key: value}} for key, value in [
            ("batch_size", 8), ("passages_per_query", 16), ("learning_rate", 1.0e-5), ("updates", 64),
            ("scale", 10.0), ("rows_per_chunk", 16), ("tied", False),
        ]),
    ],
)  # fmt: skip
def test_each_key_reruns_the_model_and_what_is_made_with_it(
    load: Load, graph: Graph, changes: dict[str, Any]
) -> None:
    changed = rerun(graph.hashes(TABLE), load({"systems": {"distilled": changes}}).hashes(TABLE))
    of_model = {job for job in changed if " distilled " in job}
    assert rules(of_model) == BELOW - {"table"}
    of_teacher = {job for job in changed if job.endswith((" held-titles", " held-titles 0-of-1"))}
    assert changed - of_model - of_teacher == {"table msmarco adapt"}
    assert bool(of_teacher) == ("held-titles" in str(changes))


def test_train_queries_and_a_log_can_be_taught_on(load: Load) -> None:
    on_train = load({"systems": {"distilled": {"distillation": {"queries": "train"}}}})
    assert "fusion msmarco hybrid untrained train" in on_train.jobs(TABLE)
    log = {"msmarco": {"queries": {"log": "tests/data/tiny/queries.jsonl"}}}
    on_log = load({"datasets": log, "systems": {"distilled": {"distillation": {"queries": "log"}}}})
    assert "fusion msmarco hybrid untrained log" in on_log.jobs(TABLE)


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"distillation": {"teacher": "hybrit"}},
         "systems.distilled.distillation.teacher: expected one of distilled"),
        ({"distillation": {"queries": "practise"}},
         "systems.distilled.distillation.queries: expected one of practice"),
        ({"negatives": ["bm25"]}, "systems.distilled: distillation: expected none with negatives or with"),
        ({"distillation": {"teacher": "distilled"}},
         "systems.distilled: expected a chain that ends, got distilled -> distilled"),
        ({"distillation": {"initial_share": 1.0}},
         "systems.distilled.distillation.initial_share: expected less than 1"),
    ],
)  # fmt: skip
def test_what_it_cannot_be_is_refused_in_one_line(load: Load, entry: dict[str, Any], line: str) -> None:
    assert refusal(lambda: load({"systems": {"distilled": entry}})).startswith(f"error: config: {line}")


@pytest.mark.ci
def test_the_tiny_run_makes_it_and_changes_no_other_result(
    golden: Path, copy_of_golden: Callable[[], Path]
) -> None:
    folder = copy_of_golden()
    target = "results/tiny/systems/distilled/seed42/metrics.dev.json"
    (folder / "overlay.yaml").write_text("systems: {distilled: {recipe: {updates: 4}}}\n")
    overlays = ["configs/tiny.yaml", "overlay.yaml"]
    make(folder, target, overlays=["overlay.yaml"])
    manifest = read_json(folder / "results/tiny/systems/distilled/seed42/model.manifest.json")
    assert manifest["counts"]["steps"] == 4 and manifest["counts"]["queries_with_fewer_hits"] == 0
    after = digests(folder)
    assert {name: after.get(name) for name in digests(golden)} == digests(golden)
    assert "Nothing to be done" in finished(folder, "-n", target=target, overlays=overlays)
