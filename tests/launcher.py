"""Starts a program as a training is started: python launcher.py PROCESSES DEVICE PROGRAM [ARGUMENT ...]."""

from __future__ import annotations

import runpy
import sys

from condenser import program
from condenser.train.launch import launch


def main() -> None:
    processes, device, *command = sys.argv[1:]
    status = launch(command, processes=int(processes), device=device)
    if status is not None:
        sys.exit(status)
    sys.argv = command
    runpy.run_path(command[0], run_name="__main__")


program.run(main)
