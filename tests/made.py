"""Results made in this process: the graph gives the order of the jobs, `do_job` does each.

The imports of a program take longer than most jobs of the tests. Snakemake finds such results up to date.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphs import Graph
from runs import TARGET
from snakemake.common.configfile import _load_configfile
from snakemake.utils import update_config

from condenser.job import do_job, read_job
from condenser.settings import Settings

READ = "settings_read.json"  # by rule, the settings that its jobs read


def make(
    folder: Path, *targets: str, overlays: Sequence[str] = (), base: str = "configs/tiny.yaml"
) -> set[str]:
    """Make what is missing of a checkout's files, by default its tiny table; gives the rules of the jobs."""
    graph, asked_for = graph_of(folder, overlays=overlays, base=base), targets or (TARGET,)
    jobs = graph.out_of_date(*asked_for)
    before = json.loads((folder / READ).read_text()) if (folder / READ).exists() else {}
    read = {rule: set(names) for rule, names in before.items()}
    with graph.here():
        for name in jobs:
            rule, _ = graph.job(name)
            job = read_job(graph.write_job(name))
            job.settings = _watched(job.settings, read.setdefault(rule, set()))
            do_job(job, _program(folder, rule).main)
    (folder / READ).write_text(json.dumps({rule: sorted(names) for rule, names in read.items()}))
    return {graph.job(name)[0] for name in jobs}


def _watched(settings: Settings, read: set[str]) -> Settings:
    """The same settings, which note the names that are read of them."""

    class Watched(Settings):
        def __getattribute__(self, name: str) -> Any:
            read.add(name)
            return super().__getattribute__(name)

    return Watched(**vars(settings))


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
