"""What benchmarks/steps.py measures, at a size that takes moments."""

from __future__ import annotations

import csv
import importlib
import logging
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
import yaml
from small_models import OPERATORS
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.flop_counter import FlopCounterMode

from condenser.data.tokens import TokenShards
from condenser.model.bert import Embeddings
from condenser.model.pretraining import Condenser
from condenser.pipeline.costs import measure
from condenser.pipeline.costs.tables import Tables
from condenser.train.machine import training_machine

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
    """Inputs of all stages, made once."""

    steps: ModuleType
    config: dict[str, Any]
    folder: Path

    def settings(self, stage: str, cache: str) -> dict[str, Any]:
        settings = self.steps.settings_of(stage, self.config, "msmarco")
        return settings | {"gradient_cache": cache} if cache else settings

    def run(self, stage: str, cache: str) -> list[Any]:
        run_updates = importlib.import_module("watched_stages").run_updates
        settings = self.settings(stage, cache)
        shape = self.steps.shape_of(self.folder, settings)
        with training_machine(device="cpu", precision="fp32", threads=1) as machine:
            return run_updates(stage, self.folder, settings, machine, count=COUNT, seed=42, shape=shape)


@pytest.fixture(scope="module")
def steps(root: Path) -> Iterator[ModuleType]:
    """The benchmark's program, with the modules beside it in reach."""
    sys.path.insert(0, str(root / "benchmarks"))
    yield importlib.import_module("steps")
    sys.path.remove(str(root / "benchmarks"))


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("overlay") / "small.yaml"
    file.write_text(yaml.safe_dump(OVERLAY))
    return file


