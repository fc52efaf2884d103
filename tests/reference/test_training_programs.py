"""The programs as a rule starts them: one line for a mistake, 143 for SIGTERM, resumed by the same call."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from forks import Program
from small_trainings import CONDENSER, OPTIMISER, Files, contents, losses, prepare, sharpen

PROGRAMS = ["pretrain_condenser", "pretrain_cocondenser", "retriever"]


@pytest.fixture
def start(root: Path, tmp_path: Path) -> Iterator[Callable[[list[str]], Program]]:
    """Starts the first pre-training; kills at the end what is left."""
    started: list[Program] = []

    def start(arguments: list[str]) -> Program:
        program = str(root / "workflow_scripts" / "pretrain_condenser.py")
        started.append(Program([program, *arguments], tmp_path / f"said-{len(started)}"))
        return started[-1]

    yield start
    for program in started:
        program.kill()


Start = Callable[[list[str]], Program]


def _condenser_arguments(files: Files, folder: Path, *, epochs: int) -> list[str]:
    machine = {"threads": 1, "device": "cpu", "precision": "fp32"}
    spec = {"config": {**OPTIMISER, **CONDENSER, **machine, "epochs": epochs}, "seed": 42}
    return [
        *("--spec", json.dumps(spec), "--tokens", *map(str, files.tokens)),
        *("--doc-ids", str(files.doc_ids), "--backbone", str(files.backbone)),
        *("--output", str(folder / "out"), "--work-folder", str(folder / "work")),
        *("--checkpoint-every-s", "3600", "--checkpoints-kept", "2", "--bad-loss-patience", "0"),
        *("--manifest", str(folder / "out.manifest.json")),
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_tells_what_is_read_and_written_without_loading_torch(root: Path, name: str) -> None:
    program = (
        f"import runpy, sys; sys.path.insert(0, {str(root)!r}); sys.argv = ['x', '--help']\n"
        f"try: runpy.run_path({str(root / 'workflow_scripts' / (name + '.py'))!r}, run_name='__main__')\n"
        "finally: assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Reads " in done.stdout and "Writes " in done.stdout and "--work-folder" in done.stdout


def test_a_program_stopped_by_sigterm_saves_and_is_resumed_by_the_same_call(
    start: Start, tmp_path: Path
) -> None:
    files = prepare(tmp_path, dropout=0.1)
    arguments = _condenser_arguments(files, tmp_path, epochs=5)
    first = start(arguments)
    work, until = tmp_path / "work", time.monotonic() + 60
    while sum(log.read_bytes().count(b"\n") for log in work.glob("*/log.jsonl")) < 2:
        assert first.is_alive and time.monotonic() < until, "no step was logged"
        time.sleep(0.005)
    first.send(signal.SIGTERM)
    status, told = first.ended(timeout_s=60)
    assert status == 143, told
    assert "to be resumed there" in told and "Traceback" not in told
    (saved,) = (tmp_path / "work").glob("*/step-*")
    assert not (tmp_path / "out").exists()

    status, told = start(arguments).ended(timeout_s=120)
    assert status == 0, told
    assert f"resuming after step {int(saved.name[5:])} of " in told
    manifest = json.loads((tmp_path / "out.manifest.json").read_text())
    assert manifest["counts"]["steps"] == len(losses(tmp_path / "out"))
    assert "out/model.safetensors" in manifest["outputs"]
    assert not list((tmp_path / "work").glob("*/step-*"))


def test_a_loss_that_is_no_number_stops_the_program_and_leaves_the_checkpoint(
    start: Start, tmp_path: Path
) -> None:
    files = prepare(tmp_path, dropout=0.1)
    arguments = _condenser_arguments(files, tmp_path, epochs=1)
    spec = json.loads(arguments[1])
    spec["config"] |= {"learning_rate": 1e30, "max_grad_norm": 0.0, "warmup_ratio": 0.0}
    arguments[1] = json.dumps(spec)
    for flag, value in (("--checkpoint-every-s", "0"), ("--bad-loss-patience", "1")):
        arguments[arguments.index(flag) + 1] = value
    status, told = start(arguments).ended(timeout_s=60)
    assert status == 1
    message = re.search(
        r"^error: \S*log\.jsonl:(\d+): expected a number for loss and gradient norm, got .* at step (\d+) "
        r"\(2 in a row\), on documents (\S+), .* \(all: bad_batch\.json beside the log\)\. "
        r"Look at these texts, or lower \w+\.$",
        told.splitlines()[-1],
    )
    assert message and int(message[1]) == int(message[2]) + 1, told
    assert told.count("error: ") == 1 and "Traceback" not in told
    (record,) = (tmp_path / "work").glob("*/bad_batch.json")
    assert json.loads(record.read_text())["documents"][0] == message[3]
    checkpoints = sorted(folder.name for folder in (tmp_path / "work").glob("*/step-*"))
    assert checkpoints[-1] == f"step-{int(message[2]):08}"
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.manifest.json").exists()


def test_a_training_whose_backbone_was_made_again_with_other_bytes_begins_anew(
    start: Start, tmp_path: Path
) -> None:
    """Under the same spec, as by another device: nothing is mixed, and nothing to be done by hand."""
    files = prepare(tmp_path, dropout=0.1)
    for folder in ("remade", "anew"):
        (tmp_path / folder).mkdir()
    arguments = _condenser_arguments(files, tmp_path / "remade", epochs=1)
    arguments[arguments.index("--checkpoint-every-s") + 1] = "0"
    first = start(arguments)
    until = time.monotonic() + 60
    while not list((tmp_path / "remade" / "work").glob("*/step-*")):
        assert first.is_alive and time.monotonic() < until, "no checkpoint came"
        time.sleep(0.005)
    first.kill()
    sharpen(files.backbone)
    for folder in ("remade", "anew"):
        arguments = _condenser_arguments(files, tmp_path / folder, epochs=1)
        status, told = start(arguments).ended(timeout_s=120)
        assert status == 0, told
        assert ("not gone on with" in told) == (folder == "remade") and "resuming" not in told
    assert contents(tmp_path / "remade" / "out") == contents(tmp_path / "anew" / "out")


def test_a_mistake_is_one_line_and_status_1(root: Path, tmp_path: Path) -> None:
    """Started from the shell, as a rule starts it: all that Python and its libraries say is seen."""
    files = prepare(tmp_path, dropout=0.1)
    arguments = _condenser_arguments(files, tmp_path, epochs=1)
    arguments[arguments.index("--backbone") + 1] = str(tmp_path)
    wrong = subprocess.run(
        [sys.executable, str(root / "workflow_scripts" / "pretrain_condenser.py"), *arguments],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("error: ") and wrong.stderr.count("\n") == 1, wrong.stderr
