"""Results made in this process: the graph gives the order of the jobs, `do_job` does each.

The imports of a program take longer than most jobs of the tests. Snakemake finds such results up to date.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from graphs import Graph
from runs import TARGET
from snakemake.common.configfile import _load_configfile
from snakemake.utils import update_config

from condenser.job import do_job, read_job
from condenser.pipeline import environment


def make(
    folder: Path, *targets: str, overlays: Sequence[str] = (), base: str = "configs/tiny.yaml"
) -> set[str]:
    """Make what is missing of a checkout's files, by default its tiny table; gives the rules of the jobs."""
    graph, asked_for = graph_of(folder, overlays=overlays, base=base), targets or (TARGET,)
    jobs = graph.out_of_date(*asked_for)
    with graph.here(), mock.patch.dict(os.environ, environment.run(asked_for)):
        for name in jobs:
            rule, _ = graph.job(name)
            do_job(read_job(graph.write_job(name)), _program(folder, rule).main)
    return {graph.job(name)[0] for name in jobs}


def graph_of(folder: Path, *, overlays: Sequence[str] = (), base: str = "configs/tiny.yaml") -> Graph:
    """The graph of a checkout with its overlays, over the results in it."""
    overlay: dict[str, Any] = {}
    for file in (base, *overlays):
        update_config(overlay, _load_configfile(str(folder / file)))
    return Graph(folder, folder, overlay)


def _program(folder: Path, rule: str) -> Any:
    """The program of a rule in a checkout."""
    spec = importlib.util.spec_from_file_location(
        f"{rule}_of_tests", folder / "workflow_scripts" / f"{rule}.py"
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # where a program looks for its docstring
    spec.loader.exec_module(module)
    return module
