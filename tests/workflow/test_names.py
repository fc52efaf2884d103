"""The code knows kinds, and no name of a data set, model, system or table of the configuration."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from graphs import Load
from source_code import tree_of

from condenser import kinds
from condenser.files import canonical_json

# A kind's name may stand in the kind's own files, also where a system or model of config.yaml shares it.
FILES_OF_KINDS = {
    name: {f"condenser/{folder}/{name}.py", f"rules/{folder}/{name}.smk"}
    for folder in ("objectives", "systems")
    for name in kinds.names(folder)
}
FILES_OF_KINDS["bm25"] |= {"condenser/retrieve/bm25.py"}  # where its indexes lie
for name in kinds.names("systems"):
    FILES_OF_KINDS[name] |= {f"condenser/live/searchers/{name}.py", f"rules/inputs/{name}.smk"}
# a rule of the same name, which asks for a GPU
FILES_OF_KINDS["late"] |= {f"profiles/{name}/config.yaml" for name in ("slurm", "generic")}
# These are also words of the field, or the package's own name.
WORDS = {"backbone", "condenser", "hybrid", "retriever"}


@pytest.fixture(scope="module")
def config(root: Path) -> dict[str, Any]:
    return yaml.safe_load((root / "config.yaml").read_text())


def renamed(value: Any, names: dict[str, str]) -> Any:
    """The same with other names, as keys and as values."""
    if isinstance(value, dict):
        return {names.get(key, key): renamed(part, names) for key, part in value.items()}
    if isinstance(value, list):
        return [renamed(part, names) for part in value]
    return names.get(value, value) if isinstance(value, str) else value


def test_other_names_make_the_same_jobs(load: Load, config: dict[str, Any]) -> None:
    nouns = {"datasets": "d", "models": "m", "systems": "s", "tables": "t"}
    names = {name: f"{short}{i}" for noun, short in nouns.items() for i, name in enumerate(config[noun])}
    other = dict(config)
    for noun in nouns:
        entries = {names[name]: dict(entry) for name, entry in config[noun].items()}
        for entry in entries.values():
            for key in ("initial", "negatives", "candidates", "of", "rows", "compare_with"):
                if key in entry:
                    entry[key] = renamed(entry[key], names)
            if "distillation" in entry:
                entry["distillation"] = renamed(entry["distillation"], names)
        other[noun] = entries

    target = "results/msmarco/table2.tsv"
    before, after = load(), load(other, replace=True)
    jobs = before.jobs(target)
    assert after.jobs(renamed_path(target, names)) == [renamed_path(job, names) for job in jobs]
    for job in jobs:
        old, new = before.spec(job), after.spec(renamed_path(job, names))
        for spec in (old, new):
            spec.pop("lineage")  # hashes
        assert renamed_path(canonical_json(old), names) == renamed_path(canonical_json(new), names), job


def renamed_path(text: str, names: dict[str, str]) -> str:
    return re.sub(r"[A-Za-z0-9_-]+", lambda match: names.get(match[0], match[0]), text)


def literals(file: Path) -> Iterator[str]:
    """The texts that a Python file holds, without its docstrings."""
    tree = tree_of(file)
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


def test_no_name_of_a_model_or_system_stands_in_the_code(root: Path, config: dict[str, Any]) -> None:
    names = {*config["models"], *config["systems"]} - WORDS
    assert len(names) >= 6
    seen = 0
    for file in [*(root / "condenser").rglob("*.py"), *(root / "workflow_scripts").glob("*.py")]:
        where = str(file.relative_to(root))
        for text in literals(file):
            seen += 1
            parts = set(re.split(r"[/.{} ]", text)) if "results/" in text else {text}
            found = {name for name in names & parts if where not in FILES_OF_KINDS.get(name, ())}
            assert not found, f"{where}: {text!r}"
    assert seen > 1000
    for file in [*(root / "rules").rglob("*.smk"), *(root / "profiles").rglob("*"), root / "Snakefile"]:
        where = str(file.relative_to(root))
        text = re.sub(r"(?m)(^|\s)#.*", "", file.read_text()) if file.is_file() else ""
        found = {name for name in names | {"backbone"} if re.search(rf"(?<![\w-]){name}(?![\w-])", text)}
        assert {name for name in found if where not in FILES_OF_KINDS.get(name, ())} == set(), where