@pytest.fixture(scope="module")
def made(steps: ModuleType, overlay: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    config, folder = steps.load_config([overlay]), tmp_path_factory.mktemp("steps")
    names = dict.fromkeys(stage for stage, _ in [*WAYS, *OTHERS, ("mlm", "")])
    steps.make_inputs(
        folder,
        config,
        {name: steps.settings_of(name, config, "msmarco") for name in names},
        counts=dict.fromkeys(names, COUNT),
        dataset="msmarco",
        initial=None,
        mean_tokens=None,
        variation=0.0,
    )
    return Prepared(steps, config, folder)


@pytest.fixture
def prepared(made: Prepared) -> Iterator[Prepared]:
    """The inputs, and no work folder before or after."""
    yield made
    made.steps.shutil.rmtree(made.folder / "work", ignore_errors=True)


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


@pytest.mark.parametrize(("stage", "cache"), WAYS + OTHERS)
def test_operations_and_tokens_are_those_that_the_stage_computes(
    prepared: Prepared, stage: str, cache: str
) -> None:
    with (
        sdpa_kernel(SDPBackend.MATH),
        FlopCounterMode(display=False, custom_mapping=OPERATORS) as products,
        words_counted() as words,
    ):
        updates = prepared.run(stage, cache)
    assert len(updates) == COUNT
    assert [update.ended for update in updates] == sorted(update.ended for update in updates)
    batch_size = {"condenser": 6, "cocondenser": 5, "ict": 4, "train": 3, "encode": 20}[stage]
    assert [update.items for update in updates] == [batch_size] * COUNT  # every batch is whole
    passes = 2 if cache == "always" else 1
    assert passes * sum(update.tokens for update in updates) == sum(words)
    settings = prepared.settings(stage, cache)
    shape = prepared.steps.shape_of(prepared.folder, settings)
    told = [prepared.steps.flops_of(update, shape, settings) for update in updates]
    assert sum(told) == pytest.approx(products.get_total_flops(), rel=0.001 if stage == "encode" else 0.02)


def test_operations_that_the_plan_does_not_count_are_not_made_up(prepared: Prepared) -> None:
    settings = prepared.settings("mlm", "")
    shape = prepared.steps.shape_of(prepared.folder, settings)
    for update in prepared.run("mlm", ""):
        assert update.tokens > 0 and np.isnan(prepared.steps.flops_of(update, shape, settings))


def test_texts_that_are_too_few_are_refused(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(prepared.config["models"]["mlm"], "batch_size", 1000)
    with pytest.raises(ValueError, match="--tokens: expected longer texts: mlm ended after 1 updates"):
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
    does_not_fit = importlib.import_module("watched_stages").DoesNotFit
    with pytest.raises(does_not_fit, match="memory is full: switching to the gradient cache"):
        prepared.run("cocondenser", "never")
    assert not logging.getLogger("condenser.train.memory").filters


def test_random_texts_are_as_long_as_the_plan_assumes(steps: ModuleType, tmp_path: Path) -> None:
    config = steps.load_config([steps.ROOT / "configs" / "paper.yaml"])
    config["models"]["backbone"] = OVERLAY["models"]["backbone"]
    names = ("condenser", "encode")
    stages = {name: steps.settings_of(name, config, "msmarco") for name in names}
    stages["encode"]["block_rows"] = 2000
    steps.make_inputs(
        tmp_path,
        config,
        stages,
        counts={"condenser": 1, "encode": 3},
        dataset="msmarco",
        initial=None,
        mean_tokens=None,
        variation=0.0,
    )
    shards = TokenShards([tmp_path / "encode.0-of-1"])
    row = Tables(steps.TABLES).row("collections", "msmarco")
    lengths = np.diff(shards.row_starts) - shards.title_lengths
    assert shards.num_rows == 6001 and set(shards.title_lengths) == {int(row["title_tokens"])}
    assert lengths.mean() == pytest.approx(float(row["tokens"]), rel=0.03)
    assert lengths.std() / lengths.mean() == pytest.approx(float(row["variation"]), rel=0.06)


def test_the_program_writes_a_line_a_measurement_and_leaves_nothing_else(
    steps: ModuleType,
    overlay: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(measure, "_BEST_OF_S", 0.01)
    monkeypatch.setattr(steps, "in_new_process", lambda work, *args, **kwargs: work(*args, **kwargs))
    tight = tmp_path / "tight.yaml"
    tight.write_text(yaml.safe_dump({"objectives": {"cocondenser": {"memory_gb": 0.001}}}))
    options = {
        "folder": tmp_path / "made", "tokens": 40, "variation": 0.3, "updates": 4, "blocks": 5,
        "device": "cpu", "precisions": "fp32", "threads": 1, "output": tmp_path / "steps.tsv",
    }  # fmt: skip
    steps.main(
        [
            *("--configfile", str(overlay), str(tight)),
            *(str(part) for name, value in options.items() for part in (f"--{name}", value)),
        ]
    )
    with (tmp_path / "steps.tsv").open() as file:
        lines = list(csv.DictReader(file, delimiter="\t"))
    assert [(line["stage"], line["gradient_cache"]) for line in lines] == WAYS
    for line in lines:
        if (line["stage"], line["gradient_cache"]) == ("cocondenser", "never"):
            assert line["note"].startswith("does not fit: graphs of up to ") and not line["median_s"]
            continue
        number = {name: float(line[name]) for name in steps.COLUMNS[6:-1]}
        assert (line["precision"], line["device"], line["threads"]) == ("fp32", "cpu fp32", "1")
        assert number["updates"] == {"encode": 3}.get(line["stage"], 2)
        assert 0 < number["best_s"] <= number["median_s"]
        assert number["tokens_per_s"] == pytest.approx(number["tokens"] / number["median_s"], rel=1e-4)
        achieved = number["flops"] / number["median_s"] / number["product_flops_per_s"]
        assert number["share_of_peak"] == pytest.approx(achieved, rel=1e-4)
        assert number["memory_bytes"] > 1e8  # Python with PyTorch
    assert lines[-1]["items"] == "20" and float(lines[-1]["tokens"]) <= 20 * 40
    assert "cocondenser\tnever\tfp32\t" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["steps.tsv", "tight.yaml"]


def test_too_few_updates_are_refused(steps: ModuleType, tmp_path: Path) -> None:
    few = ["--updates", "2", "--blocks", "9", "--device", "cpu", "--precisions", "fp32", "--threads", "1"]
    with pytest.raises(ValueError, match="expected more than 2"):
        steps.main(["--folder", str(tmp_path / "made"), *few, "--output", str(tmp_path / "steps.tsv")])
    assert not list(tmp_path.iterdir())


def test_a_name_of_no_model_is_refused(steps: ModuleType, tmp_path: Path) -> None:
    given = ["--updates", "3", "--blocks", "3", "--device", "cpu", "--precisions", "fp32", "--threads", "1"]
    folder, output = tmp_path / "made", tmp_path / "steps.tsv"
    with pytest.raises(ValueError, match=r"--models: expected some of backbone, .*, got condensr"):
        steps.main(["--models", "condensr", "--folder", str(folder), *given, "--output", str(output)])
    assert not list(tmp_path.iterdir())
