"""An untied bi-encoder: one key of the recipe gives a system two encoders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from graphs import Load
from made import make


def test_it_differs_from_the_tied_system_in_the_recipe_alone(load: Load) -> None:
    graph = load()
    specs = {}
    for system in ("condenser-round1", "condenser-untied"):
        jobs = graph.jobs(f"results/msmarco/systems/{system}/seed42/model/model.safetensors")
        specs[system] = graph.spec(jobs[-1])
    tied, untied = specs["condenser-round1"], specs["condenser-untied"]
    assert tied["config"]["recipe"].pop("tied") is True
    assert untied["config"]["recipe"].pop("tied") is False
    assert tied["config"] == untied["config"]
    assert tied["lineage"] == untied["lineage"]


@pytest.mark.ci
def test_the_workflow_encodes_queries_with_the_query_encoder(copy_of_golden: Callable[[], Path]) -> None:
    folder = copy_of_golden()
    (folder / "untied.yaml").write_text(
        "systems:\n  two-encoders: {kind: biencoder, initial: cocondenser, negatives: [bm25],"
        " recipe: {tied: false}}\n"
    )
    run = "results/tiny/systems/two-encoders/seed42/run.dev.trec"
    make(folder, run, overlays=["untied.yaml"])
    made = folder / "results/tiny/systems/two-encoders/seed42"
    assert (made / "model" / "query" / "model.safetensors").is_file()
    manifest = (made / "embeddings" / "queries.dev.manifest.json").read_text()
    assert "../model/query/model.safetensors" in manifest
    assert "../model/query" not in (made / "embeddings" / "collection.0-of-2.manifest.json").read_text()
    assert len({line.split()[0] for line in (folder / run).read_text().splitlines()}) == 48
