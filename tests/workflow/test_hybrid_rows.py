"""Rows that need no training: MaxSim of token states, and its fusion with the start and BM25."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from graphs import Load, refusal, rerun, rules
from made import make
from runs import digests, rows_of, scores_by_query
from scipy.stats import zscore
from torch.nn.functional import normalize
from transformers import AutoModel, AutoTokenizer

from condenser import experiment
from condenser.data.records import read_passages, read_queries
from condenser.files import read_json
from condenser.pipeline.known import Known

TABLE = "results/msmarco/adapt.tsv"
# its own row, and the model that is distilled from it
BELOW_HYBRID = {"fusion", "train", "encode", "encode_queries", "search", "merge", "metrics", "table"}
RUN = "results/msmarco/systems/hybrid/untrained/run.dev.trec"
OVERLAY = """
recipes: {marco: {held_out: {share: 0.1, least: 4}}}
systems:
  late: {depth: 20}
  hybrid: {depth: 30}
  inner: {kind: fusion, of: [late, bm25], method: convex, weights: learnt, least_queries: 10, depth: 20}
  outer: {kind: fusion, of: [inner, bm25], method: convex, weights: learnt, least_queries: 10, depth: 20}
tables:
  free: {rows: [backbone-zeroshot, bm25, late, hybrid, outer], measures: [MRR@10, R@100]}
