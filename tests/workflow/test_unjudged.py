"""Queries without judgements: every system that ranks has a run of them, and nothing else runs again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from graphs import Graph, Load, refusal, rerun, rules
from made import make
from runs import checkout, finished

from condenser.data.records import read_run
from condenser.files import read_json

LOG = "tests/data/tiny/queries.jsonl"  # its train queries, too: that is no fault
QUERIES = {"datasets": {"msmarco": {"queries": {"log": LOG, "blind": LOG}}}}
TABLE = "results/msmarco/table2.tsv"
RANKED = [
    "bm25/untrained", "backbone-zeroshot/untrained", "condenser-round2/seed42", "condenser-round1/n100-seed1",
    "rerank-condenser/seed42", "rerank-ensemble/seed42", "late/untrained", "hybrid/untrained",
]  # fmt: skip


@pytest.fixture(scope="module")
def graph(load: Load) -> Graph:
    return load(QUERIES)


@pytest.mark.parametrize("system", RANKED)
def test_every_kind_of_system_ranks_them_at_the_depth_of_an_evaluation(
    load: Load, graph: Graph, system: str
) -> None:
    of_log = graph.jobs(f"results/msmarco/systems/{system}/run.log.trec")
    of_dev = graph.jobs(f"results/msmarco/systems/{system}/run.dev.trec")
    renamed = {job if job.split()[0] == "queries" else job.replace(" log", " dev") for job in of_log}
    assert renamed == {*of_dev, "queries msmarco log"}
    run, dev = (graph.spec(jobs[-1])["config"] for jobs in (of_log, of_dev))
    assert run == dev and run["depth"]


def test_a_file_of_queries_changes_no_job_but_those_that_rank_it(load: Load, graph: Graph) -> None:
    before = load().hashes(TABLE, "results/msmarco/report.html", "results/msmarco/audit.tsv")
    after = graph.hashes(TABLE, "results/msmarco/report.html", "results/msmarco/audit.tsv")
    assert rerun(before, after) == set() and before.keys() == after.keys()

    run = "results/msmarco/systems/condenser-round1/seed42/run.log.trec"
    other = load({"datasets": {"msmarco": {"queries": {"log": "tests/data/tiny/corpus.jsonl"}}}})
    changed = rerun(graph.hashes(run), other.hashes(run))
    assert rules(changed) == {"queries", "query_tokens", "encode_queries", "search", "merge"}
    assert all(" log" in job for job in changed)


def test_bad_rows_reruns_the_queries_too(load: Load, graph: Graph) -> None:
    run = "results/msmarco/systems/bm25/untrained/run.log.trec"
    edited = {"datasets": {"msmarco": {**QUERIES["datasets"]["msmarco"], "bad_rows": "skip"}}}
    changed = rerun(graph.hashes(run), load(edited).hashes(run))
    assert rules(changed) == {"collect", "queries", "bm25_index", "bm25_run"}


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            "metrics.log.json",
            r"expected a split with judgements, got log, queries without any\. Ask for a run: "
            r"results/msmarco/systems/<system>/<variant>/run\.log\.trec\.",
        ),
        ("run.logs.trec", r"expected a split of the data set \(train, dev, log, blind\), got logs"),
    ],
)
def test_what_they_cannot_give_is_refused_in_one_line(graph: Graph, result: str, message: str) -> None:
    said = refusal(lambda: graph.jobs(f"results/msmarco/systems/bm25/untrained/{result}"))
    assert re.search(message, said)


def test_a_collection_without_any_judgement_ranks_a_log(root: Path, tmp_path: Path) -> None:
    folder = checkout(root, tmp_path / "checkout")
    (folder / "log.tsv").write_text("1\tset of vertices in a graph\n2\tmatrix\n")
    overlay = {
        "shards": 1,
        "datasets": {
            "mine": {
                **{"source": "beir", "path": "tests/data/tiny", "train_split": None, "eval_split": None},
                "queries": {"log": "log.tsv"},
            }
        },
    }
    (folder / "mine.yaml").write_text(yaml.safe_dump(overlay))
    systems = folder / "results" / "mine" / "systems"
    runs = [systems / name / "untrained" / "run.log.trec" for name in ("bm25", "backbone-zeroshot")]
    targets = [str(run.relative_to(folder)) for run in runs]
    make(folder, *targets, overlays=["mine.yaml"])
    for run in runs:
        hits = list(read_run(run))
        assert {hit.query_id for hit in hits} == {"1", "2"}
        assert max(sum(hit.query_id == query for hit in hits) for query in "12") <= 50
    assert read_json(folder / "results" / "mine" / "queries" / "log" / "counts.json")["queries"] == {"log": 2}
    said = finished(folder, *targets, "-n", target="results/mine/data/counts.json", overlays=["mine.yaml"])
    assert "Nothing to be done" in said
