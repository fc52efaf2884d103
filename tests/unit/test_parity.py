"""How results are compared with the authors' (`make parity`), on small files made up here."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

FAILING = "coCondenser: contrastive loss"
CLONES = ("dense", "tevatron")


@pytest.fixture(scope="module")
def parity(root: Path) -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "benchmarks" / "parity"))
        return importlib.import_module("parity")


@pytest.fixture
def rows(parity: ModuleType) -> list[dict[str, str]]:
    found: list[dict[str, str]] = parity.read_rows()
    return found


@pytest.fixture
def work(rows: list[dict[str, str]], tmp_path: Path) -> Path:
    """Results as they should be: equal, or as far apart as is documented."""
    ours: dict[str, dict[str, torch.Tensor]] = {}
    theirs: dict[str, dict[str, dict[str, torch.Tensor]]] = {}
    for row in rows:
        check, name, value = row["check"], row["tensors"].replace("*", "x"), torch.tensor([1.0, -2.0, 3.0])
        apart = (float(row["lowest"]) + float(row["highest"])) / 2 if row["lowest"] else 0.0
        ours.setdefault(check, {})[name] = value.double() - apart
        for clone in CLONES:
            theirs.setdefault(check, {}).setdefault(clone, {})[name] = value.double()
    for file, content in (("ours", ours), ("theirs", theirs), ("versions", {"torch": "2.13.0"})):
        torch.save(content, tmp_path / f"{file}.pt")
    return tmp_path


Compared = Callable[[], tuple[int, str]]


@pytest.fixture
def compared(parity: ModuleType, work: Path, capsys: pytest.CaptureFixture[str]) -> Compared:
    """The status and what is printed."""

    def run() -> tuple[int, str]:
        try:
            parity.main(["--compare-only", "--authors", "", "--environment", "none", "--work", str(work)])
        except SystemExit as end:
            return int(end.code or 0), capsys.readouterr().out
        return 0, capsys.readouterr().out

    return run


def change(work: Path, side: str, *path: str, to: Callable[[Any], Any]) -> None:
    """Replace one result of a side."""
    content = results = torch.load(work / f"{side}.pt")
    for name in path[:-1]:
        results = results[name]
    results[path[-1]] = to(results[path[-1]])
    torch.save(content, work / f"{side}.pt")


@pytest.mark.ci
def test_our_side_computes_all_that_the_rows_compare(
    root: Path, rows: list[dict[str, str]], tmp_path: Path
) -> None:
    program = root / "benchmarks" / "parity" / "pairs.py"
    subprocess.run([sys.executable, str(program), "--work", str(tmp_path)], check=True, cwd=root)
    results = torch.load(tmp_path / "ours.pt")
    for row in rows:
        found = [value for name, value in results[row["check"]].items() if fnmatch(name, row["tensors"])]
        assert found and all(value.isfinite().all() for value in found), row


def test_equal_sides_and_documented_differences_pass(
    compared: Compared, rows: list[dict[str, str]], work: Path
) -> None:
    status, output = compared()
    known = sum(bool(row["lowest"]) for row in rows)
    assert status == 0
    assert f"{len(rows) - known} equal, {known} differ as documented, 0 fail\n" in output
    assert output == (work / "table.md").read_text()


@pytest.mark.parametrize(
    ("path", "to", "status", "said"),
    [
        (
            "ours/cocondenser/contrastive", lambda value: value + 3e-11, 1,  # 1e-11 of 3
            f"| {FAILING} | 3.0e-11 | 1.0e-11 | 1e-12 | FAILS |",
        ),
        ("ours/cocondenser/contrastive", lambda value: value + 1e-13, 0, ", 0 fail\n"),  # rounding
        ("ours/cocondenser/contrastive", lambda value: value * float("nan"), 1, f"1 fail: {FAILING}"),
        ("theirs/finetuning/tevatron/plain: loss", lambda value: value + 1, 1, "1 fail: fine-tuning: loss"),
        ("ours/blocks/x 0.1", lambda value: value[:2], 1, "1 fail: blocks, same sentences, short ones 10 %"),
        ("ours/batches/x", lambda value: value + 1, 1, "FAILS: not as documented"),  # a difference is gone
        (
            "theirs/blocks", lambda _: {"Condenser": "create_train.py is not in the clone"}, 0,
            "not there: create_train.py is not in the clone",
        ),
    ],
)  # fmt: skip
def test_a_difference_fails_unless_it_is_rounding_or_documented(
    compared: Compared, work: Path, path: str, to: Callable[[Any], Any], status: int, said: str
) -> None:
    change(work, *path.split("/"), to=to)
    found, output = compared()
    assert found == status and said in output


def test_results_that_only_one_side_has_are_refused(compared: Compared, work: Path) -> None:
    def without(results: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in results.items() if name != "grad/c_head.x"}

    change(work, "theirs", "condenser", "dense", to=without)
    with pytest.raises(ValueError, match=r"condenser: expected on both sides .* got grad/c_head.x on one"):
        compared()


def test_clones_are_asked_for_before_anything_is_installed(parity: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"AUTHORS: expected a folder with clones of luyug/Condenser"):
        parity.check_clones("")
    (tmp_path / "Condenser").mkdir()
    (tmp_path / "Condenser" / "modeling.py").touch()
    with pytest.raises(ValueError, match=f"{tmp_path}/GradCache: expected a clone of luyug/GradCache"):
        parity.check_clones(str(tmp_path))
