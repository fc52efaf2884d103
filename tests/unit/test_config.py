"""The configuration refuses what is wrong, in one line that names the key."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from condenser.config import validated


@pytest.fixture
def config(root: Path) -> dict[str, Any]:
    return yaml.safe_load((root / "config.yaml").read_text())


def changed(config: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    result = copy.deepcopy(config)
    *parents, leaf = key.split(".")
    block = result
    for parent in parents:
        block = block[parent]
    if value is ...:
        del block[leaf]
    else:
        block[leaf] = value
    return result


def test_the_embedded_default_is_valid_and_comes_back_unchanged(config: dict[str, Any]) -> None:
    assert {**validated(config), "datasets": {}} == {**config, "datasets": {}}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("condenser.lr", 1.0, "condenser.lr: unknown key."),
        ("condenser.learning_rates", 1.0, "Did you mean 'learning_rate'?"),
        ("condenser.learning_rate", "1e-4", "write 1.0e-4"),
        (
            "condenser.learning_rate",
            float("nan"),
            "condenser.learning_rate: expected a finite number, got nan",
        ),
        ("finetune.weight_decay", float("inf"), "finetune.weight_decay: expected a finite number, got inf"),
        ("condenser.learning_rate", print, "condenser.learning_rate: expected a valid number"),
        ("condenser.batch_size", 0, "condenser.batch_size: expected greater than or equal to 1, got 0"),
        ("condenser.batch_size", 1.5, "condenser.batch_size: expected"),
        ("condenser.batch_size", ..., "condenser.batch_size: missing"),
        ("seed", True, "seed: expected a valid integer"),
        ("compute.precision", "fp8", "'auto', 'fp32', 'bf16' or 'fp16'"),
        ("datasets.mine", {"source": "bier"}, "datasets.mine.source: expected 'pydoc'"),
        ("datasets.mine", {"path": "x"}, "datasets.mine.source: missing"),
        ("datasets.mine", {"source": "beir"}, "datasets.mine.path: missing"),
        ("datasets.mine", {"source": "beir", "path": "/no/such"}, "datasets.mine.path: expected a folder"),
        ("datasets.a b", {"source": "pydoc"}, "datasets.a b"),
        ("pydoc.pakages", [], "Did you mean 'packages'?"),
        ("pydoc.query_words", [30, 4], "pydoc.query_words: expected [least, most], got [30, 4]"),
        ("datasets.msmarco.eval_split", "train", "name two splits"),
        (
            "backbone",
            {"source": "folder", "path": "/no/such"},
            "backbone.path: expected a Hugging Face folder",
        ),
        ("condenser.corpus", "wiki", "condenser.corpus: expected 'collection' or one of 'msmarco'"),
        ("tables.rounds", 3, "Give one number of epochs a round"),
        ("negatives.depth", 2000, "deeper than the train runs it reads"),
        ("cocondenser.span_tokens", [128, 80], "min_span_tokens <= span_tokens[0] <= span_tokens[1]"),
        ("downloads.mirror", "/no/such", "downloads.mirror: expected a folder"),
    ],
)
def test_what_is_wrong_gives_one_line_with_the_key(
    config: dict[str, Any], key: str, value: Any, message: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is checked below
        validated(changed(config, key, value))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_users_own_data_set_needs_four_keys(config: dict[str, Any], tmp_path: Path) -> None:
    entry = {"source": "beir", "path": str(tmp_path), "train_split": "train", "eval_split": "dev"}
    filled = validated(changed(config, "datasets.mine", entry))["datasets"]["mine"]
    assert filled == {**entry, "bad_rows": "strict"}


def test_every_number_of_the_default_has_a_source_or_says_why(root: Path) -> None:
    inside = None
    for line in (root / "config.yaml").read_text().splitlines():
        if line and not line.startswith((" ", "#")):
            inside = line.split(":")[0]
        if inside in {"condenser", "finetune"} and line.startswith("  ") and ":" in line:
            value = line.split(":", 1)[1]
            assert "#" in value, f"{inside}: {line.strip()} names no source"
