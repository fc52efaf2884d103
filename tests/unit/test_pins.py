"""One set of versions: the lock, the package's dependencies and the conda environments agree."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

import yaml


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(root: Path) -> dict[str, str]:
    lines = (root / "requirements.lock").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(pair) == 2 for pair in pairs), "every line of the lock pins one version"
    return {normal(name): version for name, version in pairs}


def test_every_dependency_is_locked(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    missing = [name for name in needed if normal(name) not in locked(root)]
    assert len(needed) > 20 and missing == []


def test_the_conda_environments_hold_the_locks_versions(root: Path) -> None:
    lock = locked(root)
    seen = 0
    for file in (root / "envs").glob("*.yaml"):
        for dependency in yaml.safe_load(file.read_text())["dependencies"]:
            for pin in dependency["pip"] if isinstance(dependency, dict) else []:
                name, version = pin.split("==")
                assert lock[normal(name)] == version, f"{file.name}: {pin}"
                seen += 1
    assert seen > 20
