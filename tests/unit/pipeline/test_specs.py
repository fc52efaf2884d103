"""A spec is given for a job that the configuration has; two specs differ in words where their JSON does."""

from __future__ import annotations

import os
import shutil
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import condenser.pipeline.specs as module
from condenser.config import validated
from condenser.nouns import Config
from condenser.pipeline.freshness import differences
from condenser.pipeline.specs import Specs

Wildcards = dict[str, str]


@cache
def _default(root: Path) -> Config:
    return validated(yaml.safe_load((root / "config.yaml").read_text()))


def specs(
    root: Path,
    *,
    inputs: dict[str, list[str]] | None = None,
    work: Path = Path("/dev/null/work"),  # nothing is remembered
    rules: dict[str, dict[str, Any]] | None = None,
    **blocks: Any,
) -> Specs:
    """The specs of the default configuration, with other blocks; by rule, its inputs and what it declares.

    The file `STAGE/NAME` is made by the job STAGE of the data set of that name.
    """
    config = copy(_default(root))
    vars(config).update(blocks)
    known = {"collect", "tokens", "encode", "search", "subset", *(rules or {})}

    def owner(file: str) -> tuple[str, Wildcards] | None:
        rule, _, dataset = file.partition("/")
        return (rule, {"dataset": dataset}) if rule in known else None

    made = Specs(
        config,
        root=root,
        work=work,
        inputs=lambda rule, wildcards: (inputs or {}).get(rule, []),
        owner=owner,
        manifest=lambda rule, wildcards: f"{rule}.manifest.json",
        benchmark=lambda rule, wildcards: None,
    )
    for rule in known:
        made.job(rule, **(rules or {}).get(rule, {}))
    return made


SYSTEM = {"dataset": "msmarco", "system": "condenser-round1", "variant": "seed42"}


def test_a_shard_of_another_number_of_shards_is_no_job_of_the_configuration(root: Path) -> None:
    three = specs(root, shards=3)
    assert three.spec("encode", {**SYSTEM, "shard": "2-of-3"})["rule"] == "encode"
    for shard in ("0-of-2", "3-of-3", "00-of-3"):
        with pytest.raises(LookupError, match=f"expected a shard from 0-of-3 to 2-of-3, got {shard}"):
            three.spec("encode", {**SYSTEM, "shard": shard})


def test_a_system_that_is_trained_has_no_job_without_a_seed(root: Path) -> None:
    untrained = {**SYSTEM, "variant": "untrained", "shard": "0-of-1"}
    said = "systems.condenser-round1: expected a variant such as seed42, because it is trained, got untrained"
    with pytest.raises(LookupError, match=said):
        specs(root).spec("encode", untrained)
    assert specs(root).spec("encode", {**untrained, "system": "backbone-zeroshot"})["rule"] == "encode"


def test_the_settings_keep_the_nesting_of_the_configuration(root: Path) -> None:
    keys = ["recipe.lengths.passage", "recipe.negatives", "encode.block_rows", "seed"]
    made = specs(root, rules={"encode": {"settings": keys}}).spec("encode", SYSTEM)
    assert made["config"] == {
        "recipe": {
            "lengths": {"passage": 128},
            "negatives": {
                **{"depth": 30, "sample": 30, "positive_in_run": []},
                **{"margin": None, "without_answers": False, "denoise": None},
            },
        },
        "encode": {"block_rows": 1024},
        "seed": 42,
    }


def test_a_package_that_is_not_installed_is_named(root: Path) -> None:
    with pytest.raises(ValueError, match="package no-such: not installed in this environment"):
        specs(root, rules={"collect": {"packages": ["no-such"]}}).spec("collect", {"dataset": "msmarco"})


def test_packages_and_modules_that_the_settings_name_count(root: Path) -> None:
    declared = {
        "packages": lambda settings: ["numpy", *settings.dataset.packages],
        "modules": lambda settings: [f"condenser.data.sources.{settings.dataset.source}"],
    }
    made = specs(root, rules={"merge": declared}).spec("merge", {"dataset": "msmarco"})
    assert set(made["versions"]) == {"numpy", "scipy", "scikit-learn"}
    assert "condenser.data.sources.pydoc" in made["code"]
    assert "condenser.data.sources.beir" not in made["code"]


def test_the_lineage_holds_the_makers_of_all_inputs_and_no_file_of_theirs(root: Path) -> None:
    inputs = {"encode": ["tokens/msmarco", "collect/msmarco"], "tokens": ["collect/msmarco"]}
    made = specs(root, inputs=inputs)
    wildcards = {"dataset": "msmarco"}
    assert made.spec("encode", wildcards)["lineage"] == {
        rule: made.hash(rule, wildcards)[:16] for rule in ("tokens", "collect")
    }
    assert "contents" not in made.spec("encode", wildcards)
    assert made.jobs_behind("encode", wildcards) == [
        (rule, wildcards) for rule in ("collect", "tokens", "encode")
    ]


