"""Run a training program as one process, or as several, one for each GPU.

    python workflow_scripts/launch.py --processes 4 --device auto --stop-timeout-s 600 -- \\
        workflow_scripts/pretrain.py --spec ... --output results/msmarco/models/condenser

Reads and writes nothing itself; exit status and messages are the program's. The processes share one
batch, so their number changes the speed and not what is trained. GPUs are those in
CUDA_VISIBLE_DEVICES, else free ones of this machine. When one process dies, so do the others;
SIGTERM reaches all, which save a checkpoint and end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from condenser import program
from condenser.train.launch import launch


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--processes", type=int, required=True, help="the GPUs of the rule; 0, for none, is one process too"
    )
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], required=True)
    parser.add_argument("--stop-timeout-s", type=int, required=True, help="time to save a checkpoint")
    parser.add_argument("command", nargs="+", help="a Python program and its arguments, behind --")
    arguments = parser.parse_args(argv)
    sys.exit(
        launch(
            arguments.command,
            processes=max(1, arguments.processes),
            device=arguments.device,
            stop_timeout_s=arguments.stop_timeout_s,
        )
    )


if __name__ == "__main__":
    program.run(main)
