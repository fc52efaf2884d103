"""Table 3 of coCondenser: cross-encoders rerank the hits of its retriever, and a fusion averages them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graphs import Graph, Load, rerun, rules
from made import make
from runs import digests, finished, rows_of, run, scores_by_query, started_rules

from condenser import experiment
from condenser.experiment import tables
from condenser.files import read_json
from condenser.model.crossencoder import CrossEncoder

TABLE = "results/msmarco/table3.tsv"
RERANKERS = ("rerank-backbone", "rerank-condenser")
SYSTEMS = ("cocondenser-round2", *RERANKERS, "rerank-ensemble")
ALONE = {"tables": {"table3": {"rows": list(SYSTEMS)}}}  # as in the paper
MIXED = "mixed-backbone"


def of_rerankers(**changes: Any) -> dict[str, Any]:
    return ALONE | {"systems": dict.fromkeys(RERANKERS, changes)}


@pytest.fixture(scope="module")
def graph(load: Load) -> Graph:
    graph = load(ALONE)
    graph.jobs(TABLE)
    return graph


def test_a_reranker_reads_its_model_the_candidates_and_the_tokens(graph: Graph) -> None:
    job = "rerank msmarco rerank-condenser seed42 dev"
    assert graph.parents(job) == {
        "train msmarco rerank-condenser seed42", "merge msmarco cocondenser-round2 seed42 dev",
        "tokens msmarco backbone 0-of-1", "query_tokens msmarco backbone dev", "collect msmarco",
    }  # fmt: skip
    assert graph.spec(job)["config"]["depth"] == 10
    assert {"train", "merge cocondenser-round2"} <= set(graph.spec(job)["lineage"])


def test_it_learns_from_negatives_of_the_system_whose_hits_it_reranks(graph: Graph) -> None:
    job = "train msmarco rerank-backbone seed42"
    assert "examples msmarco cocondenser-round2 seed42" in graph.parents(job)
    assert "results/msmarco/models/backbone/model.safetensors" in graph.inputs(job)
    assert "condenser.systems.crossencoder" in graph.spec(job)["code"]


def test_the_ensemble_reads_the_runs_of_its_members_and_trains_nothing(graph: Graph) -> None:
    job = "fusion msmarco rerank-ensemble seed42 dev"
    runs = {f"rerank msmarco {name} seed42 dev" for name in RERANKERS}
    assert graph.parents(job) == runs | {"collect msmarco"}
    assert not experiment.is_trained(graph.settings, "rerank-ensemble")


def test_a_run_is_as_deep_as_what_it_sorts_anew(graph: Graph) -> None:
    depths = [experiment.run_depth(graph.settings, "msmarco", name, purpose="eval") for name in SYSTEMS]
    assert depths == [1000, 10, 10, 10]
    rows = tables.table_rows(graph.settings, "msmarco", "table3")
    assert [(row["system"], row["variants"]) for row in rows] == [(name, ["seed42"]) for name in SYSTEMS]


@pytest.mark.parametrize("key", ["depth", "candidates"])
def test_other_candidates_or_another_depth_train_nothing_again(load: Load, graph: Graph, key: str) -> None:
    changes = {"depth": 50} if key == "depth" else {"candidates": "bm25"}
    after = load(of_rerankers(**changes))
    changed = rerun(graph.hashes(TABLE), after.hashes(TABLE))
    assert rules(changed) - {"bm25_run"} == {"rerank", "fusion", "metrics", "table"}


def test_a_shallower_run_of_the_candidates_is_reranked_as_deep_as_it_is(load: Load) -> None:
    shallow = {"systems": {"cocondenser-round2": {"recipe": {"depth": {"eval": 8}}}}}
    graph = load(ALONE | shallow)
    graph.jobs(TABLE)
    assert graph.spec("rerank msmarco rerank-backbone seed42 dev")["config"]["depth"] == 8


def test_by_default_a_row_mixes_retriever_and_reranker_by_weights_of_held_out_queries(load: Load) -> None:
    graph = load()
    graph.jobs(TABLE)
    rows = tables.table_rows(graph.settings, "msmarco", "table3")
    mixed = ["mixed-backbone", "mixed-condenser", "mixed-both"]
    assert [row["system"] for row in rows] == ["cocondenser-round2", *mixed]
    assert graph.parents("fusion_weights msmarco mixed-condenser seed42") == {
        "held_out msmarco seed42", "collect msmarco",
        "merge msmarco cocondenser-round2 seed42 train.held_out",
        "rerank msmarco rerank-condenser seed42 train.held_out",
    }  # fmt: skip


def test_train_queries_of_a_subset_are_reranked_alone(load: Load) -> None:
    """A run of the train split is made where somebody learns from a reranker."""
    learner = {"kind": "biencoder", "initial": "condenser", "negatives": ["rerank-backbone"]}
    graph = load({"systems": {"learner": learner}})
    graph.jobs("results/msmarco/systems/learner/n100-seed1/model/model.safetensors")
    job = "rerank msmarco rerank-backbone n100-seed1 train"
    assert "results/msmarco/subsets/n100-seed1.txt" in graph.inputs(job)
    assert "merge msmarco cocondenser-round2 n100-seed1 train" in graph.parents(job)


def test_bm25_has_no_variants_of_its_run(load: Load) -> None:
    graph = load(of_rerankers(candidates="bm25"))
    graph.jobs(TABLE)
    assert "bm25_run msmarco bm25 untrained dev" in graph.parents("rerank msmarco rerank-backbone seed42 dev")


def test_at_the_papers_scale_a_thousand_hits_are_reranked(load: Load) -> None:
    graph = load(configfile="configs/paper.yaml")
    graph.jobs(TABLE)
    for job in ("rerank msmarco rerank-condenser seed42 dev", "fusion msmarco rerank-ensemble seed42 dev"):
        assert graph.spec(job)["config"]["depth"] == 1000
    recipe = graph.spec("train msmarco rerank-condenser seed42")["config"]["recipe"]
    assert (recipe["batch_size"], recipe["passages_per_query"], recipe["learning_rate"]) == (4, 8, 1e-5)
    assert "pseudo_labels" not in rules(graph.hashes(TABLE))


def test_a_backbone_of_few_positions_serves_all_but_rerankers(load: Load) -> None:
    shape = {"vocab_size": 600, "hidden_size": 32, "num_layers": 4, "num_heads": 2, "intermediate_size": 64}
    graph = load({"models": {"backbone": {"source": "scratch", **shape, "max_positions": 136}}})
    graph.jobs("results/msmarco/table2.tsv")
    with pytest.raises(
        SystemExit, match=r"models.backbone.max_positions: expected at least 159 positions for "
    ):
        graph.jobs(TABLE)


@pytest.mark.ci
def test_the_table_is_made_and_holds_what_its_runs_are(
    golden: Path, copy_of_golden: Callable[[], Path]
) -> None:
    folder = copy_of_golden()
    (folder / "overlay.yaml").write_text(json.dumps({"tables": {"table3": {"rows": [*SYSTEMS, MIXED]}}}))
    made_by = {
        "target": "results/tiny/table3.tsv",
        "cores": 1,
        "overlays": ["configs/tiny.yaml", "overlay.yaml"],
    }
    rules = make(folder, "results/tiny/table3.tsv", overlays=["overlay.yaml"])
    assert {"rerank", "fusion", "train", "examples"} <= rules
    assert not {"pretrain", "tokens", "bm25_index"} & rules
    after = digests(folder)
    assert {name: after.get(name) for name in digests(golden)} == digests(golden)

    made = {name: folder / "results/tiny/systems" / name / "seed42" for name in SYSTEMS}
    runs = {name: scores_by_query(place / "run.dev.trec") for name, place in made.items()}
    first, backbone, condenser, ensemble = runs.values()
    assert len(first) == 48
    for query_id, hits in first.items():
        top = set(list(hits)[:10])
        assert set(backbone[query_id]) == set(condenser[query_id]) == set(ensemble[query_id]) == top
        for doc_id, score in ensemble[query_id].items():
            mean = (backbone[query_id][doc_id] + condenser[query_id][doc_id]) / 2
            assert score == pytest.approx(mean, rel=1e-7, abs=1e-9)
    assert backbone != condenser
    for name in RERANKERS:
        CrossEncoder.load(made[name] / "model")
        counts = read_json(made[name] / "run.dev.trec.manifest.json")["counts"]
        assert (counts["queries"], counts["hits"], counts["queries_of_fewer_hits"]) == (48, 480, 0)
    # no query is held out of 192, so no train query is reranked, and the weights are equal
    assert (made["rerank-backbone"] / "run.train.held_out.trec").read_bytes() == b""
    assert read_json(folder / f"results/tiny/systems/{MIXED}/seed42/weights.json")["weights"] == [0.5, 0.5]
    *rows, _ = rows_of(folder / "results/tiny/table3.tsv")
    scores = [read_json(place / "metrics.dev.json")["measures"]["MRR@10"] for place in made.values()]
    assert [row["MRR@10"] for row in rows] == [f"{score:.4f}" for score in scores]
    assert {row["origin"] for row in rows} == {"measured"}
    assert "Nothing to be done" in finished(folder, **made_by)

    # a lost run is made again with the same bytes, from the same model
    lost = made["rerank-backbone"] / "run.dev.trec"
    before = lost.read_bytes()
    lost.unlink()
    done = run(folder, target="results/tiny/systems/rerank-backbone/seed42/run.dev.trec", cores=1)
    assert done.returncode == 0 and started_rules(done.stdout) == {"rerank"}
    assert lost.read_bytes() == before
