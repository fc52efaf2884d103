"""A spec is given for a job that the configuration has; two specs differ in words where their JSON does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from condenser.config import validated
from condenser.pipeline.specs import Specs, differences


@pytest.fixture
def specs(root: Path) -> Callable[..., Specs]:
    def of(**blocks: dict[str, Any]) -> Specs:
        config = validated(yaml.safe_load((root / "config.yaml").read_text()))
        config = {**config, **{name: {**config[name], **block} for name, block in blocks.items()}}
        return Specs(config, root=root, digest_cache=None)

    return of


RETRIEVER = {"dataset": "msmarco", "system": "condenser-round1"}
SHARDED = {
    "tokens": ("tokens", {"dataset": "msmarco"}),
    "encode": ("encode", RETRIEVER),
    "search": ("encode", {**RETRIEVER, "split": "dev"}),
}


@pytest.mark.parametrize("stage", SHARDED)
def test_a_shard_of_another_number_of_shards_is_no_job_of_the_configuration(
    specs: Callable[..., Specs], stage: str
) -> None:
    block, wildcards = SHARDED[stage]
    other = "encode" if block == "tokens" else "tokens"
    two, three = (specs(**{block: {"shards": number}, other: {"shards": 7}}) for number in (2, 3))
    assert two.spec(stage, {**wildcards, "shard": "1-of-2"})["stage"] == stage
    assert three.spec(stage, {**wildcards, "shard": "2-of-3"})["stage"] == stage
    for shard in ("0-of-2", "3-of-3", "00-of-3"):
        with pytest.raises(LookupError, match=f"expected a shard from 0-of-3 to 2-of-3, got {shard}"):
            three.spec(stage, {**wildcards, "shard": shard})


def test_a_data_set_that_the_configuration_lacks_has_no_job(specs: Callable[..., Specs]) -> None:
    for stage in ("backbone", "collect", "bm25_index"):
        with pytest.raises(LookupError, match="expected a data set of the configuration, got gone"):
            specs(backbone={"source": "embedded"}).spec(stage, {"dataset": "gone"})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({"config": {"a": 2}}, {"config": {"a": 2.0}}, "setting a of tokens: 2 -> 2.0"),
        ({"config": {"a": 1}}, {"config": {"a": True}}, "setting a of tokens: 1 -> true"),
        ({"config": {"a": [1, {"b": 2}]}}, {"config": {"a": [1, {"b": 2.0}]}},
         'setting a of tokens: [1,{"b":2}] -> [1,{"b":2.0}]'),
        ({"config": {}}, {"config": {"a": None}}, "setting a of tokens: absent -> null"),
        ({"config": {"a": None}}, {"config": {}}, "setting a of tokens: null -> absent"),
        ({"seed": 1}, {"seed": 1.0}, "setting seed: 1 -> 1.0"),
        ({}, {"seed": None}, "setting seed: absent -> null"),
        ({"contents": {"a": "1"}}, {}, "file a"),
        ({"wildcards": {"on": ""}}, {"wildcards": {}}, 'wildcards: {"on":""} -> {}'),
        ({"versions": {"torch": "1"}}, {"versions": {"torch": "2"}}, 'package torch: "1" -> "2"'),
    ],
)  # fmt: skip
def test_what_differs_in_json_is_named(old: dict[str, Any], new: dict[str, Any], said: str) -> None:
    assert differences({"stage": "tokens", **old}, {"stage": "tokens", **new}) == [said]


def test_the_same_spec_in_another_order_differs_in_nothing() -> None:
    old = {"stage": "tokens", "config": {"a": 1, "b": {"c": 2, "d": None}}}
    new = {"config": {"b": {"d": None, "c": 2}, "a": 1}, "stage": "tokens"}
    assert differences(old, new) == []
