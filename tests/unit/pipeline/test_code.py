"""Code digests change with what code does, and with nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from condenser.pipeline import code
from condenser.pipeline.remembered import Remembered


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


def digests(checkout: Path, *modules: str) -> dict[str, str]:
    code.code_digests.cache_clear()
    code._file_of.cache_clear()
    return code.code_digests(checkout / "workflow_scripts" / "tool.py", checkout, modules)


def test_files_are_parsed_once_until_they_or_the_rendering_change(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    parse = code.ast.parse

    def noted(text: bytes, filename: str, *more: Any) -> Any:  # pytest's plugins parse what failed, too
        parsed.append(filename)
        return parse(text, filename, *more)

    monkeypatch.setattr(code.ast, "parse", noted)
    place, tool = tmp_path / "work" / "digests.json", checkout / "workflow_scripts" / "tool.py"

    def remembered_digests() -> dict[str, str]:
        remembered = Remembered(place)
        found = code.code_digests(tool, checkout, (), remembered)
        remembered.write()
        return found

    first = remembered_digests()
    assert len(parsed) == len(first) == 5 and first == digests(checkout)
    parsed.clear()
    assert remembered_digests() == first and not parsed
    (checkout / "condenser/data/b.py").write_text("def f():\n    return 3\n")
    changed = remembered_digests()
    assert [Path(file).name for file in parsed] == ["b.py"]
    assert {name for name in first if first[name] != changed[name]} == {"condenser.data.b"}
    (tmp_path / "code.py").write_text("")
    monkeypatch.setattr(code, "__file__", str(tmp_path / "code.py"))
    parsed.clear()
    assert remembered_digests() == changed and len(parsed) == 5


def edit(checkout: Path, name: str, text: str) -> dict[str, str]:
    (checkout / name).write_text(text)
    return digests(checkout)


def test_modules_are_found_through_others_and_inside_functions(checkout: Path) -> None:
    expected = {"tool.py", "condenser", "condenser.data", "condenser.data.a", "condenser.data.b"}
    assert set(digests(checkout)) == expected


@pytest.mark.parametrize(
    "block",
    [
        "try:\n    {}\nfinally:\n    pass",
        "try:\n    pass\nexcept OSError:\n    {}",
        "try:\n    pass\nexcept* OSError:\n    pass\nelse:\n    {}",
        "while x:\n    pass\nelse:\n    {}",
        "match x:\n    case 1:\n        {}",
        "class A:\n    async def f(self):\n        async with x:\n            {}",
    ],
)
def test_an_import_is_found_in_every_kind_of_block(checkout: Path, block: str) -> None:
    found = edit(checkout, "workflow_scripts/tool.py", block.format("import json, condenser.data.other"))
    assert "condenser.data.other" in found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f():\n    return 2\n", '"""New."""\n# why\n\ndef f():\n    """Two."""\n    return 2  # two\n'),
        ("Z = 'text'\n", "Z = u'text'\n"),
    ],
)
def test_comments_docstrings_blank_lines_and_prefixes_change_nothing(
    checkout: Path, one: str, other: str
) -> None:
    assert edit(checkout, "condenser/data/b.py", one) == edit(checkout, "condenser/data/b.py", other)


def test_a_module_that_is_not_imported_counts_only_when_it_is_declared(checkout: Path) -> None:
    (checkout / "workflow_scripts" / "tool.py").write_text("")
    assert set(digests(checkout)) == {"tool.py"}
    assert set(digests(checkout, "condenser.data.other")) == {
        "tool.py", "condenser", "condenser.data", "condenser.data.other"
    }  # fmt: skip


def test_the_packages_above_a_module_run_first_and_count(checkout: Path) -> None:
    (checkout / "workflow_scripts" / "tool.py").write_text("from condenser.data.deep.c import f\n")
    (checkout / "condenser" / "data" / "deep").mkdir()
    (checkout / "condenser" / "data" / "deep" / "c.py").write_text("def f(): ...\n")
    (checkout / "condenser" / "data" / "__init__.py").write_text("import condenser.data.other\n")
    before = digests(checkout)
    assert set(before) == {
        "tool.py", "condenser", "condenser.data", "condenser.data.deep.c", "condenser.data.other"
    }  # fmt: skip
    after = edit(checkout, "condenser/data/__init__.py", "import condenser.data.other\nSETTING = 1\n")
    assert {name for name in before if before[name] != after[name]} == {"condenser.data"}


@pytest.mark.parametrize("statement", ["from .other import Y", "from . import other"])
def test_a_relative_import_is_refused_because_it_names_no_module(checkout: Path, statement: str) -> None:
    with pytest.raises(ValueError, match=r"data/b\.py:2: expected an import by its whole name"):
        edit(checkout, "condenser/data/b.py", f"def f():\n    {statement}\n")


# Each of these some version of Python parses, prints or escapes otherwise than another.
PINNED = """
def f(x: int, /, *, width=None) -> str:
    'A docstring.'
    a = f"{x!r:>{width}}" u"b" f'{x["k"]}' f"{x:{a}{b}}" f"{x = :.2f}" ""
    return lambda y: (a, b"\\xff", 1e309, 2j, ..., "\U0001fae8", -1, None, [], {**x, 'a': {}})
"""


def test_a_digest_is_the_same_in_every_version_of_python(checkout: Path) -> None:
    assert edit(checkout, "condenser/data/b.py", PINNED)["condenser.data.b"] == "be6170ca980d"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = None", "x = []"),
        ("x = 1", "x = 1.0"),
        ("x = 1", "x = True"),
        ("x = '1'", "x = 1"),
        ("x = 'a'", "x = b'a'"),
        ("x = f'{a}'", "x = f'{a!s}'"),
        ("x = f'{a:}'", "x = f'{a: }'"),
        ("x = f'{a}b'", "x = f'{a}' 'c'"),
        ("x = {**a}", "x = {a: a}"),
        ("def f(*, a, b=1): ...", "def f(*, a=1, b): ..."),
        ("def f(a, /): ...", "def f(a): ..."),
        ("x: int", "x: int = None"),
        ("'doc'\nx = 'doc'", "'doc'\n'doc'"),
        ("async def f(): ...", "def f(): ..."),
    ],
)
def test_two_programs_that_differ_have_two_digests(checkout: Path, one: str, other: str) -> None:
    assert edit(checkout, "condenser/data/b.py", one) != edit(checkout, "condenser/data/b.py", other)


@pytest.mark.parametrize("rule", ["collect", "train"])
def test_a_new_key_of_a_block_reruns_nothing_that_does_not_name_it(root: Path, rule: str) -> None:
    """The values of settings are in a spec; the classes that declare them are no code of its result."""
    digests = code.code_digests(root / "workflow_scripts" / f"{rule}.py", root)
    assert digests and not {"condenser.blocks", "condenser.settings", "condenser.job"} & digests.keys()
