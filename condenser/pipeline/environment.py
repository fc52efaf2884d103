"""The environment in which the programs run."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from condenser.manifest import STARTED_VARIABLE
from condenser.program import CONTROLLER_VARIABLE

SPEED = {
    # threads that wait must not spin: with more jobs than cores a spinning one holds up the others
    "OMP_WAIT_POLICY": "PASSIVE",
    # oneDNN keeps what it compiles for every shape of a product, about a megabyte each, and masked
    # words give ever new shapes: 1,024 of them, the default, were most of a training's memory
    "LRU_CACHE_CAPACITY": "256",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "256",
    # freed blocks stay with the process: fetching them anew costs a seventh of a step in page faults
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
    # in pages of 2 MB, where the system has them: a training step takes 3 to 5 % less time
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
"""Variables that libraries read when a process starts. They make programs faster and change no result."""


def program_environment(*, root: Path, work: Path) -> dict[str, str]:
    """Variables for the programs; `work` is the folder of work folders. None changes a result.

    The programs run with the interpreter that runs Snakemake, and find the package from any folder.
    """
    search_paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(search_paths),
        **SPEED,
        # a program ends with the Snakemake that runs its rule; on a cluster that is the one of its own job
        CONTROLLER_VARIABLE: str(os.getpid()),
        STARTED_VARIABLE: str(time.time_ns()),  # code edited after it no longer matches the specs
    }
