"""The spec of a job: everything its result depends on, and nothing else.

A spec holds the rule, its wildcards, the settings it uses (nested as in the configuration), digests of its
code, versions of the packages that matter, digests of the user's own files among its inputs, and its
lineage: the hashes of the specs of the jobs that make its other inputs. So a result stays out of date until
everything above it has really been made again.

The graph and its places are those of the rules: `inputs`, `owner`, `manifest` and `benchmark` ask them
(`rules/graph.smk`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from condenser import experiment
from condenser.blocks import Config
from condenser.experiment.jobs import job_settings
from condenser.files import canonical_json, read_json, sha256_file, sha256_text, write_json
from condenser.pipeline.code import code_digests
from condenser.settings import Settings, plain

Job = tuple[str, dict[str, str]]  # a rule and its wildcards
_Key = tuple[str, frozenset[tuple[str, str]]]  # of a job, in dicts


@dataclass(frozen=True)
class Rule:
    """What one rule's result depends on besides its inputs.

    Attributes:
        settings: dotted keys of `condenser.experiment.jobs`: blocks or single values.
        packages: installed packages whose versions matter, or what gives them by the job's settings.
        modules: modules that the program loads by name, which no import statement shows.
    """

    settings: Sequence[str] = ()
    packages: Sequence[str] | Callable[[Settings], Sequence[str]] = ()
    modules: Callable[[Settings], list[str]] = lambda settings: []


@dataclass
class Specs:
    """The specs of all jobs of one validated configuration.

    Attributes:
        config: from `condenser.config.validated`.
        root: the folder with `condenser/` and `workflow_scripts/`.
        inputs: the input files of a job.
        owner: the job that makes a file; None for the user's own.
        manifest: where a job writes its manifest.
        benchmark: where Snakemake writes what a job took; None where the rule has no benchmark.
        digest_cache: a JSON file that remembers digests of the user's files by path, size and time of
            change, so that a large collection is read once.
        rules: what each rule depends on; its rule says so.
    """

    config: Config
    root: Path
    inputs: Callable[[str, dict[str, str]], Sequence[str]]
    owner: Callable[[str], Job | None]
    manifest: Callable[[str, dict[str, str]], str]
    benchmark: Callable[[str, dict[str, str]], str | None]
    digest_cache: Path
    rules: dict[str, Rule] = field(default_factory=dict)
    _specs: dict[_Key, dict[str, Any]] = field(default_factory=dict)
    _hashes: dict[_Key, str] = field(default_factory=dict)
    _needs: dict[_Key, list[Job]] = field(default_factory=dict)

    def spec(
        self, rule: str, wildcards: dict[str, str], *, inputs: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """The spec of one job; `inputs` are its input files where the caller knows them.

        Raises:
            LookupError: the configuration has no such job.
        """
        key = _key(rule, wildcards)
        if key not in self._specs:
            if rule not in self.rules:
                raise LookupError(f"expected a rule of the workflow, got {rule}.")
            declared, settings = self.rules[rule], job_settings(self.config, wildcards)
            shards = experiment.token_shards(self.config)
            if wildcards.get("shard", shards[0]) not in shards:
                raise LookupError(
                    f"expected a shard from {shards[0]} to {shards[-1]}, got {wildcards['shard']}. "
                    "Ask for one of these, or set shards."
                )
            files = self.inputs(rule, wildcards) if inputs is None else inputs
            packages = declared.packages(settings) if callable(declared.packages) else declared.packages
            program = self.root / "workflow_scripts" / f"{rule}.py"
            spec: dict[str, Any] = {
                "rule": rule,
                "wildcards": wildcards,
                "config": _picked(settings, declared.settings),
                "code": code_digests(program, self.root, tuple(declared.modules(settings))),
                "versions": {name: _version(name) for name in packages},
                "lineage": self._lineage(wildcards, files),
            }
            if contents := self._contents_of([file for file in files if self.owner(file) is None]):
                spec["contents"] = contents
            self._specs[key] = spec
        return self._specs[key]

    def hash(self, rule: str, wildcards: dict[str, str]) -> str:
        """SHA-256 of the spec's canonical JSON."""
        key = _key(rule, wildcards)
        if key not in self._hashes:
            self._hashes[key] = sha256_text(canonical_json(self.spec(rule, wildcards)))
        return self._hashes[key]

    def needs(self, rule: str, wildcards: dict[str, str]) -> list[Job]:
        """The jobs that make the inputs of a job, each once."""
        key = _key(rule, wildcards)
        if key not in self._needs:
            self._needs[key] = self._makers(self.inputs(rule, wildcards))
        return self._needs[key]

    def jobs_behind(self, rule: str, wildcards: dict[str, str]) -> list[Job]:
        """A job and all that it needs, each once, what is needed first."""
        return self.jobs_behind_all([(rule, wildcards)])

    def jobs_behind_all(self, jobs: Iterable[Job]) -> list[Job]:
        """Some jobs and all that they need, each once, what is needed first."""
        found: dict[_Key, Job] = {}

        def visit(job: Job) -> None:
            for parent in self.needs(*job):
                if _key(*parent) not in found:
                    visit(parent)
            found[_key(*job)] = job

        for job in jobs:
            if _key(*job) not in found:
                visit(job)
        return list(found.values())

    def _makers(self, files: Sequence[str]) -> list[Job]:
        owners = filter(None, map(self.owner, files))
        return list({_key(*job): job for job in owners}.values())

    def _lineage(self, wildcards: Mapping[str, str], files: Sequence[str]) -> dict[str, str]:
        """Hashes of the jobs that make the inputs, by rule and what tells them from this job.

        The shards of one rule share one entry.
        """
        groups: dict[str, list[str]] = {}
        for rule, of_maker in self._makers(files):
            told = [
                value for name, value in of_maker.items() if name != "shard" and wildcards.get(name) != value
            ]
            groups.setdefault(" ".join([rule, *told]), []).append(self.hash(rule, of_maker))
        return {
            name: hashes[0][:16] if len(hashes) == 1 else sha256_text(" ".join(hashes))[:16]
            for name, hashes in groups.items()
        }

    def _contents_of(self, files: Sequence[str]) -> dict[str, str]:
        """By the name alone, so that a folder may move; a second file of one name is numbered."""
        digests: dict[str, str] = {}
        for file in filter(Path.is_file, map(Path, files)):
            number = 1 + sum(name.partition(" ")[0] == file.name for name in digests)
            digests[file.name if number == 1 else f"{file.name} ({number})"] = self._digest(file)
        return digests

    def _digest(self, file: Path) -> str:
        """SHA-256 of a user's file, read again only where its size or a time of change is another."""
        try:
            known = read_json(self.digest_cache)
        except (OSError, ValueError):
            known = {}
        status = file.stat()
        # the system's own time too, which nobody sets back
        state = f"{file.absolute()} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
        if state not in known:
            known[state] = sha256_file(file)
            with contextlib.suppress(OSError):  # results of others, which may be read but not written
                write_json(self.digest_cache, known)
        return known[state]


def key_of(rule: str, wildcards: Mapping[str, str]) -> str:
    """The id of a job, in files and between processes."""
    return canonical_json([rule, wildcards])


def _key(rule: str, wildcards: Mapping[str, str]) -> _Key:
    return rule, frozenset(wildcards.items())


def _picked(settings: Settings, keys: Sequence[str]) -> dict[str, Any]:
    """The values of dotted keys as JSON, nested as they are.

    >>> _picked(Settings(a=Settings(b=1, c=2), d=3), ["a.b", "d"])
    {'a': {'b': 1}, 'd': 3}
    """
    picked: dict[str, Any] = {}
    for key in keys:
        value: Any = settings
        place = picked
        *above, last = key.split(".")
        for part in above:
            value, place = getattr(value, part), place.setdefault(part, {})
        place[last] = plain(getattr(value, last))
    return picked


@cache  # reading a package's metadata takes a millisecond, and every job asks
def _version(name: str) -> str:
    try:
        return version(name).split("+")[0]  # 2.13.0+cpu is 2.13.0: the device decides on the build
    except PackageNotFoundError:
        raise ValueError(
            f"package {name}: not installed in this environment. Run `make setup`, or correct the config."
        ) from None
