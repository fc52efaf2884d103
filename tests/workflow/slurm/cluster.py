"""A real SLURM cluster of one node on this machine, without systemd, with two pretend GPUs.

All it has (key, sockets, configuration, state, logs) stands in one folder and its ports are free
ones, so a SLURM of the machine's own is neither used nor disturbed. Nothing outlives `one_node_cluster`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo")
DEBIAN_PACKAGES = ("slurm-wlm", "munge")

# What the node claims to have; jobs are told to use less than this machine really has.
CPUS, MEMORY_MB, GPUS = 4, 64_000, 2

MARK = "CONDENSER_TEST_CLUSTER"
"""Set in the daemons and in all their jobs, to find what is left of them."""

SLURM_CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
JobCompType=jobcomp/none
MinJobAge=3600
ReturnToService=2
SchedulerParameters=sched_interval=2,batch_sched_delay=1
PriorityType=priority/basic
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory_mb} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=cpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=gpu Nodes=ALL MaxTime=INFINITE State=UP
"""


def missing_programs() -> list[str]:
    """Those of SLURM's programs that this machine lacks."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


def install() -> str:
    """Install SLURM with apt; gives why it could not be done, or nothing."""
    if os.geteuid() != 0:
        return "not root"
    if shutil.which("apt-get") is None:
        return "no apt-get"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-q"],
        ["apt-get", "install", "-q", "-y", "--no-install-recommends", *DEBIAN_PACKAGES],
    ):
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
            return f"{' '.join(command[:2])}: {lines[-1]}"
    return ""


@contextmanager
def one_node_cluster(folder: Path) -> Iterator[dict[str, str]]:
    """A running cluster with the partitions `cpu` and `gpu`; gives the variables to reach it by.

    Raises:
        RuntimeError: a daemon does not start; the message holds the end of its log.
    """
    host = socket.gethostname().partition(".")[0]
    controller_port, node_port = _free_ports(2)
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    for index in range(GPUS):  # a character device that exists everywhere: 1, 3 is /dev/null
        os.mknod(folder / f"gpu{index}", 0o20666, os.makedev(1, 3))
    (folder / "slurm.conf").write_text(
        SLURM_CONF.format(
            host=host, folder=folder, controller_port=controller_port, node_port=node_port,
            cpus=CPUS, memory_mb=MEMORY_MB, gpus=GPUS,
        )
    )  # fmt: skip
    (folder / "gres.conf").write_text(f"NodeName={host} Name=gpu File={folder}/gpu[0-{GPUS - 1}]\n")
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)

    environment = {
        "SLURM_CONF": str(folder / "slurm.conf"),
        "PATH": f"{_srun_wrapper(folder)}:{os.environ['PATH']}",
        MARK: str(folder),
    }
    munge_files = [
        f"--{name}={folder}/munge.{suffix}"
        for name, suffix in [
            ("socket", "socket"),
            ("pid-file", "pid"),
            ("log-file", "log"),
            ("seed-file", "seed"),
        ]
    ]
    with ExitStack() as stack:
        stack.callback(_kill_strays, folder)
        # --force: for a key of the test's own, in a folder that others may enter
        _start(
            stack,
            ["munged", "--foreground", "--force", f"--key-file={key}", *munge_files],
            folder,
            environment,
        )
        _wait((folder / "munge.socket").exists, "munged's socket", folder / "munged.out")
        _start(stack, ["slurmctld", "-D", "-c", "-i"], folder, environment)
        _start(stack, ["slurmd", "-D", "-N", host], folder, environment)
        _wait(
            lambda: "idle" in _output(["sinfo", "-h", "-o", "%t"], environment),
            "an idle node",
            folder / "slurmd.out",
        )
        stack.callback(_cancel_jobs, environment)
        yield environment


def _srun_wrapper(folder: Path) -> Path:
    """A folder with an srun that finds the cluster: in a job, Snakemake's plugin removes SLURM_CONF."""
    (folder / "bin").mkdir()
    srun = folder / "bin" / "srun"
    srun.write_text(f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {shutil.which("srun")} "$@"\n')
    srun.chmod(0o755)
    return srun.parent


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def _start(stack: ExitStack, command: list[str], folder: Path, environment: dict[str, str]) -> None:
    with (folder / f"{command[0]}.out").open("wb") as out:
        daemon = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=out, stderr=subprocess.STDOUT
        )
    stack.callback(_stop, daemon)


def _stop(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    try:
        daemon.wait(15)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _output(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout


def _wait(claim: object, what: str, log: Path) -> None:
    assert callable(claim)
    deadline = time.monotonic() + 60
    while not claim():
        if time.monotonic() > deadline:
            tail = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"SLURM: waited 60 s in vain for {what}:\n{tail}")
        time.sleep(0.2)


def _cancel_jobs(environment: dict[str, str]) -> None:
    _output(["scancel", "--full", "--user=root"], environment)
    deadline = time.monotonic() + 15
    while _output(["squeue", "-h"], environment).strip() and time.monotonic() < deadline:
        time.sleep(0.5)


def processes_of(folder: Path) -> list[int]:
    """The ids of the processes that belong to the cluster in this folder: daemons and jobs."""
    mark = f"{MARK}={folder}".encode()
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
    return found


def _kill_strays(folder: Path) -> None:
    deadline = time.monotonic() + 15
    while (pids := processes_of(folder)) and time.monotonic() < deadline:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)
