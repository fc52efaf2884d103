"""The `python` of a workflow's jobs in the tests: a fork of server.py runs the program.

    python -I -S client.py PROGRAM [ARGUMENT ...]

It needs 30 ms of processor time, and ends with the status or by the signal with which the program ends.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import zlib
from pathlib import Path

FOLDER_VARIABLE = "FORKED_JOBS_FOLDER"  # that of the sockets
OF_ONE_JOB = ("PATH", "PYTHONPATH", "PWD", "OLDPWD", "SHLVL", "_", "PYTEST_CURRENT_TEST")
START_TIMEOUT_S = 60


def main() -> None:
    if not sys.argv[1].endswith(".py"):
        os.execvp("python", ["python", *sys.argv[1:]])
    connection = connect()
    signals = (signal.SIGTERM, signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # until the whole request has been sent
    for number in signals:
        signal.signal(number, lambda number, _: connection.send(bytes([number])))
    request = json.dumps([sys.argv[1:], dict(os.environ), str(Path.cwd())]).encode()
    socket.send_fds(connection, [len(request).to_bytes(4, "big")], [0, 1, 2])
    connection.sendall(request)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    answer = connection.recv(2)
    if not answer:
        sys.exit("the server of forked jobs ended before the job")
    status = int.from_bytes(answer, "big", signed=True)
    if status < 0:  # a signal ended the job
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


def connect() -> socket.socket:
    """Connect to the server that was started with the variables of this job; where there is none, start it.

    A package may read any variable when it is imported, but those `OF_ONE_JOB` and our own.
    """
    read = sorted(
        (name, value)
        for name, value in os.environ.items()
        if name not in OF_ONE_JOB and not name.startswith("CONDENSER_")
    )
    address = f"{os.environ[FOLDER_VARIABLE]}/{zlib.crc32(repr(read).encode()):08x}"
    connection = socket.socket(socket.AF_UNIX)
    start_s = None
    while connection.connect_ex(address) != 0:
        if start_s is None:
            start_s = time.monotonic()
            start_server(address)
        if time.monotonic() - start_s > START_TIMEOUT_S:
            sys.exit(f"the server of forked jobs did not start: see {address}.log")
        time.sleep(0.02)
    return connection


def start_server(address: str) -> None:
    """Start a server that outlives this process; where another one has the address, it ends at once."""
    with Path(f"{address}.log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, Path(__file__).with_name("server.py"), address],
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, cwd="/", start_new_session=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
