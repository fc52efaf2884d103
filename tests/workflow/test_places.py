"""Every rule is a rule with one program, and its manifest lies beside its result."""

from __future__ import annotations

from pathlib import Path

import pytest
from graphs import Graph, Load
from small_generators import write_generator

from condenser.settings import merged

TARGETS = [
    "results/msmarco/table2.tsv",
    "results/msmarco/table2.tests.tsv",
    "results/msmarco/table2.crate.zip",
    "results/msmarco/table3.tsv",
    "results/msmarco/adapt.tsv",
    "results/msmarco/table2.plan.H200.tsv",
    "results/msmarco/subsets/n10-seed1.txt",
    "results/msmarco/held_out/n10-seed1.txt",
    "results/msmarco/attention_entropy.svg",
    "results/msmarco/report.html",
    "results/msmarco/audit.tsv",
    "results/downloads/a.gz",
    "results/msmarco/systems/bm25/untrained/run.log.trec",
    "results/stsb/low_data.tsv",
    "results/stsb/systems/glove/untrained/metrics.test.json",
    "results/msmarco/systems/hybrid/untrained/run.practice.trec",
    "results/msmarco/systems/condenser-round1/seed42/export/agreement.json",
    "results/msmarco/systems/learnt/seed42/run.dev.trec",
    "results/msmarco/systems/teacher/seed42/pseudo_labels.log.jsonl",
    "results/official/queries/rest/counts.json",
    "results/msmarco/systems/deepct/seed42/run.dev.trec",
    "results/msmarco/systems/own/untrained/run.dev.trec",
]
TERM_WEIGHTS = {
    **{"initial": "backbone", "max_tokens": 128, "rows_per_chunk": 16, "batch_size": 16, "epochs": 3},
    **{"learning_rate": 2.0e-5, "weight_decay": 0.01, "warmup_ratio": 0.1, "max_grad_norm": 1.0},
}
GLOVE = {
    "systems": {
        "glove": {"kind": "word_vectors", "path": "config.yaml"},
        "learnt": {
            "kind": "fusion",
            "of": ["late", "bm25"],
            "method": "convex",
            "weights": "learnt",
            "depth": 9,
        },
        "teacher": {
            **{"kind": "crossencoder", "initial": "backbone", "negatives": ["bm25"], "candidates": "bm25"},
            **{"depth": 9, "loss": "pointwise"},
            "recipe": {"negatives": {"denoise": {"negative_below": 0.1, "positive_above": 0.9}}},
        },
        "deepct": {"kind": "bm25", "k1": 10, "b": 0.9, "expanded_passages": "learnt"},
        "own": {"kind": "bm25", "k1": 10, "b": 0.9, "expanded_passages": "own", "expanded_queries": "own"},
    },
    "expansions": {"learnt": {"weights": 100, "trained": TERM_WEIGHTS}},
    "datasets": {
        "msmarco": {"queries": {"log": "tests/data/tiny/queries.jsonl"}},
        "official": {"source": "msmarco", "unjudged": "rest"},
    },
}


@pytest.fixture(scope="module")
def graph(load: Load, tmp_path_factory: pytest.TempPathFactory) -> Graph:
    folder = tmp_path_factory.mktemp("generator")
    write_generator("t5", folder)
    generated = {
        "model": str(folder),
        "samples": 1,
        "max_tokens": 9,
        "max_input_tokens": 40,
        "rows_per_chunk": 9,
    }
    graph = load(merged(GLOVE, {"expansions": {"own": {"generated": generated}}}))
    for target in TARGETS:
        graph.jobs(target)
    return graph


def test_every_rule_is_the_name_of_a_program(graph: Graph, root: Path) -> None:
    programs = {file.stem for file in (root / "workflow_scripts").glob("*.py")}
    rules = {rule for rule, _ in graph.wildcards.values()}
    assert rules == programs - {"launch", "verify", "ask"}


def test_a_manifest_lies_beside_its_result_under_the_results_name(graph: Graph) -> None:
    for job in graph.wildcards:
        *outputs, manifest = graph.outputs(job)
        name = manifest.removesuffix(".manifest.json")
        assert name != manifest
        for output in outputs:
            assert output.startswith(name), job  # the file itself, in the folder, or its further files


def test_the_maker_of_every_file_is_the_job_that_declares_it(graph: Graph) -> None:
    for job in graph.wildcards:
        *outputs, _ = graph.outputs(job)
        for output in outputs:
            assert graph.owner(output) == job


def test_the_users_files_and_files_of_the_package_have_no_maker(graph: Graph) -> None:
    assert graph.owner("tests/data/tiny/corpus.jsonl") is None
    assert graph.owner("condenser/evaluate/published/cocondenser_table2.tsv") is None
    assert graph.owner("results/msmarco/stray.npy") is None


def test_a_system_that_is_no_bi_encoder_is_not_exported(graph: Graph) -> None:
    assert graph.owner("results/msmarco/systems/bm25/untrained/export/agreement.json") is None


def test_a_job_that_the_workflow_lacks_is_said(graph: Graph) -> None:
    with pytest.raises(LookupError, match="expected a job of the workflow, got gone"):
        graph.manifest("gone", {"dataset": "msmarco"})
