"""The graph of a configuration, loaded in this process: no job runs, and no Snakemake is started.

Loading takes some 60 ms, a dry run of Snakemake two seconds: so a test can ask about every key.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from snakemake.api import DeploymentSettings, ResourceSettings, StorageSettings  # before snakemake.workflow
from snakemake.common.configfile import _load_configfile
from snakemake.iocontainers import Wildcards
from snakemake.parser import parse
from snakemake.settings.types import ConfigSettings, GroupSettings, OutputSettings, WorkflowSettings
from snakemake.workflow import Workflow
from snakemake_interface_executor_plugins.settings import ExecMode

from condenser.nouns import Config
from condenser.pipeline import costs
from condenser.pipeline.command_line import check_overlay
from condenser.pipeline.freshness import Freshness
from condenser.pipeline.remembered import Remembered
from condenser.pipeline.specs import Job
from condenser.settings import plain

Overlay = Mapping[str, Any]
Load = Callable[..., "Graph"]


_PARSED: dict[tuple[str, int, int], tuple[str, int, dict[int, int]]] = {}
_CONFIGURATIONS: dict[tuple[str, int], dict[str, Any]] = {}
_CHECKED: set[tuple[Path, int] | None] = set()


def _parse_once(file: Any, workflow: Workflow, *, linemap: dict[int, int], rulecount: int) -> tuple[str, int]:
    """What Snakemake makes of a file of rules; half the time of loading, so each text is parsed once."""
    path = file.get_path_or_uri(secret_free=False)
    key = (path, Path(path).stat().st_mtime_ns, rulecount)
    if key not in _PARSED:
        lines: dict[int, int] = {}
        _PARSED[key] = (*parse(file, workflow, linemap=lines, rulecount=rulecount), lines)
    code, count, lines = _PARSED[key]
    linemap |= lines
    return code, count


def _read_once(path: str | Path) -> dict[str, Any]:
    """What a configuration file holds; most of what is left of the time, so each is read once."""
    file = Path(path).resolve()
    key = (str(file), file.stat().st_mtime_ns)
    if key not in _CONFIGURATIONS:
        _CONFIGURATIONS[key] = _load_configfile(path)
    return copy.deepcopy(_CONFIGURATIONS[key])


_REMEMBERED = Remembered(None)  # makes digests of code once a process
_compile_once = functools.cache(compile)


def _check_once(file: Path) -> None:
    """Refuse a configuration file that is not one, as Snakemake's command line does."""
    state = (file.resolve(), file.stat().st_mtime_ns) if file.exists() else None
    if state not in _CHECKED:
        check_overlay(file)
        _CHECKED.add(state)


