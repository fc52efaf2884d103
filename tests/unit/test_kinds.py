"""Kinds are found by file name, hold what the `__init__.py` of their folder says, and import no torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from condenser import kinds
from condenser.data import sources
from condenser.evaluate import figures, measures
from condenser.objectives import FOLDER as OBJECTIVES
from condenser.settings import Figure, Model, PartlyJudgedTexts, Pretraining, Sentences, System, Texts
from condenser.systems import FOLDER as SYSTEMS

FOLDERS = [sources.FOLDER, OBJECTIVES, SYSTEMS, measures.FOLDER, figures.FOLDER]
ALL = [(folder, name) for folder in FOLDERS for name in kinds.names(folder)]


def test_a_kind_is_a_file_of_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_ROOT", tmp_path)
    (tmp_path / "things").mkdir()
    for name in ("b.py", "a.py", "_shared.py", "notes.txt"):
        (tmp_path / "things" / name).touch()
    assert kinds.names("things") == ["a", "b"]
    assert kinds.names("nothing") == []


def test_the_kinds_of_this_repository_are_found() -> None:
    assert {"beir", "hub_text", "msmarco", "pydoc", "tsv"} <= set(kinds.names(sources.FOLDER))
    assert {"checkpoint", "condenser", "cocondenser"} <= set(kinds.names(OBJECTIVES))
    assert {"biencoder", "bm25"} <= set(kinds.names(SYSTEMS))
    assert {"mrr", "ndcg", "r"} <= set(kinds.names(measures.FOLDER))


@pytest.mark.parametrize("name", ["os", "__init__", "../kinds", "", "condenser.data.sources.beir"])
def test_another_name_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(ValueError, match=r"^expected one of .*bm25.*, got ") as caught:
        kinds.load(SYSTEMS, name)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize(("folder", "name"), ALL)
def test_a_kind_is_loaded_by_the_name_that_specs_digest_its_code_under(folder: str, name: str) -> None:
    module = kinds.load(folder, name)
    assert module.__name__ == kinds.module_name(folder, name)
    assert module is kinds.load(folder, name)
    assert module.__doc__


@pytest.mark.parametrize("name", kinds.names(sources.FOLDER))
def test_a_source_holds_what_its_folder_says(name: str) -> None:
    source = kinds.load(sources.FOLDER, name)
    assert issubclass(source.Settings, Texts)
    assert callable(source.collect)
    assert hasattr(source, "packages") or hasattr(source, "raw_files") or hasattr(source, "local_files")
    assert hasattr(source, "example_files") == hasattr(source, "make_examples")
    assert hasattr(source, "TASK") == issubclass(source.Settings, Sentences)
    if hasattr(source, "example_files"):
        assert issubclass(source.Settings, PartlyJudgedTexts)


@pytest.mark.parametrize("name", kinds.names(OBJECTIVES))
def test_an_objective_holds_what_its_folder_says(name: str) -> None:
    objective = kinds.load(OBJECTIVES, name)
    if name in ("checkpoint", "best_of"):  # which train nothing
        assert issubclass(objective.Settings, Model)
    else:
        assert issubclass(objective.Settings, Pretraining)
        assert callable(objective.training) and callable(objective.longest_row)


@pytest.mark.parametrize("name", kinds.names(SYSTEMS))
def test_a_system_holds_what_its_folder_says_and_has_rules(root: Path, name: str) -> None:
    system = kinds.load(SYSTEMS, name)
    assert issubclass(system.Settings, System) and callable(system.is_trained)
    if hasattr(system, "TASKS"):  # for sentences: their own rules train them
        assert set(system.TASKS) <= {"similarity", "triplets", "inference", "neighbours"}
    elif "negatives" in system.Settings.model_fields:
        assert "initial" in system.Settings.model_fields and callable(system.training)
    assert (root / "rules" / "systems" / f"{name}.smk").is_file()


def test_every_measure_has_a_name_of_its_own() -> None:
    modules = [kinds.load(measures.FOLDER, name) for name in kinds.names(measures.FOLDER)]
    for module in modules:
        assert callable(module.values if hasattr(module, "TASK") else module.value)
    names = [module.NAME for module in modules]
    assert len(set(names)) == len(names) and not any("@" in name for name in names)


def test_two_measures_of_one_name_are_refused_with_both_files(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {name: ModuleType(name) for name in ("r", "recall")}
    for name, module in modules.items():
        module.NAME, module.__file__ = "R", f"{name}.py"  # type: ignore[attr-defined]
    monkeypatch.setattr(kinds, "names", lambda folder: list(modules))
    monkeypatch.setattr(kinds, "load", lambda folder, name: modules[name])
    with pytest.raises(ValueError, match=r"^recall\.py: NAME: .* got 'R', that of r\.py\. Rename one\.$"):
        measures._by_name.__wrapped__()


def test_a_kind_that_is_both_a_file_and_a_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "_ROOT", tmp_path)
    (tmp_path / "things" / "double").mkdir(parents=True)
    for file in ("things/double.py", "things/double/__init__.py"):
        (tmp_path / file).touch()
    with pytest.raises(ValueError, match=r"double: expected a name of its own, got that of double\.py\."):
        kinds.load("things", "double")


@pytest.mark.parametrize("name", kinds.names(figures.FOLDER))
def test_a_figure_holds_what_its_folder_says(name: str) -> None:
    figure = kinds.load(figures.FOLDER, name)
    assert issubclass(figure.Settings, Figure)
    assert figure.READS in ("variants", "table", "tests", "manifests")
    assert callable(figure.table) and callable(figure.picture)
    assert hasattr(figure, "file_of") == (figure.READS == "variants")
    assert "table" in figure.Settings.model_fields or figure.READS == "variants"


def test_all_kinds_are_read_without_torch(root: Path) -> None:
    """Snakemake reads them for every job of a cluster, where importing torch takes seconds."""
    program = (
        "import sys; from condenser import config, kinds\n"
        f"for folder, name in {ALL!r}: kinds.load(folder, name)\n"
        "found = {'torch', 'transformers', 'pandas', 'matplotlib', 'datasets', 'faiss'} & set(sys.modules)\n"
        "assert not found, found"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
