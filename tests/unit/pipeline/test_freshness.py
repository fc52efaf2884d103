"""A manifest tells whether its result is up to date, and why not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from condenser.files import read_json
from condenser.manifest import Manifest, sealed
from condenser.pipeline.freshness import Freshness, accept, differences, edits

SPEC = {"rule": "tokens", "wildcards": {"dataset": "d"}, "config": {"shards": 1}, "code": {}, "lineage": {}}
EDITED = {**SPEC, "config": {"shards": 2}}


def made(folder: Path, name: str, *, inputs: list[Path]) -> Path:
    """A result `name` and its manifest."""
    result = folder / name
    result.write_text(name)
    Manifest(folder / f"{name}.manifest.json", SPEC, inputs=inputs).write(outputs=[result], counts={})
    return result


def manifest_of(result: Path) -> Path:
    return result.with_name(f"{result.name}.manifest.json")


def changes(result: Path, spec: dict[str, Any]) -> list[str]:
    return Freshness().changes(manifest_of(result), [str(result)], spec)


def test_a_changed_setting_is_named_and_nothing_where_none_is(tmp_path: Path) -> None:
    result = made(tmp_path, "a", inputs=[])
    assert changes(result, SPEC) == []
    assert changes(result, EDITED) == ["setting shards of tokens: 1 -> 2"]


def test_no_text_of_a_manifest_steers_the_terminal(tmp_path: Path) -> None:
    result = made(tmp_path, "a", inputs=[])
    (said,) = changes(result, {**SPEC, "config": {"shards": 1, "label\x1b[2J": "\x9b2J\u202e"}})
    assert said == r'setting label\x1b[2J of tokens: absent -> "\x9b2J\u202e"'


def test_edits_are_said_once_with_their_rules_and_without_what_follows_from_them() -> None:
    def spec(rule: str, seed: int, torch: str, above: str) -> dict[str, Any]:
        config = {"seed": seed, "label": f"a of {rule}: b"}
        return {"rule": rule, "config": config, "versions": {"torch": torch}, "lineage": {"tokens": above}}

    changed = [
        (rule, differences(spec(rule, 1, "2.0", "abc"), spec(rule, 2, "2.1", "def")))
        for rule in ("pretrain", "train", "train")
    ]
    changed.append(("search", differences(spec("search", 1, "2.0", "abc"), spec("search", 1, "2.0", "def"))))
    changed.append(("table", ["x.tsv has no manifest"]))
    whole = [
        "setting seed: 1 -> 2 (pretrain, train)",
        'package torch: "2.0" -> "2.1" (pretrain, train)',  # values are JSON
        "x.tsv has no manifest (table)",
    ]
    assert edits(changed, most=3) == whole
    assert edits(changed, most=1) == [whole[0], "and 2 more"]
    assert edits([("search", ["above it: tokens"])], most=5) == []
    (long,) = edits([("table", ["setting table.rows of table: " + 500 * "x"])], most=5)
    assert len(long) < 200 and long.endswith("xxx ... (table)")


def test_an_input_made_again_with_other_bytes_is_named(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    source = made(tmp_path, "source", inputs=[])
    result = made(tmp_path / "x", "result", inputs=[source])
    source.write_text("changed by hand: verify finds it")
    assert changes(result, SPEC) == []
    source.write_text("other")
    Manifest(manifest_of(source), SPEC, inputs=[]).write(outputs=[source], counts={})
    assert changes(result, SPEC) == [f"{source} was made again, with other bytes"]


def test_a_manifest_among_the_inputs_that_was_written_again_is_named(tmp_path: Path) -> None:
    source = made(tmp_path, "source", inputs=[])
    manifest = tmp_path / "source.manifest.json"
    result = made(tmp_path, "result", inputs=[source, manifest])
    assert changes(result, SPEC) == []
    Manifest(manifest, SPEC, inputs=[]).write(outputs=[source], counts={"rows": 2})  # the same source
    assert changes(result, SPEC) == [f"{manifest} was made again, with other bytes"]
    manifest.unlink()
    assert changes(result, SPEC) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-20],
        lambda text: "[]",
        lambda text: text.replace('"shards": 1', '"shards": 2'),
    ],
)
def test_a_damaged_manifest_makes_a_result_out_of_date(tmp_path: Path, damage: Callable[[str], str]) -> None:
    result = made(tmp_path, "a", inputs=[])
    manifest_of(result).write_text(damage(manifest_of(result).read_text()))
    assert changes(result, SPEC) == changes(result, EDITED) == [f"{manifest_of(result)} is damaged"]


def test_a_result_without_manifest_is_out_of_date_and_one_that_is_gone_is_not(tmp_path: Path) -> None:
    result = made(tmp_path, "a", inputs=[])
    manifest_of(result).unlink()
    assert changes(result, SPEC) == [f"{result} has no manifest"]
    result.unlink()
    assert changes(result, SPEC) == []


def test_a_result_that_lacks_a_file_is_out_of_date_and_one_cleared_away_is_not(tmp_path: Path) -> None:
    result, other = made(tmp_path, "a", inputs=[]), tmp_path / "a.other"
    other.write_text("b")
    Manifest(manifest_of(result), SPEC, inputs=[]).write(outputs=[result, other], counts={})
    assert changes(result, SPEC) == []
    other.unlink()
    assert changes(result, SPEC) == [f"{other} is missing"]
    result.unlink()
    assert changes(result, SPEC) == []  # Snakemake itself sees that it is to be made


def test_what_is_accepted_counts_as_made_so_and_is_told(tmp_path: Path) -> None:
    result, manifest = made(tmp_path, "a", inputs=[]), tmp_path / "a.manifest.json"
    assert accept(manifest, SPEC) == []
    assert accept(manifest, EDITED) == ["setting shards of tokens: 1 -> 2"]
    assert changes(result, EDITED) == []
    record = read_json(manifest)
    assert [one["changes"] for one in record["accepted"]] == [["setting shards of tokens: 1 -> 2"]]
    whole = {name: value for name, value in record.items() if name != "sha256"}
    assert sealed(whole) == record