class Graph:
    """The jobs of one configuration.

    A job is written as its rule and the values of its wildcards, such as
    `"encode tiny condenser-round1 seed42 0-of-2"`.
    """

    def __init__(
        self,
        root: Path,
        folder: Path,
        overlay: Overlay,
        *,
        configfile: Path | None = None,
        replace: bool = False,
    ) -> None:
        """
        Args:
            root: the folder of the Snakefile.
            folder: where Snakemake would be started: with `config.yaml`, and perhaps with results.
            overlay: as with `--config`; it wins over `configfile`, as with `--configfile`.
            replace: take nothing from `config.yaml`.

        Raises:
            SystemExit: the configuration is refused; its code is the line that says why.
        """
        self.root, self._folder = root, folder
        with self.here(), _process_unchanged():
            workflow = Workflow(
                config_settings=ConfigSettings(
                    config=copy.deepcopy(overlay),
                    configfiles=[configfile] if configfile else [],
                    replace_workflow_config=replace,
                ),
                resource_settings=ResourceSettings(cores=1),
                workflow_settings=WorkflowSettings(exec_mode=ExecMode.SUBPROCESS),  # takes no lock
                logger_manager=mock.Mock(),  # onstart asks it for the name of a log
                storage_settings=StorageSettings(),
                deployment_settings=DeploymentSettings(),
                group_settings=GroupSettings(),
                output_settings=OutputSettings(),
            )
            # all workflows of a process share their globals otherwise, and each keeps the rules of the last
            own = workflow.vanilla_globals
            own["rules"] = workflow.modifier.rule_proxies
            workflow.modifier_stack[0].globals = own
            own["config"] = copy.deepcopy(workflow.config_settings.overwrite_config)
            include = workflow.include

            def include_unless_it_patches_snakemake(file: str, **options: Any) -> None:
                if not str(file).endswith("rules/snakemake.smk"):
                    include(file, **options)

            workflow.include = include_unless_it_patches_snakemake
            try:
                with (
                    mock.patch("snakemake.workflow.parse", _parse_once),
                    mock.patch("snakemake.common.configfile._load_configfile", _read_once),
                    mock.patch("condenser.pipeline.command_line.check_overlay", _check_once),
                    mock.patch("snakemake.workflow.compile", _compile_once, create=True),
                ):
                    include(str(root / "Snakefile"), overwrite_default_target=True)
            finally:
                workflow.tear_down()
                workflow.sourcecache.runtime_cache.cleanup()
        self.settings: Config = own["config"]
        self.config: dict[str, Any] = plain(own["config"])
        self._default = workflow.get_rule(workflow.default_target)
        self._get_rule = workflow.get_rule
        self._rule_of = own["rule_of"]
        self._specs = own["SPECS"]
        self._specs._remembered = _REMEMBERED
        self._inputs_of = self._specs.inputs = _once(own["inputs_of"])
        self._owner_of, self._manifest_of = own["owner_of"], own["manifest_of"]
        self.wildcards: dict[str, Job] = {}

    def here(self) -> contextlib.AbstractContextManager[None]:
        """Work in the folder."""
        return contextlib.chdir(self._folder)

    def default_targets(self) -> list[str]:
        """What is made without a target."""
        return [str(file) for file in self._default.expand_input({})[0]]

    def inputs_of_rule(self, name: str) -> list[str]:
        """The inputs of a rule without wildcards, such as `prefetch`."""
        with self.here():
            return [str(file) for file in self._get_rule(name).expand_input({})[0]]

    def planned_jobs(self, dataset: str, table: str) -> list[costs.Job]:
        """The jobs behind a table, as a plan sees them before any has run."""
        with self.here():
            names = self._specs.jobs_behind("table", {"dataset": dataset, "table": table})
            return costs.jobs_of(names, self._specs)

    def plan(self, dataset: str, table: str, machine: str = "H200") -> list[dict[str, Any]]:
        """The rows of the plan of a table before any of its jobs has run."""
        with self.here():
            return costs.plan_of(self.planned_jobs(dataset, table), dataset, machine)

    def write_known(self) -> Path:
        """Write what can be asked as the rule `ask` does; gives the file."""
        with self.here():
            return self._folder / self._get_rule("ask").params.known(None)

    def known(self) -> dict[str, Any]:
        """What can be asked."""
        return json.loads(self.write_known().read_text())["datasets"]

    def job(self, name: str) -> Job:
        """A job that `jobs` gave, as its rule and wildcards."""
        return self.wildcards[name]

    def jobs(self, *targets: str) -> list[str]:
        """The jobs that make files, and all that they need; what is needed stands before."""
        with self.here():
            owners = {target: self._owner_of(target) for target in targets}
            if missing := [target for target, owner in owners.items() if owner is None]:
                raise AssertionError(f"nothing makes {missing}")
            found = {_written(job): job for job in self._specs.jobs_behind_all(owners.values())}
        self.wildcards |= found
        return list(found)

    def parents(self, name: str) -> set[str]:
        """The jobs that make the inputs of a job."""
        with self.here():
            return {_written(job) for job in self._specs.needs(*self.job(name))}

    def owner(self, file: str) -> str | None:
        """The job that makes a file."""
        owner = self._owner_of(file)
        return None if owner is None else _written(owner)

    def manifest(self, rule: str, wildcards: dict[str, str]) -> str:
        """Where a job writes its manifest."""
        return self._manifest_of(rule, wildcards)

    def inputs(self, name: str) -> list[str]:
        """The input files of a job."""
        with self.here():
            return self._inputs_of(*self.job(name))

    def outputs(self, name: str) -> list[str]:
        """The files that the rule of a job declares, its manifest among them."""
        with self.here():
            rule, wildcards = self.job(name)
            return [str(file) for file in self._rule_of(rule, wildcards).expand_output(wildcards)[0]]

    def write_job(self, name: str) -> Path:
        """Write the file of a job as Snakemake does before it starts the program; gives the file."""
        rule, wildcards = self.job(name)
        declared = self._rule_of(rule, wildcards)
        for log in declared.expand_log(wildcards):
            Path(log).parent.mkdir(parents=True, exist_ok=True)
        threads = {"threads": 1, "resources": SimpleNamespace(mem_mb=2000, gpu=0)}
        command = declared.params.job(
            Wildcards(fromdict=wildcards),
            declared.expand_input(wildcards)[0],
            declared.expand_output(wildcards)[0],
            **threads,
        )
        return Path(command.split()[-1])

    def spec(self, name: str) -> dict[str, Any]:
        """The spec of a job."""
        with self.here():
            return self._specs.spec(*self.job(name))

    def hashes(self, *targets: str) -> dict[str, str]:
        """The hash of the spec of each job behind files."""
        jobs = self.jobs(*targets)
        with self.here():
            return {name: self._specs.hash(*self.wildcards[name]) for name in jobs}

    def below(self, patterns: set[str], *targets: str) -> set[str]:
        """The jobs behind files that match one of the patterns, and all that are made from them."""
        found: set[str] = set()
        for name in self.jobs(*targets):  # parents come first
            if any(fnmatchcase(name, pattern) for pattern in patterns) or self.parents(name) & found:
                found.add(name)
        return found

    def out_of_date(self, *targets: str) -> dict[str, list[str]]:
        """Why each job behind files would run now, by job; from the manifests that lie in the folder."""
        freshness, found = Freshness(), {}
        for name in self.jobs(*targets):
            spec = self.spec(name)
            with self.here():
                manifest = Path(self._manifest_of(*self.job(name)))
                outputs = [file for file in self.outputs(name) if file != str(manifest)]
                if manifest.exists() or any(Path(file).exists() for file in outputs):
                    reasons = freshness.changes(manifest, outputs, spec)
                else:
                    reasons = ["missing"]
            if reasons:
                found[name] = reasons
        return found


