"""The spec of a job: everything its result depends on, and nothing else.

A spec holds the stage, its wildcards, the settings it uses (nested as in the configuration), digests of its
code, versions of the packages that matter, digests of the user's own files among its inputs, and its
lineage: the hashes of the specs of the jobs that make its other inputs. So a result stays out of date until
everything above it has really been made again.

The graph is that of the rules: `inputs` and `owner` ask them (`rules/common.smk`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from condenser import experiment
from condenser.files import canonical_json, read_json, sha256_file, sha256_text, write_json
from condenser.pipeline.code import code_digests

Job = tuple[str, dict[str, str]]  # a stage and its wildcards
Settings = Mapping[str, Any]  # of one job: experiment.job_settings


@dataclass(frozen=True)
class Stage:
    """What one rule's result depends on besides its inputs.

    Attributes:
        settings: dotted keys of `experiment.job_settings`: blocks or single values.
        packages: installed packages whose versions matter.
        modules: modules that the program loads by name, which no import statement shows.
        more_packages: packages that the job's settings name.
    """

    settings: Sequence[str] = ()
    packages: Sequence[str] = ()
    modules: Callable[[Settings], list[str]] = lambda settings: []
    more_packages: Callable[[Settings], list[str]] = lambda settings: []


class Specs:
    """The specs of all jobs of one validated configuration."""

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        root: Path,
        inputs: Callable[[str, dict[str, str]], Sequence[str]],
        owner: Callable[[str], Job | None],
        digest_cache: Path | None,
    ) -> None:
        """
        Args:
            config: from `condenser.config.validated`.
            root: the folder with `condenser/` and `workflow_scripts/`.
            inputs: the input files of a job.
            owner: the job that makes a file; None for the user's own.
            digest_cache: a JSON file that remembers digests of the user's files by path, size and
                time of change, so that a large collection is read once; None reads them anew.
        """
        self.config, self._root = config, root
        self._inputs, self._owner = inputs, cache(owner)
        self._stages: dict[str, Stage] = {}
        self._specs: dict[str, dict[str, Any]] = {}
        self._hashes: dict[str, str] = {}
        self._code: dict[tuple[str, ...], dict[str, str]] = {}
        self._contents = _ContentDigests(digest_cache)

    def declare(self, stage: str, declared: Stage) -> None:
        """Say what a stage depends on; its rule does this."""
        self._stages[stage] = declared

    def spec(
        self, stage: str, wildcards: dict[str, str], *, inputs: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """The spec of one job; `inputs` are its input files where the caller knows them.

        Raises:
            LookupError: the configuration has no such job.
        """
        key = canonical_json([stage, wildcards])
        if key not in self._specs:
            if stage not in self._stages:
                raise LookupError(f"expected a stage of the workflow, got {stage}.")
            declared = self._stages[stage]
            settings = experiment.job_settings(self.config, wildcards)
            self._check_shard(wildcards)
            files = self._inputs(stage, wildcards) if inputs is None else inputs
            packages = [*declared.packages, *declared.more_packages(settings)]
            spec: dict[str, Any] = {
                "stage": stage,
                "wildcards": wildcards,
                "config": _picked(settings, declared.settings),
                "code": self._code_of(stage, tuple(declared.modules(settings))),
                "versions": {name: _version(name) for name in packages},
                "lineage": self._lineage(wildcards, files),
            }
            if contents := self._contents_of([file for file in files if self._owner(file) is None]):
                spec["contents"] = contents
            self._specs[key] = spec
        return self._specs[key]

    def text(self, stage: str, wildcards: dict[str, str], *, inputs: Sequence[str] | None = None) -> str:
        """The spec as canonical JSON: a rule's one param."""
        return canonical_json(self.spec(stage, wildcards, inputs=inputs))

    def hash(self, stage: str, wildcards: dict[str, str], *, inputs: Sequence[str] | None = None) -> str:
        """SHA-256 of the spec's canonical JSON."""
        key = canonical_json([stage, wildcards])
        if key not in self._hashes:
            self._hashes[key] = sha256_text(self.text(stage, wildcards, inputs=inputs))
        return self._hashes[key]

    def jobs_behind(self, stage: str, wildcards: dict[str, str]) -> list[Job]:
        """A job and all that it needs, each once, what is needed first."""
        found: dict[str, Job] = {}

        def visit(job: Job) -> None:
            key = canonical_json(job)
            if key not in found:
                found[key] = job  # holds the place, so that no job is visited twice
                for parent in self._parents(self._inputs(*job)):
                    visit(parent)
                found[key] = found.pop(key)

        visit((stage, wildcards))
        return list(found.values())

    def _check_shard(self, wildcards: Mapping[str, str]) -> None:
        known = experiment.token_shards(self.config)
        if "shard" in wildcards and wildcards["shard"] not in known:
            raise LookupError(
                f"expected a shard from {known[0]} to {known[-1]}, got {wildcards['shard']}. "
                "Ask for one of these, or set shards."
            )

    def _code_of(self, stage: str, modules: tuple[str, ...]) -> dict[str, str]:
        key = (stage, *modules)
        if key not in self._code:
            program = self._root / "workflow_scripts" / f"{stage}.py"
            self._code[key] = code_digests(program, root=self._root, modules=modules)
        return self._code[key]

    def _parents(self, files: Sequence[str]) -> list[Job]:
        owners = (self._owner(file) for file in files)
        return list({canonical_json(job): job for job in owners if job is not None}.values())

    def _lineage(self, wildcards: Mapping[str, str], files: Sequence[str]) -> dict[str, str]:
        """Hashes of the jobs that make the inputs, by stage and what tells them from this job.

        The shards of one stage share one entry.
        """
        groups: dict[str, list[str]] = {}
        for stage, of_parent in self._parents(files):
            parts = [
                value for name, value in of_parent.items() if name != "shard" and wildcards.get(name) != value
            ]
            groups.setdefault(" ".join([stage, *parts]), []).append(self.hash(stage, of_parent))
        return {
            name: hashes[0][:16] if len(hashes) == 1 else sha256_text(" ".join(hashes))[:16]
            for name, hashes in groups.items()
        }

    def _contents_of(self, files: Sequence[str]) -> dict[str, str]:
        """By the name alone, so that a folder may move; a second file of one name is numbered."""
        digests: dict[str, str] = {}
        for file in map(Path, files):
            if file.is_file():
                number = 1 + sum(name.partition(" ")[0] == file.name for name in digests)
                name = file.name if number == 1 else f"{file.name} ({number})"
                digests[name] = self._contents.digest(file)
        return digests


