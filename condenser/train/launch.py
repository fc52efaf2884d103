"""Start a training as one process, or as several with one GPU each that start and end together.

The number of processes changes the speed of a training but not its batch (condenser.train.distributed),
so it is a resource of the rule and not part of the spec.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from condenser.program import bound

log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 600  # to save a checkpoint of the largest BERT


def launch(command: Sequence[str], *, processes: int, device: str) -> int | None:
    """Run a Python program with its arguments as `processes` processes; gives its exit status.

    One process is this one, which should go on: the status is None. Several processes are started by
    torchrun's agent, on this machine. Process i uses GPU i of those that a scheduler assigned
    (CUDA_VISIBLE_DEVICES), else of the free GPUs, which are claimed. With `device` "cpu" none is claimed.

    If a process fails, the others get SIGTERM and, 30 s later, SIGKILL. SIGTERM and Ctrl-C are passed
    on, and the processes have `STOP_TIMEOUT_S` to save a checkpoint. If this process is killed,
    they get SIGTERM.

    The status is that of the process that failed first, or 128 + signal if a signal ended it or all.

    Raises:
        ValueError: too few GPUs are free.
    """
    if processes == 1:
        log.info("1 process, %s", _assigned_gpus())
        return None

    from condenser.model.devices import claim_visible_gpus

    if device != "cpu":
        claim_visible_gpus(count=processes)
    log.info("%d processes, %s", processes, _assigned_gpus())
    return _run_agent(command, processes=processes)


def _run_agent(command: Sequence[str], *, processes: int) -> int:
    # imported here, because most jobs are one process and start a second faster without it
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from condenser.train.distributed import GROUP_FILE_VARIABLE

    # the agent logs a traceback of its own when a process fails; the process's own message is enough
    agent_log = logging.getLogger("torch.distributed")
    agent_log.handlers[:] = [logging.NullHandler()]
    agent_log.propagate = False

    # all processes are on this machine, so no other one needs to be heard, nor this one's name looked up
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    # The agent reads pickles from its store, and a TCPStore listens to whoever reaches this machine. So the
    # store is a file in a folder that is closed to others, and the
    # agent starts no TCPStore for its processes either.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    worker = bound([sys.executable, *command], number=signal.SIGTERM)
    with tempfile.TemporaryDirectory(prefix="condenser-launch-") as folder:
        os.environ[GROUP_FILE_VARIABLE] = str(Path(folder, "group"))
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=processes,
            run_id=f"condenser-{os.getpid()}",
            rdzv_backend="c10d",
            rdzv_endpoint=str(Path(folder, "agent")),
            rdzv_configs={"store_type": "file"},
            local_addr="127.0.0.1",  # a compute node's own name may not resolve
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(log_dir=folder),
            shutdown_timeout=STOP_TIMEOUT_S,
        )
        try:
            elastic_launch(config, worker[0])(*worker[1:])
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            status = failure.exitcode if failure.exitcode > 0 else 128 - failure.exitcode
            log.error("process %d of %d was the first to fail, with status %d", rank, processes, status)
            return status
        except SignalException as error:
            return 128 + int(error.sigval)
    return 0


def _assigned_gpus() -> str:
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "no GPU assigned" if gpus is None else f"GPU {gpus or 'none'}"
