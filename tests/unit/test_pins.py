"""One set of versions: the lock, the package's dependencies and the conda environments agree."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest
import yaml
from condenser.pipeline.stages import STAGES

from condenser.data import sources
from condenser.pipeline.code import WITHOUT_EFFECT, code_digests

ROOT = Path(__file__).resolve().parents[2]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(root: Path) -> dict[str, str]:
    lines = (root / "requirements.lock").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(pair) == 2 for pair in pairs), "every line of the lock pins one version"
    return {normal(name): version for name, version in pairs}


def rules_with_an_environment(root: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Conda file and programs by rule."""
    found = {}
    for file in sorted((root / "rules").glob("*.smk")):
        for text in re.split(r"^ *rule\b", file.read_text(), flags=re.MULTILINE)[1:]:
            environment = re.search(r'conda:\s*"\.\./(envs/[^"]+)"', text)
            programs = tuple(re.findall(r"\$PROGRAMS/(\w+)\.py", text))
            if environment:
                name = text.split(":")[0].strip() or programs[0]
                found[name] = (environment[1], programs)
    return found


def packages_in(environment: Path) -> set[str]:
    dependencies = yaml.safe_load(environment.read_text())["dependencies"]
    pins = chain(*(entry["pip"] for entry in dependencies if isinstance(entry, dict)))
    return {normal(pin.split("==")[0]) for pin in pins}


@cache
def installed() -> Mapping[str, list[str]]:
    """The distributions of each module that can be imported."""
    return packages_distributions()


def packages_imported(root: Path, program: str) -> set[str]:
    """The distributions that a program and its modules of ours import, also inside functions.

    What reads the sources also reads the packages whose docstrings are the embedded collection.
    """
    file = root / "workflow_scripts" / f"{program}.py"
    modules = set(code_digests(file, root=root)) | WITHOUT_EFFECT
    read: set[str] = set()
    if sources.__name__ in modules:  # which imports them by a computed name
        of_sources = [f"{sources.__name__}.{name}" for name in sources.source_names()]
        modules |= set(code_digests(file, root=root, modules=of_sources))
        read.update(yaml.safe_load((root / "config.yaml").read_text())["pydoc"]["packages"])
    files = [file]
    for module in modules - {file.name}:
        base = root.joinpath(*module.split("."))
        files.append(base.with_suffix(".py") if base.with_suffix(".py").is_file() else base / "__init__.py")
    names: set[str] = set()
    for code in files:
        for node in ast.walk(ast.parse(code.read_text())):
            if isinstance(node, ast.Import):
                names.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.split(".")[0])
    distributions = installed()
    third_party = names - set(sys.stdlib_module_names) - {"condenser"}
    return {normal(name) for name in [*read, *(distributions[name][0] for name in third_party)]}


def packages_of_specs(program: str) -> set[str]:
    """The distributions whose versions the program's specs name; verify computes those of all stages."""
    stages = STAGES if program == "verify" else {program} & set(STAGES)
    return {normal(name) for stage in stages for name in STAGES[stage].packages}


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


@pytest.mark.parametrize("rule", rules_with_an_environment(ROOT))
def test_a_rules_conda_environment_holds_all_that_its_programs_import_and_its_spec_names(
    root: Path, rule: str
) -> None:
    environment, programs = rules_with_an_environment(root)[rule]
    assert programs
    needed = set().union(*(packages_imported(root, name) | packages_of_specs(name) for name in programs))
    assert needed and needed <= packages_in(root / environment), (
        f"{environment} lacks {', '.join(sorted(needed - packages_in(root / environment)))}"
    )


def test_every_program_runs_in_the_environment_of_a_rule(root: Path) -> None:
    programs = {file.stem for file in (root / "workflow_scripts").glob("*.py")}
    assert set(chain(*(programs for _, programs in rules_with_an_environment(root).values()))) == programs
