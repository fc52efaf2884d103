"""Jobs that are forks (tests/forked_jobs) make what jobs that are processes make, and end as these do."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runs import forked_jobs

CLIENT = Path(__file__).parents[1] / "forked_jobs" / "client.py"


@contextmanager
def started(folder: Path, program: str, *arguments: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """The client of a fork that runs a program."""
    (folder / "program.py").write_text(program)
    with subprocess.Popen(
        [sys.executable, "-I", "-S", CLIENT, "program.py", *arguments],
        cwd=folder, env={**os.environ, **forked_jobs(), **more},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as client:  # fmt: skip
        try:
            yield client
        finally:
            client.kill()


def has_ended(number: int) -> bool:
    """Wait for the end of a process that is not ours, at most ten seconds."""
    try:
        process = os.pidfd_open(number)
    except ProcessLookupError:
        return True
    return bool(select.select([process], [], [], 10)[0])


def test_a_fork_has_the_arguments_folder_files_variables_and_code_of_its_job(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("VALUE = 7\n")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "module.py").write_text("VALUE = 8\n")
    program = (
        "import os, sys, beside, module\n"
        "print('torch' in sys.modules, 'condenser' in sys.modules, sys.argv, os.getcwd(), sys.stdin.read())\n"
        "print(beside.VALUE, module.VALUE, os.environ['CONDENSER_RUN'], __name__)\n"
        "sys.exit('error: refused')\n"
    )
    more = {"PYTHONPATH": str(tmp_path / "own"), "CONDENSER_RUN": "this one"}
    with started(tmp_path, program, "an argument", **more) as client:
        said, error = client.communicate("a line")
    assert said.splitlines() == [
        f"True False ['program.py', 'an argument'] {tmp_path} a line",
        "7 8 this one __main__",
    ]
    assert (client.returncode, error) == (1, "error: refused\n")


def test_a_fork_gets_the_signals_of_its_client_and_ends_with_it(tmp_path: Path) -> None:
    handled = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        "print(os.getpid(), flush=True)\n"
        "time.sleep(60)\n"
    )
    with started(tmp_path, handled) as client:
        assert client.stdout is not None and client.stdout.readline()
        client.terminate()
        assert client.wait(timeout=10) == 143
    with started(tmp_path, handled) as client:
        assert client.stdout is not None
        program = int(client.stdout.readline())
        client.kill()
        assert has_ended(program)
    with started(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)") as client:
        assert client.wait(timeout=60) == -signal.SIGSEGV


def test_jobs_and_server_end_when_the_process_of_the_tests_is_killed(tmp_path: Path) -> None:
    # a fork's parent attends to its client; the parent of that one is the server
    program = (
        "import os, pathlib, time\n"
        "status = pathlib.Path('/proc', str(os.getppid()), 'stat').read_text()\n"
        "print(os.getpid(), status.rpartition(')')[2].split()[1], flush=True)\n"
        "time.sleep(60)\n"
    )
    tests = subprocess.Popen(["sleep", "60"])
    with tests, started(tmp_path, program, FORKED_JOBS_TESTS=str(tests.pid)) as client:
        assert client.stdout is not None
        fork, server = map(int, client.stdout.readline().split())
        tests.kill()
        assert has_ended(fork) and has_ended(server)
