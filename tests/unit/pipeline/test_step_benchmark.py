"""What benchmarks/steps.py measures, at a size that takes moments."""

from __future__ import annotations

import importlib
import json
import logging
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from small_models import OPERATORS
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.flop_counter import FlopCounterMode

from condenser.blocks import Config
from condenser.data.tokens import TokenShards
from condenser.model.bert import Embeddings
from condenser.model.pretraining import Condenser
from condenser.pipeline.costs.tables import Tables
from condenser.settings import Settings
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
        "ict": {"max_sentence_tokens": 10, "max_tokens": 30, "batch_size": 4, "rows_per_chunk": 3},
        "mlm": {"max_tokens": 30, "batch_size": 4},
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
WAYS = [
    ("condenser", ""),
    ("cocondenser", "always"),
    ("cocondenser", "never"),
    ("train", ""),
    ("encode", ""),
]
OTHERS = [("ict", "always"), ("ict", "never")]


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
        shape = self.steps.shape_of(self.folder, settings)
        with training_machine(device="cpu", precision="fp32", threads=1) as machine:
            updates: list[Any] = self.steps.run_updates(
                rule, self.folder, settings, machine, count=COUNT, seed=42, shape=shape
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
    names = dict.fromkeys(rule for rule, _ in [*WAYS, *OTHERS, ("mlm", "")])
    rules = {name: steps.settings_of(name, config) for name in names}
    steps.write_inputs(folder, config, rules, dict.fromkeys(names, COUNT))
    return Prepared(steps, config, folder)


@pytest.fixture
def prepared(made: Prepared) -> Iterator[Prepared]:
    """The inputs, and no work folder before or after."""
    yield made
    shutil.rmtree(made.folder / "work", ignore_errors=True)


@contextmanager
def words_counted() -> Iterator[list[int]]:
    """Ids of each call of a BERT's embeddings."""
    counts: list[int] = []

    def count(module: torch.nn.Module, inputs: Any) -> None:
        if isinstance(module, Embeddings):
            counts.append(inputs[0].layout.num_tokens)

    handle = register_module_forward_pre_hook(count)
    try:
        yield counts
    finally:
        handle.remove()


@pytest.mark.parametrize(("rule", "cache"), WAYS + OTHERS)
def test_operations_and_tokens_are_those_that_the_rule_computes(
    prepared: Prepared, rule: str, cache: str
) -> None:
    with (
        sdpa_kernel(SDPBackend.MATH),
        FlopCounterMode(display=False, custom_mapping=OPERATORS) as products,
        words_counted() as words,
    ):
        updates = prepared.run(rule, cache)
    assert len(updates) == COUNT
    assert [update.ended for update in updates] == sorted(update.ended for update in updates)
    batch_size = {"condenser": 6, "cocondenser": 5, "ict": 4, "train": 3, "encode": 20}[rule]
    assert [update.items for update in updates] == [batch_size] * COUNT  # every batch is whole
    passes = 2 if cache == "always" else 1
    assert passes * sum(update.tokens for update in updates) == sum(words)
    settings = prepared.settings(rule, cache)
    shape = prepared.steps.shape_of(prepared.folder, settings)
    told = [prepared.steps.flops_of(update, shape, settings) for update in updates]
    assert sum(told) == pytest.approx(products.get_total_flops(), rel=0.001 if rule == "encode" else 0.02)


@pytest.mark.ci
@pytest.mark.parametrize(("job", "cache"), [("condenser", ""), ("cocondenser", "always")])
def test_steps_are_timed_in_turn_with_peers_that_compute_the_same(
    made: Prepared, tmp_path: Path, job: str, cache: str
) -> None:
    measuring, stepping = (importlib.import_module(name) for name in ("measuring", "stepping"))
    (tmp_path / "cls").symlink_to(made.folder / "backbone")
    form = measuring.Form(tmp_path, tmp_path, threads=1, long=False, device="cpu", cpu_time=True)
    settings = made.settings(job, cache)
    lines = stepping.lines_of_steps(form, "a step", job, "msmarco", settings, count=1, goal=1.0)
    assert [(line["goal"] or "-")[0] for line in lines] == ["-", "1"]
    assert all(line["ours"] > 0 and line["ratio"] > 0 for line in lines)


def test_operations_that_the_plan_does_not_count_are_not_made_up(prepared: Prepared) -> None:
    settings = prepared.settings("mlm", "")
    shape = prepared.steps.shape_of(prepared.folder, settings)
    for update in prepared.run("mlm", ""):
        assert update.tokens > 0 and np.isnan(prepared.steps.flops_of(update, shape, settings))


def test_texts_that_are_too_few_are_refused(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared.config.models["mlm"], "batch_size", 1000)
    with pytest.raises(ValueError, match="expected longer texts: mlm ended after 1 updates"):
        prepared.run("mlm", "")


def test_a_training_that_went_on_with_less_memory_is_not_a_measurement(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, is_full = Condenser.forward, iter([True])

    def full_once(self: Condenser, *inputs: Any) -> Any:
        if next(is_full, False):
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return forward(self, *inputs)

    monkeypatch.setattr(Condenser, "forward", full_once)
    with pytest.raises(prepared.steps.DoesNotFit, match="memory is full: switching to the gradient cache"):
        prepared.run("cocondenser", "never")
    assert not logging.getLogger("condenser.train.memory").filters


def test_graphs_that_may_fill_the_memory_are_refused(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared.config.models["cocondenser"], "memory_gb", 0.001)
    with pytest.raises(prepared.steps.DoesNotFit, match="does not fit: graphs of up to "):
        prepared.run("cocondenser", "never")


def test_random_texts_are_as_long_as_the_plan_assumes(steps: ModuleType, tmp_path: Path) -> None:
    config = importlib.import_module("measuring").load_config([steps.ROOT / "configs" / "paper.yaml"])
    config.models["backbone"] = Settings(**OVERLAY["models"]["backbone"])
    rules = {name: steps.settings_of(name, config) for name in ("condenser", "encode")}
    rules["encode"]["block_rows"] = 2000
    steps.write_inputs(tmp_path, config, rules, {"condenser": 1, "encode": 3})
    shards = TokenShards([tmp_path / "encode.0-of-1"])
    row = Tables(steps.TABLES).row("collections", "msmarco")
    lengths = np.diff(shards.row_starts) - shards.title_lengths
    assert shards.num_rows == 6001 and set(shards.title_lengths) == {int(row["title_tokens"])}
    assert lengths.mean() == pytest.approx(float(row["tokens"]), rel=0.03)
    assert lengths.std() / lengths.mean() == pytest.approx(float(row["variation"]), rel=0.06)


@pytest.mark.parametrize(("rule", "cache"), [("cocondenser", "always"), ("train", ""), ("encode", "")])
def test_rates_are_of_the_updates_after_the_first_two(prepared: Prepared, rule: str, cache: str) -> None:
    machine = {"device": "cpu", "precision": "fp32", "threads": 1}
    settings = prepared.settings(rule, cache)
    rates = prepared.steps.measure(rule, prepared.folder, settings, machine, count=COUNT, peak=1e9)
    items = {"cocondenser": 5, "train": 3, "encode": 20}[rule]
    assert rates["items_per_s"] == pytest.approx(items / rates["seconds"])
    assert rates["share_of_peak"] == pytest.approx(1e3 * rates["tflops"])
    assert rates["tokens_per_s"] > 3 * rates["items_per_s"]
    assert rates["memory_gb"] > 0.1  # Python with PyTorch
