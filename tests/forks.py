"""New processes in which torch and the package are already imported.

They are forked from a server that imports all of it once for each process of the tests: an import of
PyTorch and of transformers takes seconds, and most of what runs in these processes takes less.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
from pathlib import Path

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "condenser.train.pretrain",
        "condenser.train.finetune",
        "condenser.train.loop",
        "condenser.retrieve.encode",
        "condenser.retrieve.search",
        "condenser.retrieve.bm25",
        "condenser.model.vocabulary",
        "condenser.evaluate.metrics",
        "condenser.evaluate.tables",
        "condenser.data.sources.beir",
        "transformers.models.bert.modeling_bert",
        "pytest",  # test modules, which hold the functions to run, import it
    ]
)


class Program:
    """A program of workflow_scripts, started in a forked process; what it says goes to a file."""

    def __init__(self, arguments: list[str], said: Path, **environment: str) -> None:
        """`arguments`: the program and its arguments; `environment`: variables besides those there are."""
        self._said = said
        self._process = FORKS.Process(target=_become, args=(arguments, said, environment))
        self._process.start()

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.is_alive()

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process.pid is not None
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def ended(self, *, timeout_s: float) -> tuple[int, str]:
        """Wait for the end, no longer than `timeout_s`; gives exit status and all it said."""
        self._process.join(timeout_s)
        status = self._process.exitcode
        assert status is not None, f"still runs:\n{self._said.read_text()}"
        return status, self._said.read_text()

    def kill(self) -> None:
        """End it at once, if it still runs."""
        self._process.kill()
        self._process.join()


def _become(arguments: list[str], said: Path, environment: dict[str, str]) -> None:
    """In the new process: run the program."""
    os.environ.update(environment)
    with said.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")
