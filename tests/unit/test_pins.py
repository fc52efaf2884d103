"""One set of versions: the lock, the package's dependencies and the conda environments agree."""

from __future__ import annotations

import importlib
import re
import tomllib
from itertools import chain
from pathlib import Path
from types import ModuleType

import pytest
import yaml


@pytest.fixture(scope="module")
def envs(root: Path) -> ModuleType:
    """The program benchmarks/envs.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "benchmarks"))
        return importlib.import_module("envs")


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-cuda.lock"])
def test_every_pin_has_hashes(root: Path, name: str) -> None:
    lines = [line for line in (root / name).read_text().splitlines() if not line.startswith("#")]
    assert len(lines) > 10
    for line in lines:
        assert re.fullmatch(r"[\w.-]+==[\w.]+( --hash=sha256:[0-9a-f]{64})+", line), line


def test_every_dependency_is_locked(root: Path, envs: ModuleType) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    locked = envs.pins(root / "requirements.lock")
    missing = [name for name in needed if envs.normal(re.split("[<>=]", name)[0]) not in locked]
    assert len(needed) > 20 and missing == []


@pytest.mark.ci
def test_the_conda_environments_are_what_make_envs_writes(root: Path, envs: ModuleType) -> None:
    made = envs.environments()
    assert sorted(made) == sorted((root / "envs").glob("*.yaml"))
    assert not [file.name for file, text in made.items() if file.read_text() != text], "run `make envs`"
    (torch,) = (text for file, text in made.items() if file.stem == "torch")
    assert "- torch==" in torch and "- safetensors==" in torch and "pyserini" not in torch


def test_every_program_runs_in_the_environment_of_a_rule(root: Path, envs: ModuleType) -> None:
    programs = {file.stem for file in (root / "workflow_scripts").glob("*.py")}
    assert set(chain(*(programs for _, programs in envs.rules_with_an_environment().values()))) == programs


def test_every_file_that_names_the_version_names_the_same(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((root / "CITATION.cff").read_text())
    released = re.search(r"^## \[([\d.]+)\] - (\d{4}-\d\d-\d\d)$", (root / "CHANGELOG.md").read_text(), re.M)
    assert released, "CHANGELOG.md: no version with a date"
    assert (citation["version"], str(citation["date-released"])) == released.groups()
    assert project["version"] == citation["version"]
