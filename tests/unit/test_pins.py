"""One set of versions: the lock, the package's dependencies and the conda environments agree."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from graphs import Load
from source_code import file_of, imports, tree_of

from condenser import kinds

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("data/sources", "objectives", "systems", "evaluate/measures", "evaluate/figures")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(root: Path, name: str = "requirements.lock") -> list[str]:
    lines = (root / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def locked(root: Path) -> dict[str, str]:
    pairs = [line.split()[0].split("==") for line in pins(root)]
    assert all(len(pair) == 2 for pair in pairs), "every line of the lock pins one version"
    return {normal(name): version for name, version in pairs}


def rules_with_an_environment(root: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Conda file and programs by rule."""
    found = {}
    for file in sorted((root / "rules").rglob("*.smk")):
        for text in re.split(r"^ *rule\b", file.read_text(), flags=re.MULTILINE)[1:]:
            environment = re.search(r'conda:\s*"(?:\.\./)+(envs/[^"]+)"', text)
            programs = re.findall(r'job=(?:lambda wildcards: )?SPECS\.(?:command|job)\(\s*"(\w+)"', text)
            programs += re.findall(r'"workflow_scripts" / "(\w+)\.py"', text)
            if environment:
                name = text.split(":")[0].strip() or programs[0]
                found[name] = (environment[1], tuple(programs))
    return found


def pins_in(environment: Path) -> set[str]:
    dependencies = yaml.safe_load(environment.read_text())["dependencies"]
    found = chain(*(entry["pip"] for entry in dependencies if isinstance(entry, dict)))
    return {"==".join([normal(pin.split("==")[0]), pin.split("==")[1]]) for pin in found}


@cache
def installed() -> Mapping[str, list[str]]:
    """The distributions of each module that can be imported."""
    return packages_distributions()


def packages_imported(root: Path, program: str, kinds_of_specs: set[str]) -> set[str]:
    """The distributions that a program and its modules of ours import, also inside functions.

    Args:
        kinds_of_specs: the modules of kinds that a job of this program may load.
    """
    file = root / "workflow_scripts" / f"{program}.py"
    waiting = imports(tree_of(file)) | kinds_of_specs
    seen: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module not in seen and (code := file_of(module, root)):
            waiting |= imports(tree_of(code))
        seen.add(module)
    names = {module.split(".")[0] for module in seen}
    third_party = names - set(sys.stdlib_module_names) - {"condenser"}
    return {normal(installed()[name][0]) for name in third_party}


@pytest.fixture(scope="module")
def specs(load: Load) -> dict[str, list[dict[str, Any]]]:
    """Specs by rule, of the default and of the papers' scale."""
    found: dict[str, list[dict[str, Any]]] = {}
    for configfile in (None, "configs/paper.yaml"):
        graph = load(configfile=configfile)
        for target in ("table2.tsv", "table3.tsv", "subsets/n10-seed1.txt", "attention_entropy.svg"):
            for job in graph.jobs(f"results/msmarco/{target}"):
                found.setdefault(job.split()[0], []).append(graph.spec(job))
    return found


def kinds_of(specs: list[dict[str, Any]]) -> set[str]:
    """All kinds of a folder of which the specs name one."""
    named = {module for spec in specs for module in spec["code"]}
    return {
        module
        for folder in KINDS
        if named & (all_of := {kinds.module_name(folder, name) for name in kinds.names(folder)})
        for module in all_of
    }


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-cuda.lock"])
def test_every_pin_has_hashes(root: Path, name: str) -> None:
    lines = pins(root, name)
    assert len(lines) > 10
    for line in lines:
        assert re.fullmatch(r"[\w.-]+==[\w.]+( --hash=sha256:[0-9a-f]{64})+", line), line


def test_every_dependency_is_locked(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    missing = [name for name in needed if normal(re.split("[<>=]", name)[0]) not in locked(root)]
    assert len(needed) > 20 and missing == []


def test_the_conda_environments_hold_the_locks_versions(root: Path) -> None:
    lock = {f"{name}=={version}" for name, version in locked(root).items()}
    environments = {file.name: pins_in(file) for file in (root / "envs").glob("*.yaml")}
    assert environments and all(environments.values())
    assert not {name: pins - lock for name, pins in environments.items() if pins - lock}


@pytest.mark.ci
@pytest.mark.parametrize("rule", rules_with_an_environment(ROOT))
def test_a_rules_conda_environment_holds_all_that_its_programs_import_and_its_spec_names(
    root: Path, specs: dict[str, list[dict[str, Any]]], rule: str
) -> None:
    environment, programs = rules_with_an_environment(root)[rule]
    assert programs
    needed = {normal(name) for rule in programs for spec in specs.get(rule, []) for name in spec["versions"]}
    for program in programs:
        needed |= packages_imported(root, program, kinds_of(specs.get(program, [])))
    there = {pin.split("==")[0] for pin in pins_in(root / environment)}
    assert needed and not needed - there, f"{environment} lacks {', '.join(sorted(needed - there))}"


def test_every_program_runs_in_the_environment_of_a_rule(root: Path) -> None:
    programs = {file.stem for file in (root / "workflow_scripts").glob("*.py")}
    assert set(chain(*(programs for _, programs in rules_with_an_environment(root).values()))) == programs


def test_hooks_run_the_locks_programs(root: Path) -> None:
    repositories = yaml.safe_load((root / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]
    programs = [Path(hook["entry"].split()[0]) for hook in repositories[0]["hooks"]]
    assert {program.parent for program in programs} == {Path(".venv/bin")}
    assert {program.name for program in programs} == {"ruff", "snakefmt"} <= set(locked(root))


def test_every_file_that_names_the_version_names_the_same(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((root / "CITATION.cff").read_text())
    released = re.search(r"^## \[([\d.]+)\] - (\d{4}-\d\d-\d\d)$", (root / "CHANGELOG.md").read_text(), re.M)
    assert released, "CHANGELOG.md: no version with a date"
    assert (citation["version"], str(citation["date-released"])) == released.groups()
    assert project["version"] == citation["version"]
