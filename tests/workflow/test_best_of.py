"""A model that is chosen without judgements: what it is made from, and what cannot be one."""

from __future__ import annotations

from typing import Any

import pytest
from graphs import Load, refusal, rerun, rules

MODEL = "results/msmarco/models/adapted/model.safetensors"
SETS = ["held-titles", "held-sentences", "held-keywords"]
LOG: dict[str, Any] = {
    "datasets": {"msmarco": {"queries": {"log": "tests/data/tiny/queries.jsonl"}}},
    "models": {"adapted": {"unjudged": ["log"]}},
}


def test_a_choice_needs_runs_of_made_queries_and_no_judgements(load: Load) -> None:
    graph = load()
    jobs = graph.jobs(MODEL)
    assert not rules(set(jobs)) & {"metrics", "train", "examples", "bm25_run", "late"}
    assert not [job for job in jobs if " dev" in job or " train" in job]
    candidates = graph.settings.models["adapted"].of
    runs = {f"merge msmarco {system} untrained {name}" for system in candidates for name in SETS}
    models = {f"pretrain msmarco {model}" for model in ("ict", "stacked", "condenser", "cocondenser")}
    made = {f"extracted msmarco {name}" for name in SETS}
    assert graph.parents("best_of msmarco adapted") == runs | models | made | {"checkpoint msmarco backbone"}


def test_with_a_log_it_needs_the_runs_of_candidates_and_voters_for_it_and_no_judgements(load: Load) -> None:
    before, graph = load(), load(LOG)
    jobs = graph.jobs(MODEL)
    assert not rules(set(jobs)) & {"metrics", "train", "examples"}
    runs = {f"merge msmarco {system} untrained log" for system in graph.settings.models["adapted"].of}
    before.jobs(MODEL)
    added = graph.parents("best_of msmarco adapted") - before.parents("best_of msmarco adapted")
    assert added == runs | {"bm25_run msmarco bm25 untrained log", "queries msmarco log"}


def test_another_candidate_or_margin_changes_the_choice_alone(load: Load) -> None:
    before = load().hashes(MODEL)
    assert rerun(before, load({"models": {"adapted": {"least_gain": 0.5}}}).hashes(MODEL)) == {
        "best_of msmarco adapted"
    }
    fewer = load({"models": {"adapted": {"of": ["backbone-zeroshot", "ict-zeroshot"]}}})
    assert rerun(before, fewer.hashes(MODEL)) == {"best_of msmarco adapted"}
    assert not [job for job in fewer.jobs(MODEL) if "condenser" in job]


def test_it_lies_with_the_data_set_that_it_is_chosen_for(load: Load) -> None:
    mine = {"source": "beir", "path": "tests/data/tiny"}
    graph = load({"datasets": {"mine": mine, "msmarco": {"documents": "mine"}}})
    (encode,) = (
        job
        for job in graph.jobs("results/msmarco/systems/adapted-zeroshot/untrained/run.dev.trec")
        if job.startswith("encode msmarco adapted-zeroshot")
    )
    assert MODEL in graph.inputs(encode)
    assert "results/mine/models/ict/model.safetensors" in graph.inputs("best_of msmarco adapted")


@pytest.mark.parametrize(
    ("model", "line"),
    [
        ({"of": ["bm25", "mlm-zeroshot"]},
         "of: expected backbone without fine-tuning as the first, got bm25"),
        ({"of": ["mlm-zeroshot", "backbone-zeroshot"]},
         "of: expected backbone without fine-tuning as the first, got mlm-zeroshot"),
        ({"of": ["backbone-zeroshot", "hybrid"]}, "of: expected bi-encoders, got hybrid"),
        ({"of": ["backbone-zeroshot", "adapted-zeroshot"]},
         "of: expected candidates that do not start from adapted itself, got adapted-zeroshot"),
        ({"of": ["backbone-zeroshot", "nothing"]}, "of: expected one of "),
        ({"queries": ["dev"]}, "queries: expected one of practice, held-"),
        ({"measure": "hits@20"}, "measure: expected one that needs no answers, got hits@20"),
        ({"queries": ["practice"], "of": ["backbone-zeroshot", "distilled"]},
         "of: expected candidates that do not learn from practice, which compares them, got distilled."),
        ({"unjudged": ["dev"]}, "unjudged: expected one of log, got 'dev'"),
        ({"unjudged": ["log"], "voters": ["late"]}, "voters: expected one system of each family, and none of "
         "a candidate's, got late, which shares backbone with stacked-zeroshot."),
        ({"unjudged": ["log"], "voters": ["bm25", "other"]}, "voters: expected one system of each family, "
         "and none of a candidate's, got other, which shares bm25 with bm25."),
        ({"unjudged": ["log"], "of": ["backbone-zeroshot", "distilled"]}, "voters: expected one system of "
         "each family, and none of a candidate's, got bm25, which shares bm25 with distilled."),
        ({"corpus": "msmarco"}, "corpus: expected none, a model is chosen for each data set"),
        ({"seed": 3}, "seed: expected none, a model is chosen for each data set"),
    ],
)  # fmt: skip
def test_what_cannot_be_chosen_from_is_refused_in_one_line(
    load: Load, model: dict[str, Any], line: str
) -> None:
    other = {"kind": "bm25", "k1": 0.9, "b": 0.4, "language": "en"}
    said = refusal(lambda: load({**LOG, "models": {"adapted": model}, "systems": {"other": other}}))
    assert said.startswith(f"error: config: models.adapted.{line}")
