"""Systems that start from other systems: rounds that each train on from the last one's weights."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from graphs import Load, refusal
from made import make

from condenser.experiment import checkpoints_of, has_seeds, has_sizes, initial_model, starts_from
from condenser.experiment.tables import table_notes, table_rows
from condenser.files import sha256_file
from condenser.settings import merged

ROUNDS: dict[str, Any] = {
    "systems": {
        "second": {"kind": "biencoder", "initial": "backbone-round1", "negatives": ["backbone-round1"]},
        "third": {"kind": "biencoder", "initial": "second", "negatives": ["second"]},
        "states": {"kind": "late", "initial": "third", "candidates": ["third"], "depth": 50},
    },
    "tables": {"rounds": {"rows": ["third", "states"], "measures": ["MRR@10"], "train_queries": [10, "all"]}},
}


def test_a_round_starts_from_the_same_variant_of_the_last_and_learns_from_its_hits(load: Load) -> None:
    graph = load(ROUNDS)
    jobs = graph.jobs("results/msmarco/rounds.tsv")
    for variant in ("n10-seed42", "seed42"):
        inputs = graph.inputs(f"train msmarco third {variant}")
        assert f"results/msmarco/systems/second/{variant}/model/model.safetensors" in inputs
        assert f"results/msmarco/systems/second/{variant}/examples.jsonl" in inputs
        assert "results/msmarco/models/backbone/model.safetensors" not in inputs
        assert f"results/msmarco/systems/backbone-round1/{variant}/model/model.safetensors" in graph.inputs(
            f"train msmarco second {variant}"
        )
        scored = graph.inputs(f"late msmarco states {variant} dev")
        assert f"results/msmarco/systems/third/{variant}/model/model.safetensors" in scored
    assert {job for job in jobs if job.startswith("tokens")} == {"tokens msmarco backbone 0-of-1"}
    assert "pretrain" not in {job.split()[0] for job in jobs}


def test_its_model_variants_and_trainings_are_those_of_the_whole_chain(load: Load) -> None:
    config = load(ROUNDS).settings
    assert starts_from(config, "third") == "second" and starts_from(config, "backbone-round1") is None
    assert {initial_model(config, name) for name in ("states", "third", "second")} == {"backbone"}
    assert initial_model(config, "bm25") is None
    assert has_sizes(config, "states") and has_seeds(config, "states")
    assert "backbone" in checkpoints_of(config, "msmarco")
    assert {row["backbone"] for row in table_rows(config, "msmarco", "rounds")} != {None}
    trained = [
        (one["system"], one["variant"])
        for one in table_notes(config, "msmarco", "rounds")["trainings"]
        if one.get("variant") == "seed42"
    ]
    assert trained == [("backbone-round1", "seed42"), ("second", "seed42"), ("third", "seed42")]


def test_a_model_wins_where_a_system_has_its_name(load: Load) -> None:
    named = {"systems": {"condenser": {"kind": "biencoder", "initial": "backbone", "negatives": ["bm25"]}}}
    config = load(merged(ROUNDS, named)).settings
    assert starts_from(config, "condenser-round1") is None


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"third": {"initial": "secnd"}}, r"systems\.third\.initial: expected one of .*, got 'secnd'"),
        ({"third": {"initial": "bm25"}}, r"systems\.third\.initial: expected one of .*, got 'bm25'"),
        ({"third": {"initial": "backbone-zeroshot"}}, r"expected one of .*, got 'backbone-zeroshot'"),
        ({"third": {"initial": "third"}}, r"systems\.third\.initial: expected one of .*, got 'third'"),
        ({"second": {"initial": "third"}}, r"expected a chain that ends, got second -> third -> second"),
        (
            {"third": {"recipe": {"tied": False}}},
            r"systems\.third\.initial: expected a system with as many encoders, got second: recipe\.tied is "
            r"None there and False here\. Give both the same\.",
        ),
    ],
)  # fmt: skip
def test_a_start_that_cannot_be_is_refused_in_one_line(
    load: Load, edit: dict[str, Any], message: str
) -> None:
    assert re.search(message, refusal(lambda: load(merged(ROUNDS, {"systems": edit}))))


@pytest.mark.ci
def test_a_round_is_the_training_from_the_folder_of_the_last_one(copy_of_golden: Callable[[], Path]) -> None:
    """Byte for byte: the folder as a checkpoint, by a second run, is the same start."""
    folder = copy_of_golden()
    made = "results/tiny/systems/cocondenser-round1/seed42/model"
    learns = {"kind": "biencoder", "negatives": ["cocondenser-round1"]}
    overlay = {
        "models": {"copy": {"objective": "checkpoint", "source": "folder", "path": made}},
        "systems": {
            "next": {**learns, "initial": "cocondenser-round1"},
            "by-hand": {**learns, "initial": "copy"},
        },
    }
    (folder / "rounds.yaml").write_text(yaml.safe_dump(overlay))
    weights = [f"results/tiny/systems/{name}/seed42/model/model.safetensors" for name in overlay["systems"]]
    make(folder, *weights, overlays=["rounds.yaml"])
    digests = {sha256_file(folder / file) for file in weights}
    assert len(digests) == 1
    assert digests != {sha256_file(folder / made / "model.safetensors")}
