"""Runs programs as forks of this process, which has already imported PyTorch and the other packages.

    python server.py SOCKET

It imports packages only: a fork imports our own code from its checkout, which a test may have edited.
A job is killed when its client ends. The server ends when the process of the tests does, however that ends.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path

PACKAGES = (
    "torch", "torch._dynamo", "transformers", "tokenizers", "safetensors.torch", "faiss",
    "pandas", "pyarrow.compute", "pyarrow.csv", "scipy.special", "pydantic.main", "pydantic.types",
    "jaxtyping", "regex", "sentencex", "tqdm", "matplotlib.figure",
)  # fmt: skip
TESTS_VARIABLE = "FORKED_JOBS_TESTS"  # the process of the tests

Request = tuple[list[str], dict[str, str], str]
"""A program and its arguments, its environment and its folder."""


def serve(address: str) -> Request:
    """Fork for each client; returns in a fork that is to run a program."""
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(address)
    except OSError:  # two jobs began at once, and the other one's server was quicker
        sys.exit()
    listening.listen(64)
    tests = os.pidfd_open(int(os.environ[TESTS_VARIABLE]))
    for package in PACKAGES:
        importlib.import_module(package)
    gc.freeze()  # a collection in a fork would copy all of this memory
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that attend
    while tests not in select.select([listening, tests], [], [])[0]:
        client, _ = listening.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            return attend(client, tests)
        client.close()
    sys.exit()


def attend(client: socket.socket, tests: int) -> Request:
    """Fork for one client, pass on its signals and give it the status; returns in the fork."""
    size, files, _, _ = socket.recv_fds(client, 4, 3)
    request = json.loads(client.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
    number = os.fork()
    if number == 0:
        for standard, file in enumerate(files):
            os.dup2(file, standard)
        for descriptor in (*files, tests, client.detach()):
            os.close(descriptor)
        return request
    for file in files:
        os.close(file)
    job = os.pidfd_open(number)
    while job not in (ready := select.select([job, client, tests], [], [])[0]):
        sent = client.recv(1) if client in ready else b""
        os.kill(number, sent[0] if sent else signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    with contextlib.suppress(OSError):  # the client may have been killed
        client.send(status.to_bytes(2, "big", signed=True))
    os._exit(0)


def run(arguments: list[str], environment: dict[str, str], folder: str) -> None:
    """Run a program as Python does, and end this process."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    own = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:1] = [str(Path(arguments[0]).resolve().parent), *own]
    sys.argv = arguments
    status = 0
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    # Not sys.exit(), which takes all packages apart: 0.3 s.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    run(*serve(sys.argv[1]))
