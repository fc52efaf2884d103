"""Code digests change with what code does, and with nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from condenser.pipeline import code


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "condenser" / "data").mkdir(parents=True)
    (tmp_path / "workflow_scripts").mkdir()
    (tmp_path / "condenser" / "__init__.py").write_text("")
    (tmp_path / "condenser" / "data" / "__init__.py").write_text("")
    (tmp_path / "condenser" / "data" / "a.py").write_text('"""Doc."""\nfrom condenser.data import b\nX = 1\n')
    (tmp_path / "condenser" / "data" / "b.py").write_text("def f():\n    return 2\n")
    (tmp_path / "condenser" / "data" / "other.py").write_text("Y = 1\n")
    (tmp_path / "workflow_scripts" / "tool.py").write_text(
        "def main():\n    from condenser.data.a import X\n    return X\n"
    )
    return tmp_path


def digests(checkout: Path, **more: list[str]) -> dict[str, str]:
    code._read.cache_clear()
    return code.code_digests(checkout / "workflow_scripts" / "tool.py", root=checkout, **more)


def edit(checkout: Path, name: str, text: str) -> dict[str, str]:
    (checkout / name).write_text(text)
    return digests(checkout)


def test_modules_are_found_through_others_and_inside_functions(checkout: Path) -> None:
    assert set(digests(checkout)) == {"tool.py", "condenser.data", "condenser.data.a", "condenser.data.b"}


def test_a_comment_a_docstring_and_blank_lines_change_nothing(checkout: Path) -> None:
    before = digests(checkout)
    after = edit(
        checkout,
        "condenser/data/b.py",
        '"""New."""\n# why\n\ndef f():\n    """Two."""\n    return 2  # two\n',
    )
    assert after == before


def test_another_value_changes_its_module_alone(checkout: Path) -> None:
    before = digests(checkout)
    after = edit(checkout, "condenser/data/b.py", "def f():\n    return 3\n")
    assert {name for name in before if before[name] != after[name]} == {"condenser.data.b"}


def test_a_module_that_is_not_imported_does_not_count(checkout: Path) -> None:
    before = digests(checkout)
    assert edit(checkout, "condenser/data/other.py", "Y = 2\n") == before


def test_a_module_imported_by_name_counts_when_declared(checkout: Path) -> None:
    assert "condenser.data.other" in digests(checkout, modules=["condenser.data.other"])
