"""Snakemake's reason for a job is put into words, and stays as it is where the old manifest cannot say."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from condenser.pipeline.reasons import ReasonFilter
from condenser.program import Manifest

SPEC = {"stage": "tokens", "wildcards": {"dataset": "d"}, "config": {"shards": 1}, "code": {}, "lineage": {}}
CHANGED = "Params have changed since last execution: before: 1 now: 2"


def announced(manifest: Path) -> str:
    record = logging.makeLogRecord({"reason": CHANGED, "output": ["tokens.npy", str(manifest)]})
    assert ReasonFilter(lambda *_: {**SPEC, "config": {"shards": 2}}).filter(record)
    return record.reason  # type: ignore[attr-defined, no-any-return]


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.manifest.json"
    Manifest(path, SPEC, inputs=[]).write(outputs=[], counts={})
    return path


def test_a_changed_setting_is_named(manifest: Path) -> None:
    assert announced(manifest) == "changed: setting shards of tokens: 1 -> 2"


@pytest.mark.parametrize("damage", ["cut", "no spec", "gone"])
def test_where_the_manifest_is_damaged_snakemakes_own_words_stay(manifest: Path, damage: str) -> None:
    if damage == "cut":
        manifest.write_bytes(manifest.read_bytes()[:-20])
    elif damage == "no spec":
        manifest.write_text("[]")
    else:
        manifest.unlink()
    assert announced(manifest) == CHANGED