"""


def test_a_fusion_reads_the_runs_of_its_systems_and_trains_nothing(load: Load) -> None:
    graph = load()
    jobs = graph.jobs(RUN)
    assert not rules(set(jobs)) & {"pretrain", "train", "examples", "subset"}
    assert graph.parents("fusion msmarco hybrid untrained dev") == {
        "merge msmarco backbone-zeroshot untrained dev",
        "bm25_run msmarco bm25 untrained dev",
        "late msmarco late untrained dev",
        "collect msmarco",
    }
    late = graph.parents("late msmarco late untrained dev")
    assert {"merge msmarco backbone-zeroshot untrained dev", "bm25_run msmarco bm25 untrained dev"} < late


@pytest.mark.parametrize(
    ("candidates", "depth"),
    [(["short"], 12), (["short", "bm25"], 100), (["bm25"], 100)],  # short has runs of 12
)
def test_a_run_is_no_deeper_than_what_it_takes(load: Load, candidates: list[str], depth: int) -> None:
    short = {"kind": "biencoder", "initial": "backbone", "train": False, "recipe": {"depth": {"eval": 12}}}
    changes = {"systems": {"short": short, "late": {"candidates": candidates}, "hybrid": {"depth": 300}}}
    config = load(changes).settings
    depths = [experiment.run_depth(config, "msmarco", one, purpose="eval") for one in ("late", "hybrid")]
    assert depths == [depth, 300]


@pytest.mark.parametrize(
    ("key", "value", "reruns"),
    [
        ("late", {"special_tokens": False}, {"late", *BELOW_HYBRID}),
        ("hybrid", {"weights": [1, 2, 0.5]}, BELOW_HYBRID),
    ],
)
def test_a_setting_reruns_what_it_changes(
    load: Load, key: str, value: dict[str, Any], reruns: set[str]
) -> None:
    changed = rerun(load().hashes(TABLE), load({"systems": {key: value}}).hashes(TABLE))
    assert rules(changed) == reruns


def test_each_seed_of_a_model_and_each_subset_has_a_run_of_its_own(load: Load) -> None:
    parts = {"hybrid": {"of": ["condenser-round1", "bm25", "late"]}, "late": {"initial": "ict"}}
    graph = load({"systems": parts, "models": {name: {"seed": "each"} for name in ("ict", "stacked")}})
    jobs = graph.jobs("results/msmarco/systems/hybrid/n100-seed1/run.train.trec")
    assert {"late msmarco late seed1 train", "fusion msmarco hybrid n100-seed1 train"} <= set(jobs)
    assert "results/msmarco/subsets/n100-seed1.txt" in graph.inputs("fusion msmarco hybrid n100-seed1 train")


def test_learnt_weights_come_from_the_train_queries_of_the_variant(load: Load) -> None:
    graph = load(
        {"systems": {"hybrid": {"weights": "learnt"}, "distilled": {"distillation": {"teacher": "late"}}}}
    )
    run = "results/msmarco/systems/hybrid/n100-seed1/run.dev.trec"
    jobs = set(graph.jobs(run))
    assert {"fusion_weights msmarco hybrid n100-seed1", "late msmarco late untrained train"} <= jobs
    assert not rules(jobs) & {"pretrain", "train", "examples"}
    inputs = graph.inputs("fusion_weights msmarco hybrid n100-seed1")
    assert {"results/msmarco/subsets/n100-seed1.txt", "results/msmarco/data/qrels.train.tsv"} <= set(inputs)
    assert "results/msmarco/systems/hybrid/n100-seed1/weights.json" in graph.inputs(
        "fusion msmarco hybrid n100-seed1 dev"
    )


def test_learnt_weights_are_asked_for_by_the_variant_of_their_train_queries(load: Load) -> None:
    graph = load({"systems": {"hybrid": {"weights": "learnt"}}})
    not_asked = dict.fromkeys(("encoder_of", "lengths_of", "tokenizer_of"), lambda *names: "")
    known = Known(config=graph.settings, results=Path("results"), specs=graph._specs, **not_asked)
    files = known._system("msmarco", "hybrid")["files"]
    assert files == {"weights": ["results/msmarco/systems/hybrid/{variant}/weights.json"]}


def test_weights_of_trained_parts_come_from_queries_that_no_training_saw(load: Load) -> None:
    changes = {"systems": {"hybrid": {"weights": "learnt", "of": ["backbone-round1", "bm25", "late"]}}}
    graph = load(changes)
    graph.jobs("results/msmarco/systems/hybrid/n100-seed1/run.dev.trec")
    held_out = "results/msmarco/held_out/n100-seed1.txt"
    inputs = graph.inputs("fusion_weights msmarco hybrid n100-seed1")
    assert {
        held_out,
        "results/msmarco/systems/backbone-round1/n100-seed1/run.train.held_out.trec",
        "results/msmarco/systems/bm25/untrained/run.train.trec",  # as it is for negatives
        "results/msmarco/systems/late/n100-seed1/run.train.held_out.trec",
    } <= set(inputs)
    assert graph.parents("late msmarco late n100-seed1 train.held_out") == {
        "held_out msmarco n100-seed1", "merge msmarco backbone-zeroshot untrained train",
        "bm25_run msmarco bm25 untrained train", "checkpoint msmarco backbone", "collect msmarco",
        "tokens msmarco backbone 0-of-1", "query_tokens msmarco backbone train",
    }  # fmt: skip
    assert held_out in graph.inputs("train msmarco backbone-round1 n100-seed1")
    assert "results/msmarco/subsets/n100-seed1.txt" in graph.inputs("held_out msmarco n100-seed1")

    none = {"recipes": {"marco": {"held_out": None, "validation": None}}}
    run = "results/msmarco/systems/hybrid/seed1/run.dev.trec"
    assert refusal(lambda: load(changes | none).jobs(run)) == (
        "error: config: systems.hybrid: expected train queries that backbone-round1 does not learn from, "
        "to learn weights. Set recipes.marco.held_out, or take weights: equal."
    )


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (
            {"weights": "learned"},
            "systems.hybrid.weights: expected equal, learnt, or a number of at least 0 for each ",
        ),
        (
            {"weights": "learnt", "method": "rrf"},
            "systems.hybrid: method: expected convex with weights: learnt, got rrf",
        ),
        ({"weights": [1, 2]}, "systems.hybrid: weights: expected 3 numbers, one for each system in `of`"),
        ({"of": ["bm25"]}, "systems.hybrid.of: expected at least 2, got 1"),
        ({"of": ["bm25", "hybrid"]}, "systems.hybrid: expected a chain that ends, got hybrid -> hybrid"),
        ({"method": "sum"}, "systems.hybrid.method: expected 'convex', 'mean' or 'rrf', got 'sum'"),
        ({"of": ["bm25", "lat"]}, "systems.hybrid.of: expected one of hybrid, "),
    ],
)
def test_what_a_fusion_cannot_be_is_refused_in_one_line(load: Load, entry: dict[str, Any], line: str) -> None:
    assert refusal(lambda: load({"systems": {"hybrid": entry}})).startswith(f"error: config: {line}")


def hits_of(folder: Path, system: str) -> dict[str, dict[str, float]]:
    return scores_by_query(folder / f"results/tiny/systems/{system}/untrained/run.dev.trec")


@pytest.mark.ci
def test_the_tiny_table_has_both_rows_and_changes_no_other_result(
    golden: Path, copy_of_golden: Callable[[], Path]
) -> None:
    folder = copy_of_golden()
    (folder / "overlay.yaml").write_text(OVERLAY)
    assert make(folder, "results/tiny/free.tsv", overlays=["overlay.yaml"]) == {
        *("encode", "encode_queries", "search", "merge", "late", "held_out", "fusion_weights", "fusion"),
        *("metrics", "table"),
    }
    after, before = digests(folder), digests(golden)
    del before["tiny/held_out/seed42.txt"]  # by the overlay it has some queries
    assert {name: after.get(name) for name in before} == before

    systems = ("backbone-zeroshot", "bm25", "late", "hybrid")
    start, bm25, late, hybrid = (hits_of(folder, system) for system in systems)
    assert len(late) == len(hybrid) == 48
    check_late(folder, late, [start, bm25])
    for query_id, hits in hybrid.items():
        runs = [start[query_id], bm25.get(query_id, {}), late[query_id]]
        parts = [dict(list(run.items())[:30]) for run in runs]
        pool = list(dict.fromkeys(doc_id for part in parts for doc_id in part))
        table = [[part.get(doc_id, min(part.values(), default=0.0)) for part in parts] for doc_id in pool]
        columns = zscore(table, axis=0)
        columns[:, [len(set(column)) == 1 for column in zip(*table, strict=True)]] = 0.0
        expected = dict(zip(pool, columns.mean(axis=1), strict=True))
        assert list(hits.values()) == sorted(hits.values(), reverse=True) and len(hits) == 30
        assert hits == pytest.approx({doc_id: expected[doc_id] for doc_id in hits}, abs=1e-6)
        assert min(hits.values()) >= sorted(expected.values(), reverse=True)[29] - 1e-6
    counts = read_json(folder / "results/tiny/systems/late/untrained/run.dev.trec.manifest.json")["counts"]
    assert counts["queries"] == 48 and counts["hits"] == 48 * 20 and counts["pairs"] > counts["hits"]
    assert not list((folder / "results/.work").glob("late-*/**/*.npy"))
    methods = [row["method"] for row in rows_of(folder / "results/tiny/free.tsv")]
    assert methods[2:4] == ["MaxSim of the start's tokens, no training", "Start + BM25 + MaxSim, no training"]
    check_held_out(folder)


def check_held_out(folder: Path) -> None:
    """To mix what learnt from others, the held-out queries alone are ranked, as among all."""
    held_out = set((folder / "results/tiny/held_out/seed42.txt").read_text().split())
    assert len(held_out) == 19
    systems = folder / "results/tiny/systems"
    for system in ("late", "inner"):
        assert set(scores_by_query(systems / system / "seed42/run.train.held_out.trec")) == held_out
    alone = scores_by_query(systems / "late/seed42/run.train.held_out.trec")
    among_all = scores_by_query(systems / "late/untrained/run.train.trec")
    assert len(among_all) == 192
    for query_id, hits in alone.items():
        assert hits == pytest.approx(among_all[query_id], abs=1e-5)
    counts = read_json(systems / "outer/seed42/weights.json.manifest.json")["counts"]
    assert counts["queries"] + counts["without_relevant_hit"] == 19


def check_late(
    folder: Path, late: dict[str, dict[str, float]], candidates: list[dict[str, dict[str, float]]]
) -> None:
    """Two queries by transformers: the hits are the best of the first 20 of both systems."""
    backbone, data = folder / "results/tiny/models/backbone", folder / "results/tiny/data"
    model, tokenizer = AutoModel.from_pretrained(backbone).eval(), AutoTokenizer.from_pretrained(backbone)
    passages = {
        one.doc_id: f"{one.title} [SEP] {one.text}" if one.title else one.text
        for one in read_passages(data / "collection.jsonl")
    }

    def states(text: str, length: int) -> torch.Tensor:
        given = tokenizer(text, truncation=True, max_length=length, return_tensors="pt")
        with torch.inference_mode():
            return normalize(model(**given).last_hidden_state[0], dim=1)

    for query in list(read_queries(data / "queries.dev.jsonl"))[:2]:
        pool = {doc_id for run in candidates for doc_id in list(run.get(query.query_id, {}))[:20]}
        asked = states(query.text, 16)
        expected = {
            doc_id: (asked @ states(passages[doc_id], 64).T).amax(dim=1).sum().item() for doc_id in pool
        }
        hits = late[query.query_id]
        assert hits == pytest.approx({doc_id: expected[doc_id] for doc_id in hits}, abs=5e-3)
        assert min(hits.values()) >= sorted(expected.values(), reverse=True)[19] - 5e-3
