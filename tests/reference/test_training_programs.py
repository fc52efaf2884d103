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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forks import Program
from job_files import do, job_file
from small_trainings import (
    OBJECTIVES,
    OPTIMISER,
    PASSAGE_LENGTH,
    QUERY_LENGTH,
    RETRIEVER,
    Files,
    contents,
    losses,
    plain_vectors,
    prepare,
    sharpen,
    text_of,
)

from condenser.data.records import read_queries
from condenser.shards import shard_files

COMPUTE = {"threads": 1, "device": "cpu", "precision": "fp32"}
Start = Callable[..., Program]
LOOP = {"checkpoint_every_s": 3600, "checkpoints_kept": 2, "bad_loss_patience": 0}


@pytest.fixture
def start(root: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts a program, pre-training by default; kills at the end what is left."""
    started: list[Program] = []

    def start(job: dict[str, Any], rule: str = "pretrain") -> Program:
        program = str(root / "workflow_scripts" / f"{rule}.py")
        file = job_file(tmp_path / f"job-{len(started)}.json", rule, **job)
        started.append(Program([program, file], tmp_path / f"said-{len(started)}"))
        return started[-1]

    yield start
    for program in started:
        program.kill()


def _job(files: Files, folder: Path, *, objective: str = "condenser", **changes: object) -> dict[str, Any]:
    """Of a pre-training; `changes` replace its settings."""
    model = {"objective": objective, "drop_last": False, **OPTIMISER, **OBJECTIVES[objective], **changes}
    return {
        "settings": {"model": model, "compute": COMPUTE, "seed": 42},
        "input": {
            "tokens": [shard_files(prefix)[0] for prefix in files.tokens],
            "doc_ids": files.doc_ids,
            "initial": files.backbone / "model.safetensors",
        },
        "output": {
            "model": folder / "out" / "model.safetensors",
            "manifest": folder / "out.manifest.json",
        },
        "work": folder / "work",
        "options": LOOP,
    }


def wait_for(claim: Callable[[], bool], program: Program) -> None:
    """Until the claim about what a program does holds."""
    until = time.monotonic() + 60
    while not claim():
        assert program.is_alive and time.monotonic() < until, "it did not come"
        time.sleep(0.005)


def test_a_program_stopped_by_sigterm_saves_and_is_resumed_by_the_same_call(
    start: Start, tmp_path: Path
) -> None:
    files = prepare(tmp_path, dropout=0.1)
    job = _job(files, tmp_path, epochs=2)
    first = start(job)
    wait_for(lambda: any(log.stat().st_size for log in tmp_path.glob("work/*/log.jsonl")), first)
    first.send(signal.SIGTERM)
    status, told = first.ended(timeout_s=60)
    assert status == 143, told
    assert re.search(r"stopped after step \d+ of \d+", told) and "Traceback" not in told
    (saved,) = (tmp_path / "work").glob("*/step-*")
    assert not (tmp_path / "out").exists()

    status, told = start(job).ended(timeout_s=120)
    assert status == 0, told
    assert f"resuming after step {int(saved.name[5:])} of " in told
    manifest = json.loads((tmp_path / "out.manifest.json").read_text())
    assert manifest["counts"]["steps"] == len(losses(tmp_path / "out"))
    assert "out/model.safetensors" in manifest["outputs"]
    assert not list((tmp_path / "work").glob("*/step-*"))


def test_a_training_whose_backbone_was_made_again_with_other_bytes_begins_anew(
    start: Start, tmp_path: Path
) -> None:
    """Under the same spec, as by another device: nothing is mixed, and nothing to be done by hand."""
    files = prepare(tmp_path, dropout=0.1)
    for folder in ("remade", "anew"):
        (tmp_path / folder).mkdir()
    first = start({**_job(files, tmp_path / "remade"), "options": {**LOOP, "checkpoint_every_s": 0}})
    wait_for(lambda: bool(list(tmp_path.glob("remade/work/*/step-*"))), first)
    first.kill()
    sharpen(files.backbone)
    for folder in ("remade", "anew"):
        status, told = start(_job(files, tmp_path / folder)).ended(timeout_s=120)
        assert status == 0, told
        assert ("not resumed: its inputs have changed" in told) == (
            folder == "remade"
        ) and "resuming" not in told
    assert contents(tmp_path / "remade" / "out") == contents(tmp_path / "anew" / "out")


def test_a_mistake_is_one_line_and_status_1(root: Path, tmp_path: Path) -> None:
    """Started from the shell, as a rule starts it: all that Python and its libraries say is seen."""
    files = prepare(tmp_path, dropout=0.1)
    job = _job(files, tmp_path)
    job["input"]["initial"] = tmp_path / "model.safetensors"
    wrong = subprocess.run(
        [
            *(sys.executable, str(root / "workflow_scripts" / "pretrain.py")),
            job_file(tmp_path / "job.json", "pretrain", **job),
        ],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert wrong.returncode == 1
    started, error = wrong.stderr.splitlines()
    assert started.endswith("1 process, no GPU assigned") and error.startswith("error: ")


def test_queries_of_an_untied_system_are_encoded_by_their_own_encoder(tmp_path: Path) -> None:
    """Fine-tuned by `train`, encoded by `encode` and `encode_queries`, all of them or those of a subset."""
    files = prepare(tmp_path, dropout=0.1)
    recipe = {**RETRIEVER, **OPTIMISER, "tied": False, "drop_last": False, "validation": None}
    config = {"recipe": recipe, "compute": COMPUTE, "encode": {"batch_tokens": 512, "block_rows": 30}}
    system = {"kind": "biencoder", "initial": "backbone", "distillation": None, "pseudo_labels": None}

    def run(rule: str, output: str, given: dict[str, Any], **more: Any) -> None:
        name = {"train": "model", "encode": "embeddings", "encode_queries": "embeddings"}[rule]
        file = tmp_path / output
        states = {part: f"{file}.{part}" for part in ("states", "starts") if rule == "encode"}
        do(
            rule,
            settings={**config, "system": system, "seed": 42, "states_gb": 0.0},
            input={"lengths": [], "subset": [], **given},
            output={name: file, "manifest": f"{file}.manifest.json", **states},
            work=tmp_path / "work" / output,
            **{"options": {"last": tmp_path / "last"}, **more},
        )

    queries, query_tokens = tmp_path / "queries.jsonl", shard_files(tmp_path / "queries")[0]
    tokens = [shard_files(prefix)[0] for prefix in files.tokens]
    texts = {"doc_ids": files.doc_ids, "queries": queries}
    initial = files.backbone / "model.safetensors"
    learned = {
        "tokens": tokens,
        "query_tokens": query_tokens,
        "examples": [files.examples],
        "initial": initial,
        "held_out": [],
        "teacher_run": [],
    }
    run("train", "model/model.safetensors", {**texts, **learned}, options=LOOP)
    encoder = {"model": tmp_path / "model" / "model.safetensors", **texts}
    run("encode", "p.npy", {**encoder, "tokens": tokens[1]}, wildcards={"shard": "1-of-2"})
    run("encode_queries", "q.npy", {**encoder, "tokens": query_tokens})
    ids = [query.query_id for query in read_queries(queries)]
    (tmp_path / "subset.txt").write_text(f"{ids[11]}\n{ids[2]}\n")
    few = {**encoder, "tokens": query_tokens, "subset": tmp_path / "subset.txt"}
    run("encode_queries", "few.npy", few)

    of_query, of_passage = (plain_vectors(tmp_path / "model" / folder) for folder in ("query", ""))
    expected = np.stack([of_query(query.text, QUERY_LENGTH) for query in files.queries])
    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
    close(np.load(tmp_path / "q.npy"), expected)
    close(np.load(tmp_path / "few.npy"), expected[[2, 11]])
    close(np.load(tmp_path / "p.npy")[1], of_passage(text_of(files.passages[31]), PASSAGE_LENGTH))
