"""Late interaction that is trained: its examples, its model, and the runs and answers that this scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from graphs import Load, rerun, rules
from made import make
from runs import checkout, finished, hits_by_query, scores_by_query
from safetensors.torch import load_file

from condenser.data.records import read_queries
from condenser.experiment.tables import table_notes
from condenser.files import read_json
from condenser.live.systems import Known, LiveSystem

CANDIDATES = ["backbone-zeroshot", "bm25"]
COLBERT = {
    **{"kind": "late", "initial": "backbone", "candidates": CANDIDATES, "depth": 20},
    **{"train": True, "negatives": ["bm25"]},
}
TRAINED: dict[str, Any] = {
    "systems": {"colbert": COLBERT},
    "tables": {
        "trained": {"rows": ["late", "colbert"], "measures": ["MRR@10"], "train_queries": [10, "all"]}
    },
}
TABLE = "results/msmarco/trained.tsv"
OVERLAY = """
systems:
  late: {candidates: [bm25], depth: 20}  # a bi-encoder from scratch has ties, which other batches break
  colbert: &trained
    {kind: late, initial: backbone, candidates: [bm25], depth: 20, train: true, negatives: [bm25]}
  projected: {<<: *trained, dim: 16, special_tokens: false, punctuation: false}
  exact: {<<: *trained, dim: 16, match: exact}
  first: {<<: *trained, match: first, first_states: 3}
tables:
  trained: {rows: [late, colbert, projected, exact, first], measures: [MRR@10, R@100]}
"""


def test_each_variant_has_a_training_on_examples_and_a_run_by_its_model(load: Load) -> None:
    graph = load(TRAINED)
    jobs = graph.jobs(TABLE)
    assert {"late msmarco late untrained dev", "late msmarco colbert n10-seed42 dev"} < set(jobs)
    folder = "results/msmarco/systems"
    inputs = graph.inputs("train msmarco colbert n10-seed42")
    assert f"{folder}/bm25/n10-seed42/examples.jsonl" in inputs
    assert "results/msmarco/models/backbone/model.safetensors" in inputs
    assert "results/msmarco/held_out/n10-seed42.txt" in inputs
    model = f"{folder}/colbert/n10-seed42/model/model.safetensors"
    assert model in graph.inputs("late msmarco colbert n10-seed42 dev")
    notes = table_notes(graph.settings, "msmarco", "trained")
    assert {"system": "colbert", "variant": "seed42"} in notes["compared"]


@pytest.mark.parametrize(
    ("entry", "reruns"),
    [
        ({"depth": 30}, {"late", "metrics", "table"}),
        ({"candidates": ["bm25"]}, {"late", "metrics", "table"}),
        ({"punctuation": False}, {"train", "late", "metrics", "table"}),
        ({"dim": 32}, {"train", "late", "metrics", "table"}),
        ({"match": "exact"}, {"train", "late", "metrics", "table"}),
        ({"match": "first", "first_states": 3}, {"train", "late", "metrics", "table"}),
        ({"recipe": {"learning_rate": 1.0e-3}}, {"train", "late", "metrics", "table"}),
    ],
)
def test_a_setting_reruns_what_it_changes(load: Load, entry: dict[str, Any], reruns: set[str]) -> None:
    before, changed = load(TRAINED), load({**TRAINED, "systems": {"colbert": {**COLBERT, **entry}}})
    assert rules(rerun(before.hashes(TABLE), changed.hashes(TABLE))) == reruns


@pytest.mark.ci
def test_a_tiny_training_changes_the_ranking_and_answers_new_queries(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = checkout(root, tmp_path / "checkout")
    (folder / "overlay.yaml").write_text(OVERLAY)
    options = {"overlays": ["configs/tiny.yaml", "overlay.yaml"], "cores": 1}
    made = make(folder, "results/tiny/trained.tsv", overlays=["overlay.yaml"])
    assert {"train", "late", "metrics", "table"} <= made
    systems = folder / "results/tiny/systems"
    start = scores_by_query(systems / "late/untrained/run.dev.trec")
    for system, dim in (("colbert", 32), ("projected", 16), ("exact", 16), ("first", 32)):
        place = systems / system / "seed42"
        ranked = scores_by_query(place / "run.dev.trec")
        assert ranked.keys() == start.keys()
        assert sum(list(ranked[query]) != list(start[query]) for query in ranked) > len(ranked) / 2
        dense = place / "model/2_Dense/model.safetensors"
        assert dense.is_file() == (dim == 16)
        assert not dense.is_file() or load_file(dense)["linear.weight"].shape == (dim, 32)
        assert read_json(place / "model.manifest.json")["counts"]["steps"] > 1

    finished(folder, target="ask", **options)
    monkeypatch.chdir(folder)
    known = Known(folder / ".snakemake" / "known.json")
    queries = list(read_queries("results/tiny/data/queries.dev.jsonl"))[:4]
    for system in ("colbert", "projected", "exact", "first"):
        live = LiveSystem(known.asked("tiny", system))
        run = hits_by_query(systems / system / "seed42/run.dev.trec")
        for query in queries:
            answers = live.answer(query.text, 5).hits
            expected = [hit.score for hit in run[query.query_id][:5]]
            assert [hit.score for hit in answers] == pytest.approx(expected, rel=1e-3, abs=5e-3)
        live.close()
