"""The environment in which the programs run."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from condenser.program import CLAIMS_VARIABLE, CONTROLLER_VARIABLE, STARTED_VARIABLE


def program_environment(config: Mapping[str, Any], *, root: Path, work: Path) -> dict[str, str]:
    """Variables for the rules' shell lines; `work` is the folder of work folders.

    The programs run with the interpreter that runs Snakemake, and find the package from any folder.
    Settings that change no result come this way too: as params they would make jobs run again.
    """
    downloads = config["downloads"]
    search_paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(search_paths),
        # threads that wait must not spin: with more jobs than cores a spinning one holds up the others
        "OMP_WAIT_POLICY": "PASSIVE",
        # oneDNN keeps what it compiles for every shape of a product, about a megabyte each, and masked
        # words give ever new shapes: 1,024 of them, the default, were most of a training's memory
        "LRU_CACHE_CAPACITY": "64",
        "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
        # freed blocks stay with the process: fetching them anew costs a seventh of a step in page faults
        "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
        "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
        # a program ends with the Snakemake that runs its rule, on a cluster the one of its own job
        CONTROLLER_VARIABLE: str(os.getpid()),
        STARTED_VARIABLE: str(time.time_ns()),  # code that is newer is not what the specs tell of
        CLAIMS_VARIABLE: str(work.absolute() / "claims"),
        "PROGRAMS": str(root / "workflow_scripts"),
        "SAFETY_FLAGS": " ".join(
            f"--{name.replace('_', '-')} {value}" for name, value in config["safety"].items()
        ),
        "DOWNLOAD_FLAGS": f"--retries {downloads['retries']} --timeout-s {downloads['timeout_s']}",
        "MIRROR_FLAG": f"--mirror={downloads['mirror'] or ''}",
    }
