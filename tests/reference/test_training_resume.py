"""A training killed without warning, or run by several processes, ends as one that had its peace."""

from __future__ import annotations

import os
import socket
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from forks import FORKS
from small_trainings import Files, contents, losses, prepare, train

from condenser.train.distributed import joined

KINDS = ["condenser", "cocondenser", "retriever", "untied", "late", "distilled", "crossencoder"]
NUM_EPOCHS = 2
LATER_THAN = {"condenser": 1, "cocondenser": 3, "terms": 2, **dict.fromkeys(KINDS[2:], 5)}  # steps


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return prepare(tmp_path_factory.mktemp("resume"), dropout=0.1)


def _run_saving_every_step(kind: str, files: Files, output: Path) -> None:
    train(kind, files, output, epochs=NUM_EPOCHS, checkpoint_every_s=0)


def _run_beside_others(rank: int, world_size: int, port: int, files: Files, outputs: dict[str, Path]) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size), LOCAL_RANK=str(rank))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    with joined("cpu", timeout_s=60) as processes:
        for kind, output in outputs.items():
            train(kind, files, output, processes=processes)


def _kill_after_a_step_beyond(step: int, work_folder: Path, child: BaseProcess) -> None:
    """SIGKILL as soon as a checkpoint of a later step is there."""
    until = time.monotonic() + 60
    while not any(int(folder.name[5:]) > step for folder in work_folder.glob("step-*")):
        assert child.is_alive() and time.monotonic() < until, "no checkpoint came"
        time.sleep(0.002)
    child.kill()
    child.join()


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        *(pytest.param(kind, step, marks=pytest.mark.ci) for kind, step in LATER_THAN.items()),
        ("inference", 2),  # its classifier is in no model, but in the checkpoints
    ],
)
def test_a_training_killed_and_resumed_gives_the_same_bytes(
    files: Files, tmp_path: Path, kind: str, step: int
) -> None:
    train(kind, files, tmp_path / "whole", epochs=NUM_EPOCHS)
    child = FORKS.Process(target=_run_saving_every_step, args=(kind, files, tmp_path / "out"))
    child.start()
    _kill_after_a_step_beyond(step, tmp_path / "out-work", child)
    assert not (tmp_path / "out").exists()
    train(kind, files, tmp_path / "out", epochs=NUM_EPOCHS)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.ci  # quicker: tests/unit/train/test_distributed.py
@pytest.mark.parametrize("world_size", [2, 3])
def test_several_processes_give_the_losses_of_one(files: Files, tmp_path: Path, world_size: int) -> None:
    """Float32 sums in another order: they agree to a thousandth, to which the weights of each step count."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    several = {kind: tmp_path / f"{kind}-several" for kind in KINDS}
    children = [
        FORKS.Process(target=_run_beside_others, args=(rank, world_size, port, files, several))
        for rank in range(world_size)
    ]
    for child in children:
        child.start()
    one = {kind: tmp_path / f"{kind}-one" for kind in KINDS}
    for kind, output in one.items():
        train(kind, files, output)
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    for kind in KINDS:
        ours, theirs = losses(one[kind]), losses(several[kind])
        assert [record["tokens"] for record in ours] == [record["tokens"] for record in theirs]
        for name in ("loss", "grad_norm"):
            assert [record[name] for record in ours] == pytest.approx(
                [record[name] for record in theirs], rel=1e-3
            )
