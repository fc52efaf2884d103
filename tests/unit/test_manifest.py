"""Manifests: one maker at a time, partial work kept by spec and inputs, and no result of other code."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from condenser.manifest import OTHER_BYTES, STARTED_VARIABLE, Manifest, read_manifest
from condenser.pipeline.code import code_digests
from condenser.program import CONTROLLER_VARIABLE

# Makes a result out of its text, having waited for a line on standard input.
PROGRAM = """
import sys
from pathlib import Path
from condenser import program
from condenser.files import atomic_write
from condenser.manifest import Manifest

def main():
    result, text, claims = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    spec = {"rule": "table", "wildcards": {}, "text": text}
    manifest = Manifest(result.with_name("a.tsv.manifest.json"), spec, inputs=[], claims=claims)
    print("began", flush=True)
    with atomic_write(result) as file:
        file.write(text.encode())
        sys.stdin.readline()
    manifest.write(outputs=[result], counts={})

program.run(main)
"""


class Started:
    """Programs that make one result."""

    def __init__(self, folder: Path) -> None:
        self.result, self._claims = folder / "results" / "a.tsv", folder / "claims"
        self.all: list[subprocess.Popen[str]] = []

    def start(self, text: str, **environment: str) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.all.append(
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(self.result), text, str(self._claims)],
                env={**os.environ, **environment},
                text=True,
                **pipes,
            )
        )
        return self.all[-1]


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Started]:
    started = Started(tmp_path)
    yield started
    for process in started.all:
        process.kill()
        process.communicate()


def _began(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None and process.stdout.readline() == "began\n"


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline()


def test_a_second_maker_of_a_result_waits_and_is_spared_the_work_when_the_first_has_done_it(
    programs: Started,
) -> None:
    first = programs.start("same")
    _began(first)
    second = programs.start("same")
    assert "another process is making it: waiting until it ends" in _line(second)
    first.communicate("go on\n", timeout=30)
    _, said = second.communicate(timeout=30)  # without a line to go on by
    assert second.returncode == 0
    assert "was made meanwhile" in said
    assert programs.result.read_text() == "same"


def test_a_result_of_another_spec_made_meanwhile_is_made_again(programs: Started) -> None:
    first = programs.start("before the edit")
    _began(first)
    second = programs.start("after the edit")
    assert "waiting" in _line(second)
    first.communicate("go on\n", timeout=30)
    _began(second)
    second.communicate("go on\n", timeout=30)
    assert programs.result.read_text() == "after the edit"
    manifest = json.loads(programs.result.with_name("a.tsv.manifest.json").read_text())
    assert manifest["spec"]["text"] == "after the edit"


def test_what_a_killed_maker_left_half_written_is_removed_before_the_work_begins(programs: Started) -> None:
    first = programs.start("half")
    _began(first)
    until = time.monotonic() + 30
    while not (left := list(programs.result.parent.glob(".a.tsv.partial-*"))):
        assert time.monotonic() < until
        time.sleep(0.01)
    first.kill()
    first.wait(30)
    assert left[0].exists()
    other = programs.result.with_name(".b.tsv.partial-1")
    other.touch()
    second = programs.start("whole")
    _began(second)
    assert not left[0].exists()
    second.communicate("go on\n", timeout=30)
    assert sorted(path.name for path in programs.result.parent.iterdir()) == [
        ".b.tsv.partial-1", "a.tsv", "a.tsv.manifest.json",
    ]  # fmt: skip


def test_work_is_kept_apart_by_the_spec_and_by_the_bytes_of_the_inputs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, work = tmp_path / "model" / "weights", tmp_path / "work"
    file.parent.mkdir()

    def own_folder(content: bytes, **spec: int) -> Path:
        file.write_bytes(content)
        manifest = Manifest(tmp_path / "a.tsv.manifest.json", spec, inputs=[file.parent])
        return manifest.own_folder(work)

    with caplog.at_level(logging.INFO):
        own = own_folder(b"one")
        own.mkdir(parents=True)
        assert own_folder(b"one") == own and not caplog.text
        others = {own_folder(b"two"), own_folder(b"one", seed=1)}
    assert len({own, *others}) == 3 and {folder.parent for folder in others} == {work}
    assert f"{own}: not resumed: its inputs have changed" in caplog.text and own.exists()


@pytest.mark.parametrize(
    ("output", "manifest"),
    [
        ("model/query/model.safetensors", "model.manifest.json"),  # a folder
        ("run.dev.trec", "run.dev.trec.manifest.json"),  # a file
        ("collection.0-of-2.tokens.npy", "collection.0-of-2.manifest.json"),  # files that begin alike
    ],
)
def test_an_input_that_is_not_as_its_rule_wrote_it_is_refused(
    tmp_path: Path, output: str, manifest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # paths are relative in a workflow
    file = Path("results", output)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"as written")
    Manifest(Path("results", manifest), {"rule": "merge"}, inputs=[]).write(outputs=[file], counts={})
    mine = Path("mine.tsv")
    mine.write_bytes(b"a user's own file has no manifest")
    Manifest("results/b/table.tsv.manifest.json", {"rule": "table"}, inputs=[file, mine])
    file.write_bytes(b"as Written")
    with pytest.raises(ValueError, match=rf"{file}: it was changed after .* wrote it, merge\. Delete it"):
        Manifest("results/b/table.tsv.manifest.json", {"rule": "table"}, inputs=[file, mine])


def test_a_program_ends_when_the_process_that_controls_it_is_killed(programs: Started) -> None:
    controller = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        program = programs.start("orphan", **{CONTROLLER_VARIABLE: str(controller.pid)})
        _began(program)
    finally:
        controller.kill()
        controller.wait()
    assert program.wait(30) == 128 + signal.SIGTERM
    assert not list(programs.result.parent.rglob("*"))


def test_a_program_whose_code_was_edited_since_the_workflow_started_makes_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = code_digests(root / "workflow_scripts" / "merge.py", root)
    spec = {"rule": "merge", "code": code}
    edited = {**spec, "code": {**code, "condenser.retrieve.search": "0123456789ab"}}
    monkeypatch.setenv(STARTED_VARIABLE, str(time.time_ns()))  # all code is older, no need to read it
    Manifest(tmp_path / "a.manifest.json", edited, inputs=[])
    monkeypatch.setenv(STARTED_VARIABLE, "0")
    Manifest(tmp_path / "a.manifest.json", spec, inputs=[])
    with pytest.raises(
        ValueError, match=r"condenser\.retrieve\.search: changed since this workflow was started"
    ):
        Manifest(tmp_path / "a.manifest.json", edited, inputs=[])


def test_a_manifest_tells_what_its_process_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.delenv("RANK", raising=False)
    before, held = sum(os.times()[:4]), bytearray(80 << 20)
    held[:: 1 << 12] = b"x" * len(held[:: 1 << 12])  # every page, so that it is in memory
    child = "import time\nheld = b'x' * (300 << 20)\nwhile time.process_time() < 0.5: pass"
    subprocess.run([sys.executable, "-c", child], check=True)
    path = tmp_path / "a.manifest.json"
    Manifest(path, {"rule": "table"}, inputs=[]).write(outputs=[], counts={})
    record = json.loads(path.read_text())
    assert before + 0.5 <= record["processor_s"] + 0.1  # of the process and its child
    assert record["processor_s"] <= sum(os.times()[:4]) + 0.1
    assert 300 < record["peak_memory_mb"] < 100_000
    assert record["processes"] == 4
    assert "peak_gpu_memory_mb" not in record  # no GPU was used


def test_a_manifest_of_the_same_content_in_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.manifest.json"
    Manifest(path, {"rule": "table"}, inputs=[]).write(outputs=[], counts={})
    assert read_manifest(path).spec == {"rule": "table"}
    path.write_text(json.dumps(json.loads(path.read_text())))
    with pytest.raises(ValueError, match=OTHER_BYTES):
        read_manifest(path)
