"""Verification finds every single flipped byte, and tells stale from damaged from unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from condenser.pipeline.verify import Finding, verify
from condenser.program import Manifest

SPEC = {"stage": "tokens", "wildcards": {"dataset": "d"}, "config": {"depth": 1}, "code": {}, "lineage": {}}


def current(stage: str, wildcards: dict[str, str]) -> dict[str, Any]:
    assert (stage, wildcards) == ("tokens", {"dataset": "d"})
    return SPEC


@pytest.fixture
def results(tmp_path: Path) -> Path:
    root = tmp_path / "results"
    (root / "d" / "logs").mkdir(parents=True)
    (root / "d" / "logs" / "job.log").write_text("no result")
    (root / "d" / "in.txt").write_text("input")
    (root / "d" / "out.bin").write_bytes(bytes(range(256)))
    for name, inputs in (("in.txt", []), ("out.bin", [root / "d" / "in.txt"])):
        manifest = Manifest(root / "d" / f"{name}.manifest.json", SPEC, inputs=inputs)
        manifest.write(outputs=[root / "d" / name], counts={"rows": 1})
    return root


def kinds(findings: list[Finding]) -> set[tuple[str, str]]:
    return {(finding.kind, finding.path.name) for finding in findings}


def test_results_as_their_stages_wrote_them_give_no_finding(results: Path) -> None:
    assert verify(results, current=current) == (2, [])


@pytest.mark.parametrize("name", ["out.bin", "in.txt", "out.bin.manifest.json", "in.txt.manifest.json"])
def test_any_single_flipped_byte_is_found(results: Path, name: str) -> None:
    file = results / "d" / name
    whole = file.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 40)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        _, findings = verify(results, current=current)
        assert findings, f"byte {place} of {name}"
    if name.endswith(".json"):
        file.write_bytes(whole.replace(b"\n", b" ", 1))  # to a JSON reader the same
        assert verify(results, current=current)[1]
    file.write_bytes(whole)
    assert verify(results, current=current)[1] == []


def test_a_missing_result_is_damaged_and_one_without_manifest_is_of_unknown_origin(results: Path) -> None:
    (results / "d" / "out.bin").unlink()
    (results / "d" / "stray.npy").write_bytes(b"x")
    assert kinds(verify(results, current=current)[1]) == {("damaged", "out.bin"), ("unknown", "stray.npy")}


def test_another_configuration_makes_results_stale_and_names_the_key(results: Path) -> None:
    _, findings = verify(results, current=lambda *_: {**SPEC, "config": {"depth": 2}})
    assert [finding.kind for finding in findings] == ["stale", "stale"]
    assert "setting depth of tokens: 1 -> 2" in findings[0].reason


def test_a_job_the_configuration_no_longer_has_is_stale(results: Path) -> None:
    for lack in (KeyError("d"), IndexError("epochs[1]"), ValueError("package gone")):

        def unknown(*_: Any, lack: Exception = lack) -> dict[str, Any]:
            raise lack

        assert {finding.kind for finding in verify(results, current=unknown)[1]} == {"stale"}


@pytest.mark.parametrize("name", ["logs", "benchmarks"])
def test_what_a_data_set_holds_under_the_name_of_its_logs_is_checked_all_the_same(
    results: Path, name: str
) -> None:
    (results / "d" / "models" / name).mkdir(parents=True)
    (results / "d" / "models" / name / "stray.npy").write_bytes(b"x")
    assert kinds(verify(results, current=current)[1]) == {("unknown", "stray.npy")}


def test_an_input_remade_with_other_bytes_makes_what_was_made_from_it_stale(results: Path) -> None:
    (results / "d" / "in.txt").write_text("other")
    Manifest(results / "d" / "in.txt.manifest.json", SPEC, inputs=[]).write(
        outputs=[results / "d" / "in.txt"], counts={}
    )
    assert kinds(verify(results, current=current)[1]) == {("stale", "out.bin.manifest.json")}
