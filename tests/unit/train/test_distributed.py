"""Real gloo processes on this machine, started with torchrun's variables."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest
import torch
from forks import FORKS

from condenser.train.distributed import Processes, alone, joined, sum_gradients

CPU = torch.device("cpu")
TRAININGS: dict[str, tuple[str, dict[str, int]]] = {  # chunks of the first step
    "four of blocks": ("condenser", {}),
    "eight of spans": ("cocondenser", {"rows_per_chunk": 2}),
    "one, so that other processes have none": ("cocondenser", {"rows_per_chunk": 16}),
    "one of queries and three of passages": ("retriever", {}),
}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _child(work: Callable, rank: int, world_size: int, port: int, timeout_s: float, arguments: tuple) -> None:
    # local ranks turned against the ranks, as on the second machine of a run
    local_rank = (rank + 1) % world_size
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size), LOCAL_RANK=str(local_rank))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    with joined("cpu", timeout_s=timeout_s) as processes:
        work(processes, *arguments)


def start(work: Callable, world_size: int, *arguments: object, timeout_s: float = 300.0) -> list[BaseProcess]:
    port = _free_port()
    children: list[BaseProcess] = [
        FORKS.Process(target=_child, args=(work, rank, world_size, port, timeout_s, arguments))
        for rank in range(world_size)
    ]
    for child in children:
        child.start()
    return children


def run(work: Callable, world_size: int, *arguments: object) -> None:
    children = start(work, world_size, *arguments)
    for child in children:
        child.join(300)
        if child.is_alive():
            child.kill()
    assert [child.exitcode for child in children] == [0] * world_size


def _gradient(processes: Processes, training: str, folder: Path) -> np.ndarray:
    """Losses and gradient of the first step of a training, as it computes them, in float64."""
    from small_trainings import Files
    from small_trainings import training as make

    kind, changes = TRAININGS[training]
    trainable, _ = make(kind, Files(folder), folder / "out", processes=processes, **changes)
    trainable.model.double()
    figures = trainable.backward(trainable.prepare(0).content, 1.0)
    weights = list(trainable.model.parameters())
    sum_gradients(weights, processes)
    flat = [weight.grad.flatten() for weight in weights if weight.grad is not None]
    return torch.cat([*flat, torch.tensor(list(figures.values())).double()]).numpy()


def _write_gradients(processes: Processes, folder: Path) -> None:
    for training in TRAININGS:
        np.save(folder / f"{training}.{processes.rank}.npy", _gradient(processes, training, folder))


@pytest.mark.parametrize("world_size", [pytest.param(2, marks=pytest.mark.ci), 3])
def test_a_training_of_several_processes_has_the_gradient_of_one(world_size: int, tmp_path: Path) -> None:
    from small_trainings import prepare

    prepare(tmp_path, dropout=0.1)
    run(_write_gradients, world_size, tmp_path)
    for training in TRAININGS:
        expected = _gradient(alone(CPU), training, tmp_path)
        assert expected.dtype == np.float64 and np.abs(expected[:-4]).max() > 1e-2
        ours = [np.load(tmp_path / f"{training}.{rank}.npy") for rank in range(world_size)]
        for gradient in ours:
            np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-10)
        assert ours[0].tobytes() == ours[-1].tobytes()  # or the processes' weights would drift apart


def _check_collectives(processes: Processes) -> None:
    rank, size = processes.rank, processes.world_size
    assert processes.is_first == (rank == 0)
    assert processes.sum_floats([rank, 1.0, 0.1]) == pytest.approx([sum(range(size)), size, 0.1 * size])
    assert processes.any(rank == 1) and not processes.any(False)

    # process r gives r rows, the first none, in falling order of their places
    places = torch.tensor([row for row in range(sum(range(size))) if _owner(row) == rank], dtype=torch.int64)
    places = places.flip(0)
    rows = torch.stack([places * 10, places * 100], dim=1).double()
    whole = processes.gather_rows(rows, places, num_rows=sum(range(size)))
    assert whole.tolist() == [[10.0 * row, 100.0 * row] for row in range(sum(range(size)))]

    # weights: one with a gradient everywhere, one in the last process alone, one nowhere, one frozen
    weights = [torch.nn.Parameter(torch.zeros(2, 3)) for _ in range(4)]
    weights[3].requires_grad_(False)
    weights[0].grad = torch.full((2, 3), float(rank))
    if rank == size - 1:
        weights[1].grad = torch.full((2, 3), 7.0)
    sum_gradients(weights, processes)
    assert weights[0].grad.tolist() == [[float(sum(range(size)))] * 3] * 2
    assert weights[1].grad is not None and weights[1].grad.tolist() == [[7.0] * 3] * 2
    assert weights[2].grad is None and weights[3].grad is None
    processes.barrier()


def _owner(row: int) -> int:
    """Rows 0 | 1 2 | 3 4 5 ... belong to processes 1, 2, 3 ..."""
    owner = 1
    while row >= owner:
        row, owner = row - owner, owner + 1
    return owner


def test_collectives_of_processes_whose_ranks_are_not_their_local_ranks() -> None:
    run(_check_collectives, 3)


def _die_or_wait(processes: Processes, how: str) -> None:
    processes.barrier()
    if processes.rank == 1 and how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if processes.rank == 1 and how == "stuck":
        time.sleep(600)
    processes.barrier()


@pytest.mark.parametrize(("how", "timeout_s"), [("killed", 600.0), ("stuck", 3.0)])
def test_when_one_process_fails_the_others_end(how: str, timeout_s: float) -> None:
    children = start(_die_or_wait, 3, how, timeout_s=timeout_s)
    try:
        for rank in (0, 2):
            children[rank].join(240)  # a busy machine takes long to start them
            assert children[rank].exitcode not in (None, 0)
    finally:
        for child in children:
            child.kill()
            child.join(10)