def test_a_package_counts_by_its_version_and_not_by_its_build(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "version", lambda name: "2.13.0+cpu")
    module._version.cache_clear()
    declared = {"collect": {"packages": ["torch"]}}
    made = specs(root, rules=declared).spec("collect", {"dataset": "msmarco"})
    module._version.cache_clear()
    assert made["versions"] == {"torch": "2.13.0"}


def test_all_shards_of_a_rule_make_one_entry_of_the_lineage_that_knows_each(root: Path) -> None:
    def entry(shards: list[str]) -> dict[str, str]:
        made = specs(
            root,
            shards=3,
            inputs={"merge": [f"search/{shard}" for shard in shards]},
            rules={"merge": {}},
        )
        made.owner = lambda file: ("search", {**SYSTEM, "split": "dev", "shard": file.partition("/")[2]})
        lineage: dict[str, str] = made.spec("merge", {**SYSTEM, "split": "dev"})["lineage"]
        return lineage

    assert [*entry(["0-of-3", "1-of-3"])] == ["search"]
    assert entry(["0-of-3", "1-of-3"]) != entry(["0-of-3"]) != entry(["0-of-3", "2-of-3"])
    assert entry(["0-of-3", "1-of-3"]) != entry(["0-of-3", "2-of-3"])


def test_the_bytes_of_the_users_files_count_and_are_read_once(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    digest = module.sha256_file
    monkeypatch.setattr(module, "sha256_file", lambda file: read.append(file.name) or digest(file))
    file, cache = tmp_path / "corpus.jsonl", tmp_path / "cache" / "digests.json"

    def contents() -> dict[str, str]:
        made = specs(root, inputs={"collect": [str(file)]}, work=cache.parent)
        return made.spec("collect", {"dataset": "msmarco"})["contents"]

    file.write_text("one")
    first = contents()
    assert contents() == first and read == ["corpus.jsonl"]
    times = file.stat()
    file.write_text("two")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # as `cp --preserve` does
    assert contents() != first and read == ["corpus.jsonl"] * 2
    cache.write_text("damaged")
    assert contents() != first and read == ["corpus.jsonl"] * 3
    shutil.rmtree(cache.parent)
    cache.parent.write_text("no folder: as where results/ cannot be written to")
    assert contents() != first and read == ["corpus.jsonl"] * 4


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({"config": {"a": 2}}, {"config": {"a": 2.0}}, "setting a of tokens: 2 -> 2.0"),
        ({"config": {"a": 1}}, {"config": {"a": True}}, "setting a of tokens: 1 -> true"),
        ({"config": {"a": {"b": 1, "c": 2}}}, {"config": {"a": {"b": 1, "c": 3}}},
         "setting a.c of tokens: 2 -> 3"),
        ({"config": {"a": {}}}, {"config": {"a": {"b": {"c": 1}}}}, "setting a of tokens: {} -> absent"),
        ({"config": {"a": [1, {"b": 2}]}}, {"config": {"a": [1, {"b": 2.0}]}},
         'setting a of tokens: [1,{"b":2}] -> [1,{"b":2.0}]'),
        ({"config": {}}, {"config": {"a": None}}, "setting a of tokens: absent -> null"),
        ({"config": {"a": None}}, {"config": {}}, "setting a of tokens: null -> absent"),
        ({"seed": 1}, {"seed": 1.0}, "seed: 1 -> 1.0"),
        ({}, {"seed": None}, "seed: absent -> null"),
        ({"contents": {"a": "1"}}, {}, "file a"),
        ({"code": {"condenser.files": "1"}}, {"code": {"condenser.files": "2"}}, "module condenser.files"),
        ({"lineage": {"collect": "1"}}, {"lineage": {"collect": "2"}}, "above it: collect"),
        ({"wildcards": {"on": ""}}, {"wildcards": {}}, 'wildcards: {"on":""} -> {}'),
        ({"versions": {"torch": "1"}}, {"versions": {"torch": "2"}}, 'package torch: "1" -> "2"'),
    ],
)  # fmt: skip
def test_what_differs_in_json_is_named(old: dict[str, Any], new: dict[str, Any], said: str) -> None:
    assert differences({"rule": "tokens", **old}, {"rule": "tokens", **new})[0] == said


def test_specs_in_another_order_do_not_differ_and_what_was_edited_stands_before_what_follows() -> None:
    old = {"rule": "train", "config": {"z": 1}, "code": {"m": "1"}, "lineage": {"collect": "1"}}
    assert differences(old, dict(reversed(old.items()))) == []
    new = {"rule": "train", "config": {"z": 2}, "code": {"m": "2"}, "lineage": {"collect": "2"}}
    assert differences(old, new) == ["setting z of train: 1 -> 2", "module m", "above it: collect"]
