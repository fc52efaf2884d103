"""Queries made from a collection: every system that ranks has a run of them, and nothing else runs again."""

from __future__ import annotations

from typing import Any

import pytest
from graphs import Graph, Load, refusal, rerun, rules

TABLE = "results/msmarco/table2.tsv"
RUN = "results/msmarco/systems/hybrid/untrained/run.practice.trec"
SETS = ["practice", "held-titles", "held-sentences", "held-keywords"]


@pytest.fixture(scope="module")
def graph(load: Load) -> Graph:
    return load()


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_ranked_as_the_train_queries_are(graph: Graph, name: str) -> None:
    of_set = graph.jobs(f"results/msmarco/systems/hybrid/untrained/run.{name}.trec")
    of_train = graph.jobs("results/msmarco/systems/hybrid/untrained/run.train.trec")
    made = f"extracted msmarco {name}"
    renamed = {job.replace(name, "train") for job in of_set if name in job and job != made}
    assert renamed == {job for job in of_train if " train" in job}
    assert graph.spec(of_set[-1])["config"] == graph.spec(of_train[-1])["config"]
    assert graph.parents(made) == {"collect msmarco"}


def test_a_set_changes_no_job_but_those_that_rank_it(load: Load, graph: Graph) -> None:
    targets = (TABLE, "results/msmarco/report.html", "results/msmarco/audit.tsv", RUN)
    more = {"more": {"views": ["titles"], "passages": [0.0, 1.0], "count": 10}}
    assert rerun(graph.hashes(*targets), load({"extracted": more}).hashes(*targets)) == set()


@pytest.mark.parametrize(
    "changes",
    [
        *({"extracted": {"practice": {key: value}}} for key, value in [
            ("views", ["keywords"]), ("passages", [0, 1]), ("count", 5), ("seed", 9)
        ]),
        {"extraction": {"words": [5, 30]}},
        {"extraction": {"keywords": [3, 7]}},
    ],
)  # fmt: skip
def test_each_key_reruns_the_set_and_its_runs(load: Load, graph: Graph, changes: dict[str, Any]) -> None:
    changed = rerun(graph.hashes(TABLE, RUN), load(changes).hashes(TABLE, RUN))
    assert changed == {job for job in graph.jobs(RUN) if " practice" in job}
    assert {"extracted", "query_tokens", "bm25_run", "late", "fusion"} < rules(changed)


def test_a_set_without_a_seed_has_that_of_the_configuration(load: Load) -> None:
    unsaid = {"extracted": {"practice": {"seed": None}}}
    for seed in (7, 8):
        graph = load({**unsaid, "seed": seed})
        made = next(job for job in graph.jobs(RUN) if job.startswith("extracted "))
        assert graph.spec(made)["config"]["query_set"]["seed"] == seed


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"extracted": {"dev": {"views": ["titles"], "passages": [0.0, 1.0], "count": 1}}},
         "extracted.dev: expected another name, dev is that of queries of the data set msmarco."),
        ({"extracted": {"practice": {"views": ["words"]}}},
         "extracted.practice.views[0]: expected 'titles', 'sentences' or 'keywords', got 'words'"),
        ({"extracted": {"practice": {"views": []}}}, "extracted.practice.views: expected at least 1, got 0"),
        ({"extracted": {"practice": {"passages": [0.5, 0.2]}}},
         "extracted.practice.passages: expected two numbers in order, from 0 to 1, got [0.5, 0.2]"),
        ({"extraction": {"words": [4]}}, "extraction.words: expected two numbers in order, from 1 to"),
    ],
)  # fmt: skip
def test_what_a_set_cannot_be_is_refused_in_one_line(load: Load, changes: dict[str, Any], line: str) -> None:
    assert refusal(lambda: load(changes)).startswith(f"error: config: {line}")
