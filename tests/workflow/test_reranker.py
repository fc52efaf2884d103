"""A cross-encoder learns without judgements, from queries that are made from the passages."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from graphs import Graph, Load, rerun, rules
from made import make
from runs import checkout

from condenser.data.records import read_examples, read_queries, read_run
from condenser.files import read_json

OVERLAY = "configs/findings/extracted_reranker.yaml"
TABLE = "results/msmarco/reranker_made.tsv"
TRAIN = "train msmarco reranker-made seed42"


@pytest.fixture(scope="module")
def graph(load: Load) -> Graph:
    graph = load(configfile=OVERLAY)
    graph.jobs(TABLE)
    return graph


def test_it_reads_made_queries_and_no_judgement(graph: Graph) -> None:
    labels = "pseudo_labels msmarco backbone-zeroshot seed42 all-passages"
    assert {labels, "extracted msmarco all-passages"} <= graph.parents(TRAIN)
    assert graph.parents(labels) == {
        *("merge msmarco backbone-zeroshot untrained all-passages", "extracted msmarco all-passages"),
        "collect msmarco",
    }
    assert not rules(graph.jobs(TABLE)) & {"examples", "held_out", "subset"}
    read = {file for job in graph.jobs(TABLE) if not job.startswith("collect") for file in graph.inputs(job)}
    assert "results/msmarco/data/qrels.train.tsv" not in read


def test_a_collection_without_train_queries_has_it_too(load: Load) -> None:
    mine = {"source": "beir", "path": "tests/data/tiny", "train_split": None, "eval_split": "dev"}
    jobs = load({"datasets": {"mine": mine}}, configfile=OVERLAY).jobs("results/mine/reranker_made.tests.tsv")
    assert "train mine reranker-made seed42" in jobs


def test_other_made_queries_train_it_again(load: Load, graph: Graph) -> None:
    change = {"extracted": {"all-passages": {"count": 100}}}
    again = rerun(graph.hashes(TABLE), load(change, configfile=OVERLAY).hashes(TABLE))
    assert TRAIN in again and again == graph.below({"extracted msmarco all-passages"}, TABLE)


def test_judged_queries_come_first_where_it_learns_from_both(load: Load) -> None:
    graph = load(configfile=OVERLAY)
    graph.jobs("results/msmarco/reranker.tsv")
    files = graph.inputs("train msmarco reranker-both seed42")
    judged, made = (
        files.index(f"results/msmarco/tokens/backbone/queries.{split}.tokens.npy")
        for split in ("train", "all-passages")
    )
    assert judged < made
    assert "results/msmarco/held_out/seed42.txt" in files


@pytest.mark.ci
def test_the_tiny_collection_is_reranked(root: Path, tmp_path: Path) -> None:
    """The examples are of made queries, each with its own passage; what is reranked are the first hits."""
    folder = checkout(root, tmp_path / "checkout")
    overlay = yaml.safe_load((root / OVERLAY).read_text())
    overlay["systems"]["reranker-made"]["depth"] = 5
    (folder / "overlay.yaml").write_text(yaml.safe_dump(overlay))
    make(folder, "results/tiny/reranker_made.tsv", overlays=["overlay.yaml"])
    results = folder / "results" / "tiny"
    made = {
        query.query_id for query in read_queries(results / "queries/all-passages/queries.all-passages.jsonl")
    }
    examples = list(
        read_examples(results / "systems/backbone-zeroshot/seed42/pseudo_labels.all-passages.jsonl")
    )
    assert examples and {example.query_id for example in examples} <= made
    assert all(example.positive_doc_ids == (example.query_id,) for example in examples)
    assert not [example for example in examples if example.query_id in example.negative_doc_ids]
    counts = read_json(results / "systems/reranker-made/seed42/model.manifest.json")["counts"]
    assert counts["examples"] == len(examples) and counts["examples_held_out"] == 0
    first: dict[str, set[str]] = {}
    for hit in read_run(results / "systems/backbone-zeroshot/untrained/run.dev.trec"):
        if len(first.setdefault(hit.query_id, set())) < 5:
            first[hit.query_id].add(hit.doc_id)
    reranked: dict[str, set[str]] = {}
    for hit in read_run(results / "systems/reranker-made/seed42/run.dev.trec"):
        reranked.setdefault(hit.query_id, set()).add(hit.doc_id)
    assert reranked == first
