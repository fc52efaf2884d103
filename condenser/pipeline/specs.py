"""The canonical spec of every job: what its result depends on, and nothing else.

A spec holds the stage, its wildcards, the settings it uses, digests of its code, versions of the
packages that matter, digests of the user's own files, and its lineage: the hashes of the specs of
the jobs above it, so that a result stays out of date until all above it has really been remade.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from condenser.data import sources
from condenser.files import canonical_json, read_json, sha256_file, sha256_text, write_json
from condenser.pipeline.code import code_digests
from condenser.pipeline.stages import STAGES, Job, shards, system_parts

# Whose shards a stage's are, for those that take one at a time.
_SHARDED_AS = {"tokens": "tokens", "encode": "encode", "search": "encode"}


class Specs:
    """The specs of all jobs of one validated configuration."""

    def __init__(self, config: dict[str, Any], *, root: Path, digest_cache: Path | None) -> None:
        """
        Args:
            config: from `condenser.config.validated`.
            root: the folder with `condenser/` and `workflow_scripts/`.
            digest_cache: a JSON file that remembers digests of the user's files by path, size and
                time of change, so that a large collection is read once; None reads them anew.
        """
        self._config, self._root = config, root
        self._specs: dict[str, dict[str, Any]] = {}
        self._hashes: dict[str, str] = {}
        self._code: dict[tuple, dict[str, str]] = {}
        self._contents = _ContentDigests(digest_cache)

    def spec(self, stage: str, wildcards: dict[str, str]) -> dict[str, Any]:
        """The spec of one job.

        Raises:
            LookupError: the configuration has no such job.
        """
        key = canonical_json([stage, wildcards])
        if key not in self._specs:
            self._check_has(stage, wildcards)
            declared = STAGES[stage]
            config, seed = self._settings(stage, wildcards)
            spec: dict[str, Any] = {
                "stage": stage,
                "wildcards": wildcards,
                "config": config,
                "code": self._code_of(stage, tuple(declared.modules(self._config, wildcards))),
                "versions": {name: _version(name) for name in declared.packages},
                "lineage": self._lineage(declared.parents(self._config, wildcards)),
            }
            if seed is not None:
                spec["seed"] = seed
            contents = self._user_contents(stage, wildcards)
            if contents:
                spec["contents"] = contents
            self._specs[key] = spec
        return self._specs[key]

    def text(self, stage: str, wildcards: dict[str, str]) -> str:
        """The spec as canonical JSON: a rule's one param."""
        return canonical_json(self.spec(stage, wildcards))

    def hash(self, stage: str, wildcards: dict[str, str]) -> str:
        """SHA-256 of the spec's canonical JSON."""
        key = canonical_json([stage, wildcards])
        if key not in self._hashes:
            self._hashes[key] = sha256_text(self.text(stage, wildcards))
        return self._hashes[key]

    def _check_has(self, stage: str, wildcards: dict[str, str]) -> None:
        dataset, shard = wildcards.get("dataset"), wildcards.get("shard")
        if dataset is not None and dataset not in self._config["datasets"]:
            raise LookupError(
                f"{stage}: expected a data set of the configuration, got {dataset}. "
                "Add it under datasets, or ask for another."
            )
        if shard is not None:
            known = shards(self._config, _SHARDED_AS[stage])
            if shard not in known:
                raise LookupError(
                    f"{stage}: expected a shard from {known[0]} to {known[-1]}, got {shard}. "
                    f"Ask for one of these, or set {_SHARDED_AS[stage]}.shards."
                )

    def _settings(self, stage: str, wildcards: dict[str, str]) -> tuple[dict[str, Any], int | None]:
        settings: dict[str, Any] = {}
        seed = None
        for key in STAGES[stage].keys:
            if key == "*":
                settings.update(self._config)
                continue
            value = value_at(self._config, key, wildcards)
            name = key.split("[")[0].rsplit(".", 1)[-1]
            if key == "seed":
                seed = value
            elif name == "*":
                settings.update(value)
            else:
                settings[name] = value
        for name in STAGES[stage].without:
            settings.pop(name, None)
        return settings, seed

    def _code_of(self, stage: str, modules: tuple[str, ...]) -> dict[str, str]:
        key = (stage, modules)
        if key not in self._code:
            program = self._root / "workflow_scripts" / f"{stage}.py"
            self._code[key] = code_digests(program, root=self._root, modules=modules)
        return self._code[key]

    def _lineage(self, parents: list[Job]) -> dict[str, str]:
        """Hash by stage (and system, split); the shards of one stage share one entry."""
        groups: dict[str, list[str]] = {}
        for stage, wildcards in parents:
            parts = [wildcards[name] for name in ("system", "split", "file") if name in wildcards]
            groups.setdefault(" ".join([stage, *parts]), []).append(self.hash(stage, wildcards))
        return {
            name: hashes[0][:16] if len(hashes) == 1 else sha256_text(" ".join(hashes))[:16]
            for name, hashes in groups.items()
        }

    def _user_contents(self, stage: str, wildcards: dict[str, str]) -> dict[str, str]:
        if stage == "collect":
            dataset = self._config["datasets"][wildcards["dataset"]]
            files = sources.local_files(dataset)
            if files:
                return self._digests_by_name(files)
            if dataset["source"] == "pydoc":
                return {name: _version(name) for name in dataset["packages"]}
        if stage == "plan":
            return self._digests_by_name(sorted(self._root.glob("condenser/pipeline/costs/tables/*.tsv")))
        backbone = self._config["backbone"]
        if stage == "backbone" and backbone["source"] == "folder":
            return self._digests_by_name(sorted(Path(backbone["path"]).iterdir()))
        return {}

    def _digests_by_name(self, files: Sequence[Path]) -> dict[str, str]:
        """By the name alone, so that a folder may move; the second of one name is told by its number."""
        digests: dict[str, str] = {}
        for file in files:
            if file.is_file():
                number = 1 + sum(name.partition(" ")[0] == file.name for name in digests)
                name = file.name if number == 1 else f"{file.name} ({number})"
                digests[name] = self._contents.digest(file)
        return digests


def value_at(config: dict[str, Any], key: str, wildcards: dict[str, str]) -> Any:
    """The value of a declared key for one job; see `condenser.pipeline.stages`."""
    value: Any = config
    parts = key.split("[")[0].removesuffix(".*").split(".")
    for part in parts:
        value = value[wildcards["dataset"] if part == "{dataset}" else part]
    if key.endswith("[round]"):
        value = value[system_parts(wildcards["system"])[1] - 1]
    elif key.endswith("[role]"):
        train_split = config["datasets"][wildcards["dataset"]]["train_split"]
        value = value["train" if wildcards["split"] == train_split else "eval"]
    return value


@cache  # reading a package's metadata takes a millisecond, and every job asks
def _version(name: str) -> str:
    try:
        return version(name).split("+")[0]  # 2.13.0+cpu is 2.13.0: the build is the device's matter
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
                write_json(self._cache_file, self._known)
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
        for name in sorted({*before, *now}):
            was, becomes = _shown(before, name), _shown(now, name)
            if was != becomes:
                found.append(say.format(name=name, stage=stage, old=was, new=becomes))
    for name in sorted({*old, *new} - set(parts)):
        was, becomes = _shown(old, name), _shown(new, name)
        if was != becomes:
            found.insert(0, f"{'setting ' if name == 'seed' else ''}{name}: {was} -> {becomes}")
    return found


def _shown(values: dict[str, Any], name: str) -> str:
    return canonical_json(values[name]) if name in values else "absent"
