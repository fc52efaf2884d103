"""Real processes, started as a training starts them."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from forks import Program

# A program like the workflow's own. Steps of a fifth of a second; `what` says how it ends.
PROGRAM = """
import os, sys, time
from pathlib import Path
import torch
from condenser import program
from condenser.train.distributed import joined, sum_gradients
from condenser.settings import Optimiser, partly
from condenser.train.loop import Batch, Run, Trainable, train

def main():
    what, folder, num_steps = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    with joined("cpu", timeout_s=60) as processes:
        (folder / f"{processes.rank}.pid").write_text(str(os.getpid()))
        if what == "fail" and processes.rank == 1:
            raise ValueError("qrels.tsv:17: expected 4 columns, got 3.")
        model = torch.nn.Linear(1, 1)
        def backward(content, scale):
            time.sleep(0.2)
            model(torch.ones(1, 1)).sum().backward()
            return {"loss": processes.sum_floats([processes.rank + 1.0])[0]}
        run = Run(
            partly(Optimiser, {"learning_rate": 0.1, "weight_decay": 0.0, "warmup_ratio": 0.0,
                               "max_grad_norm": 0.0, "batch_size": 1, "drop_last": False,
                               "epochs": None, "updates": num_steps}),
            42, "fp32", processes, "test", folder,
            checkpoint_every_s=1000, checkpoints_kept=1, bad_loss_patience=0,
        )
        batches = lambda step: Batch(None, 0, 1, 1, dict, 1)
        train(Trainable("test", model, 1, batches, backward, save=print, counts={}), run)

program.run(main)
"""

# A program that needs no torch: it says what it sees, in one write, so that two processes on one pipe
# cannot mix their words.
SIGHT = """
import os
sight = f'{os.getppid()} {os.environ.get("WORLD_SIZE")} {os.environ.get("CUDA_VISIBLE_DEVICES")}'
os.write(1, f"{sight}\\n".encode())
"""


def sights(root: Path, folder: Path, *, processes: int, device: str, **environment: str) -> list[list[str]]:
    """What each process of SIGHT sees that the launcher, a child of this process, starts."""
    (folder / "program.py").write_text(SIGHT)
    launcher = [sys.executable, str(root / "tests" / "launcher.py"), str(processes), device]
    inherited = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    done = subprocess.run(
        [*launcher, str(folder / "program.py")],
        env={**inherited, "PYTHONPATH": str(root), **environment},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    return [line.split() for line in done.stdout.splitlines()]


@pytest.fixture
def train(tmp_path: Path, root: Path) -> Iterator[Callable[[str, int], Program]]:
    """Starts the launcher, itself forked, on two processes of PROGRAM; kills at the end what is left."""
    started: list[Program] = []

    def train(what: str, num_steps: int) -> Program:
        program = tmp_path / "program.py"
        program.write_text(PROGRAM)
        launcher = [str(root / "tests" / "launcher.py"), "2", "cpu"]
        command = [*launcher, str(program), what, str(tmp_path), str(num_steps)]
        started.append(Program(command, tmp_path / f"said-{len(started)}", PYTHONPATH=str(root)))
        return started[-1]

    yield train
    for launcher in started:
        launcher.kill()


Train = Callable[[str, int], Program]


def wait_for(claim: Callable[[], bool], *, timeout_s: float) -> float:
    """Wait until the claim holds; gives the seconds it took."""
    began = time.monotonic()
    while not claim():
        assert time.monotonic() - began < timeout_s, "waited in vain"
        time.sleep(0.05)
    return time.monotonic() - began


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def training_pids(folder: Path, count: int) -> list[int]:
    """The ids of the processes, once the first step is done."""
    log = folder / "log.jsonl"
    wait_for(lambda: log.is_file() and log.stat().st_size > 0, timeout_s=60)
    return [int((folder / f"{rank}.pid").read_text()) for rank in range(count)]


def test_one_process_is_the_program_itself_and_not_a_child(root: Path, tmp_path: Path) -> None:
    assert sights(root, tmp_path, processes=1, device="cpu") == [[str(os.getpid()), "None", "None"]]


@pytest.mark.ci
def test_when_a_process_is_killed_all_end_within_a_minute_and_none_is_left(
    train: Train, tmp_path: Path
) -> None:
    launcher = train("train", 10_000)
    pids = training_pids(tmp_path, 2)
    os.kill(pids[1], signal.SIGKILL)
    status, said = launcher.ended(timeout_s=60)
    assert status == 128 + signal.SIGKILL
    assert "process 1 of 2 was the first to fail" in said
    assert not any(map(is_alive, pids))


@pytest.mark.ci
def test_sigterm_lets_all_processes_save_and_the_next_start_resumes(train: Train, tmp_path: Path) -> None:
    launcher = train("train", 30)
    pids = training_pids(tmp_path, 2)
    launcher.send(signal.SIGTERM)
    status, said = launcher.ended(timeout_s=60)
    assert status == 128 + signal.SIGTERM
    assert not any(map(is_alive, pids))
    stopped_after = re.search(r"stopped after step (\d+) of 30", said)
    assert stopped_after

    status, said = train("train", int(stopped_after[1]) + 1).ended(timeout_s=60)
    assert status == 0, said
    assert f"resuming after step {stopped_after[1]} of" in said
    losses = re.findall(r'"loss":(\S+?),', (tmp_path / "log.jsonl").read_text())
    assert losses == ["3.0"] * (int(stopped_after[1]) + 1)  # 1 + 2: both processes, every step once


@pytest.mark.ci
def test_the_processes_end_when_their_launcher_is_killed(train: Train, tmp_path: Path) -> None:
    launcher = train("train", 10_000)
    pids = training_pids(tmp_path, 2)
    launcher.kill()
    wait_for(lambda: not any(map(is_alive, pids)), timeout_s=60)


def listening(pids: Iterable[int]) -> set[str]:
    """The addresses at which these processes wait for connections, in Linux's hexadecimal, with the port."""
    inodes = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                inodes.add(str(descriptor.readlink()))
    addresses = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, address, _, state, *rest = line.split()
            if state == "0A" and f"socket:[{rest[5]}]" in inodes:  # LISTEN
                addresses.add(address)
    return addresses