def _picked(settings: Settings, keys: Sequence[str]) -> dict[str, Any]:
    """The values of dotted keys, nested as they are.

    >>> _picked({"a": {"b": 1, "c": 2}, "d": 3}, ["a.b", "d"])
    {'a': {'b': 1}, 'd': 3}
    """
    picked: dict[str, Any] = {}
    for key in keys:
        value: Any = settings
        place = picked
        *above, last = key.split(".")
        for part in above:
            value, place = value[part], place.setdefault(part, {})
        place[last] = value.get(last) if last == "train_queries" else value[last]
    return picked


@cache  # reading a package's metadata takes a millisecond, and every job asks
def _version(name: str) -> str:
    try:
        return version(name).split("+")[0]  # 2.13.0+cpu is 2.13.0: the device decides on the build
    except PackageNotFoundError:
        raise ValueError(
            f"package {name}: not installed in this environment. Run `make setup`, or correct the config."
        ) from None


class _ContentDigests:
    """SHA-256 of the user's files, remembered by size and time of change."""

    def __init__(self, cache: Path | None) -> None:
        self._cache_file = cache
        try:
            self._known = read_json(cache) if cache is not None and cache.is_file() else {}
        except ValueError:
            self._known = {}

    def digest(self, file: Path) -> str:
        status = file.stat()
        # the system's own time too, which nobody sets back
        key, state = str(file.absolute()), [status.st_size, status.st_mtime_ns, status.st_ctime_ns]
        known = self._known.get(key)
        if known is None or known[0] != state:
            self._known[key] = known = [state, sha256_file(file)]
            if self._cache_file is not None:
                try:
                    write_json(self._cache_file, self._known)
                except OSError:  # a read-only checkout: the file is read again next time
                    self._cache_file = None
        return known[1]


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What changed between two specs of one job, in words, most telling first.

    Values differ as their JSON does, which is what a spec is compared by: 2 is not 2.0, and a key that
    is absent is not one that is null.
    """
    found = []
    stage = new.get("stage", "")
    parts = {
        "config": "setting {name} of {stage}: {old} -> {new}",
        "code": "module {name}",
        "versions": "package {name}: {old} -> {new}",
        "contents": "file {name}",
        "lineage": "above it: {name}",
    }
    for part, say in parts.items():
        before, now = old.get(part, {}), new.get(part, {})
        if part == "config":
            before, now = _flat(before), _flat(now)
        for name in sorted({*before, *now}):
            was, becomes = _shown(before, name), _shown(now, name)
            if was != becomes:
                found.append(say.format(name=name, stage=stage, old=was, new=becomes))
    for name in sorted({*old, *new} - set(parts)):
        was, becomes = _shown(old, name), _shown(new, name)
        if was != becomes:
            found.insert(0, f"{name}: {was} -> {becomes}")
    return found


def _flat(block: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """The leaves of a nested block by dotted key."""
    flat: dict[str, Any] = {}
    for name, value in block.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{above}{name}.")
        else:
            flat[f"{above}{name}"] = value
    return flat


def _shown(values: Mapping[str, Any], name: str) -> str:
    return canonical_json(values[name]) if name in values else "absent"
