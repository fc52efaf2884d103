"""What benchmarks/steps.py measures, at a size that takes moments."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from condenser.nouns import Config
from condenser.train.loop import training_machine

OVERLAY = {
    "datasets": {"msmarco": {"source": "msmarco"}},
    "models": {
        "backbone": {
            "source": "scratch", "vocab_size": 300, "hidden_size": 32, "num_layers": 4, "num_heads": 4,
            "intermediate_size": 64, "max_positions": 64,
        },
    },
    "objectives": {
        "condenser": {
            "skip_from": 2, "max_tokens": 30, "batch_size": 6, "rows_per_chunk": 4, "initial_share": 0,
        },
        "cocondenser": {
            "min_span_tokens": 8, "span_tokens": [12, 20], "batch_size": 5, "rows_per_chunk": 4,
        },
        "ict": {"max_sentence_tokens": 10, "max_tokens": 30},
        "mlm": {"max_tokens": 30},
    },
    "recipes": {
        "marco": {
            "lengths": {"query": 12, "passage": 40}, "negatives": {"sample": 6}, "batch_size": 3,
            "passages_per_query": 4, "rows_per_chunk": 5,
        },
    },
    "encode": {"batch_tokens": 512, "block_rows": 20},
}  # fmt: skip
COUNT = 3
BATCH_SIZES = {"condenser": 6, "cocondenser": 5, "train": 3, "encode": 20}


@dataclass(frozen=True)
class Prepared:
    """Inputs of all rules, made once."""

    steps: ModuleType
    config: Config
    folder: Path

    def settings(self, rule: str, cache: str) -> dict[str, Any]:
        settings: dict[str, Any] = self.steps.settings_of(rule, self.config)
        return settings | {"gradient_cache": cache} if cache else settings

    def run(self, rule: str, cache: str) -> list[Any]:
        settings = self.settings(rule, cache)
        with training_machine(device="cpu", precision="fp32", threads=1) as machine:
            updates: list[Any] = self.steps.run_updates(
                rule, self.folder, settings, machine, count=COUNT, seed=42
            )
        return updates


@pytest.fixture(scope="module")
def steps(root: Path) -> Iterator[ModuleType]:
    """The benchmark's program, with the modules beside it in reach."""
    sys.path.insert(0, str(root / "benchmarks"))
    yield importlib.import_module("steps")
    sys.path.remove(str(root / "benchmarks"))


@pytest.fixture(scope="module")
def made(steps: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("steps")
    overlay = folder / "small.yaml"
    overlay.write_text(json.dumps(OVERLAY))
    config = importlib.import_module("measuring").load_config([overlay])
    rules = {name: steps.settings_of(name, config) for name in BATCH_SIZES}
    steps.write_inputs(folder, config, rules, dict.fromkeys(BATCH_SIZES, COUNT))
    return Prepared(steps, config, folder)


@pytest.fixture
def prepared(made: Prepared) -> Iterator[Prepared]:
    """The inputs, and no work folder before or after."""
    yield made
    shutil.rmtree(made.folder / "work", ignore_errors=True)


@pytest.mark.parametrize(
    ("rule", "cache"),
    [
        ("train", ""),
        pytest.param("condenser", "", marks=pytest.mark.weekly),
        pytest.param("cocondenser", "always", marks=pytest.mark.weekly),
    ],
)
def test_items_are_those_of_the_rule(prepared: Prepared, rule: str, cache: str) -> None:
    updates = prepared.run(rule, cache)
    assert [update.ended for update in updates] == sorted(update.ended for update in updates)
    assert [update.items for update in updates] == [BATCH_SIZES[rule]] * COUNT  # every batch is whole


def test_rates_are_of_the_updates_after_the_first_two(prepared: Prepared) -> None:
    machine = {"device": "cpu", "precision": "fp32", "threads": 1}
    settings = prepared.settings("encode", "")
    rates = prepared.steps.measure("encode", prepared.folder, settings, machine, count=COUNT)
    assert rates["items_per_s"] == pytest.approx(BATCH_SIZES["encode"] / rates["seconds"])
    assert rates["tokens_per_s"] > 3 * rates["items_per_s"]
    assert rates["memory_gb"] > 0.1  # Python with PyTorch


@pytest.mark.ci
def test_steps_are_timed_in_turn_with_a_peer_that_computes_the_same(made: Prepared, tmp_path: Path) -> None:
    measuring, stepping = (importlib.import_module(name) for name in ("measuring", "stepping"))
    (tmp_path / "cls").symlink_to(made.folder / "backbone")
    form = measuring.Form(tmp_path, tmp_path, threads=1, long=False, device="cpu", cpu_time=True)
    settings = made.settings("cocondenser", "always")
    lines = stepping.lines_of_steps(form, "a step", "cocondenser", "msmarco", settings, count=1, goal=1.0)
    assert [line["goal"] for line in lines] == ["1x"]
    assert all(line["ours"] > 0 and line["ratio"] > 0 for line in lines)