THIS_MACHINE = ("0100007F:", "0000000000000000FFFF00000100007F:", "00000000000000000000000001000000:")


def family(pid: int) -> set[int]:
    """A process and all that it started."""
    children = {
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    }
    return {pid}.union(*map(family, children))


@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nobody_reaches_the_processes_of_a_launch_from_another_machine(train: Train, tmp_path: Path) -> None:
    """A store that listens would read whatever it is sent, pickles too."""
    launcher = train("train", 10_000)
    training_pids(tmp_path, 2)
    with socket.create_server(("", 0)) as everywhere:
        port = f"{everywhere.getsockname()[1]:04X}"
        assert listening([os.getpid()]) >= {f"00000000:{port}"}  # the test can see such a socket
    addresses = listening(family(launcher.pid))
    assert not [address for address in addresses if not address.startswith(THIS_MACHINE)]
    folder = re.search(
        rb"CONDENSER_GROUP_FILE=([^\0]+)", Path(f"/proc/{training_pids(tmp_path, 2)[0]}/environ").read_bytes()
    )
    assert folder and stat.S_IMODE(Path(os.fsdecode(folder[1])).parent.stat().st_mode) == 0o700


def test_an_error_in_one_process_is_reported_without_a_traceback(train: Train) -> None:
    status, said = train("fail", 10_000).ended(timeout_s=60)
    assert status == 1
    assert said.count("error: qrels.tsv:17: expected 4 columns, got 3.") == 1
    assert "Traceback" not in said


@pytest.mark.ci  # quicker: tests/unit/model/test_devices.py
def test_processes_see_the_free_gpus_when_none_is_assigned(root: Path, tmp_path: Path) -> None:
    """Of two GPUs, the first of them in use."""
    busy, idle = (f"GPU-{name}-{os.getpid()}" for name in ("busy", "idle"))
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\nprintf '{busy}, 900\\n{idle}, 3\\n'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CONDENSER_GPU_LOCKS": str(tmp_path)}
    seen = sights(root, tmp_path, processes=2, device="auto", **environment)
    assert {(size, gpus) for _, size, gpus in seen} == {("2", f"{idle},{busy}")}
