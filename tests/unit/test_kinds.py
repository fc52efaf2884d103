"""Kinds are found by file name and hold what the `__init__.py` of their folder says."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from condenser import kinds
from condenser.data import sources
from condenser.evaluate import figures, measures
from condenser.nouns import Figure, FineTunedSystem, Model, Pretraining, Sentences, System, Texts
from condenser.objectives import FOLDER as OBJECTIVES
from condenser.systems import FOLDER as SYSTEMS


def test_a_kind_is_a_file_of_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_ROOT", tmp_path)
    (tmp_path / "things").mkdir()
    for name in ("b.py", "a.py", "_shared.py", "notes.txt"):
        (tmp_path / "things" / name).touch()
    assert kinds.names("things") == ["a", "b"]
    assert kinds.names("nothing") == []


@pytest.mark.parametrize("name", ["os", "__init__", "../kinds", "", "condenser.data.sources.beir"])
def test_another_name_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(ValueError, match=r"^expected one of .*bm25.*, got ") as caught:
        kinds.load(SYSTEMS, name)
    assert repr(name) in str(caught.value)


HOLDS = {  # the class of its settings, and its functions
    sources.FOLDER: (Texts, ["collect"]),
    OBJECTIVES: (Model, []),
    SYSTEMS: (System, []),
    figures.FOLDER: (Figure, ["table", "picture"]),
}


@pytest.mark.parametrize(
    ("folder", "name"), [(folder, name) for folder in HOLDS for name in kinds.names(folder)]
)
def test_a_kind_holds_what_its_folder_says(root: Path, folder: str, name: str) -> None:
    kind = kinds.load(folder, name)
    assert kind.__name__ == kinds.module_name(folder, name)  # under which specs digest its code
    settings, functions = HOLDS[folder]
    assert issubclass(kind.Settings, settings)
    if folder == sources.FOLDER:
        own = vars(kind.Settings).keys()
        assert own & {"installed", "raw_files", "local_files"}
        assert ("example_files" in own) == hasattr(kind, "make_examples")
        assert (kind.Settings.TASK is not None) == issubclass(kind.Settings, Sentences)
    elif folder == OBJECTIVES and name not in ("checkpoint", "best_of"):  # which train nothing
        assert issubclass(kind.Settings, Pretraining)
        functions = ["training"]
        assert kind.Settings.longest_row is not Model.longest_row
    elif folder == SYSTEMS:
        assert (root / "rules" / "systems" / f"{name}.smk").is_file()
        is_fine_tuned = issubclass(kind.Settings, FineTunedSystem)
        assert is_fine_tuned == (kind.Settings.training is not System.training)
    elif folder == figures.FOLDER:
        assert hasattr(kind, "file_of") == (kind.READS == "variants")
        assert "table" in kind.Settings.model_fields or kind.READS == "variants"
    assert all(callable(getattr(kind, function)) for function in functions)


def test_two_measures_of_one_name_are_refused_with_both_files(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {name: ModuleType(name) for name in ("r", "recall")}
    for name, module in modules.items():
        module.NAME, module.__file__ = "R", f"{name}.py"  # type: ignore[attr-defined]
    monkeypatch.setattr(kinds, "names", lambda folder: list(modules))
    monkeypatch.setattr(kinds, "load", lambda folder, name: modules[name])
    with pytest.raises(ValueError, match=r"^recall\.py: NAME: .* got 'R', that of r\.py\. Rename one\.$"):
        measures._by_name.__wrapped__()


def test_two_kinds_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_ROOT", tmp_path)
    for folder in ("things/double", "papers/things"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("things/double.py", "things/double/__init__.py", "things/both.py", "papers/things/both.py"):
        (tmp_path / file).touch()
    for name in ("double", "both"):
        with pytest.raises(
            ValueError, match=rf"{name}.*: expected a name of its own, got that of .*{name}\.py"
        ):
            kinds.load("things", name)
