"""The audit of a data set: what it makes, what it looks at, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from graphs import Load, refusal, rules
from runs import finished, started_rules

from condenser.files import read_json

AUDIT = "results/msmarco/audit.tsv"
MINE = {"source": "beir", "path": "tests/data/tiny"}


def test_an_audit_trains_nothing_unless_a_judge_is_named(load: Load) -> None:
    assert rules(set(load().jobs(AUDIT))) == {
        *("audit", "collect", "bm25_index", "bm25_run", "examples"),
        *("checkpoint", "tokens", "query_tokens", "lengths"),  # how much of the texts is read
    }
    judged = load({"audit": {"judges": ["cocondenser-round1"]}})
    assert {"pretrain", "train"} < rules(set(judged.jobs(AUDIT)))
    assert "results/msmarco/systems/cocondenser-round1/seed42/run.train.trec" in judged.inputs(
        "audit msmarco"
    )


def test_without_train_queries_the_collection_and_the_other_queries_are_looked_at(load: Load) -> None:
    graph = load({"datasets": {"mine": {**MINE, "train_split": None}}})
    jobs = graph.jobs("results/mine/audit.tsv")
    assert rules(set(jobs)) == {"collect", "checkpoint", "tokens", "query_tokens", "lengths", "audit"}
    assert "results/mine/data/queries.dev.jsonl" in graph.inputs("audit mine")
    graph = load({"datasets": {"mine": {**MINE, "train_split": None, "eval_split": None}}})
    graph.jobs("results/mine/audit.tsv")
    assert set(graph.inputs("audit mine")) == {
        *("results/mine/data/collection.jsonl", "results/mine/tokens/backbone/lengths.json")
    }


def test_sentences_have_no_audit(load: Load) -> None:
    said = refusal(lambda: load().jobs("results/stsb/audit.tsv"))
    assert "results/stsb/audit.tsv: expected a data set of passages, got sentences" in said


@pytest.mark.ci
def test_after_a_table_an_audit_with_its_miner_as_judge_runs_alone(
    copy_of_golden: Callable[[], Path], tmp_path: Path
) -> None:
    folder = copy_of_golden()
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text("audit: {systems: [bm25, cocondenser-round1], judges: [cocondenser-round1]}\n")
    said = finished(folder, target="results/tiny/audit.tsv", cores=1, overlays=[str(overlay)])
    assert started_rules(said) == {"audit"}
    counts = read_json(folder / "results/tiny/audit.json")
    assert counts["passages"] == 240 and set(counts["negatives"]) == {"bm25", "cocondenser-round1"}
    assert counts["judged"]["cocondenser-round1"]["queries"] > 0
    lines = (folder / "results/tiny/audit.tsv").read_text().splitlines()
    assert len(lines) == 1 + sum(counts["findings"].values())
    finished(folder, target="results/tiny/report.html", cores=1, overlays=[str(overlay)])
    page = (folder / "results/tiny/report.html").read_text()
    assert "240 passages, 48 queries of dev, 192 queries of train" in page