@contextlib.contextmanager
def _process_unchanged() -> Iterator[None]:
    """Loading the Snakefile leaves no trace in this process."""
    environment, path, threshold = dict(os.environ), list(sys.path), gc.get_threshold()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:] = path
        gc.set_threshold(*threshold)


def _once(
    inputs_of: Callable[[str, dict[str, str]], list[str]],
) -> Callable[[str, dict[str, str]], list[str]]:
    """The same function, which asks the rules once for each job."""
    known: dict[str, list[str]] = {}

    def inputs(rule: str, wildcards: dict[str, str]) -> list[str]:
        name = _written((rule, wildcards))
        if name not in known:
            known[name] = inputs_of(rule, wildcards)
        return known[name]

    return inputs


def _written(job: Job) -> str:
    rule, wildcards = job
    order = ["dataset", "model", "system", "table", "variant", "split", "shard"]
    names = sorted(wildcards, key=lambda name: order.index(name) if name in order else len(order))
    return " ".join([rule, *(wildcards[name] for name in names)])


def refusal(call: Callable[[], Any]) -> str:
    """The one line in which a configuration or a target is refused."""
    with pytest.raises(SystemExit) as ended:
        call()
    said = str(ended.value.code)
    assert said.startswith("error: ") and "\n" not in said
    return said


def rules(jobs: Mapping[str, Any] | set[str]) -> set[str]:
    """The rules of jobs."""
    return {job.split()[0] for job in jobs}


def rerun(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    """The jobs that must run after an edit, from the hashes of two graphs."""
    return {name for name in after if before.get(name) != after[name]}
