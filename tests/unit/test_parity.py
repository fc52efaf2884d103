"""How results are compared with the authors' (`make parity`), on small files made up here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

FAILING = "coCondenser: contrastive loss"
CLONES = ("dense", "tevatron")


@pytest.fixture
def parity(root: Path) -> Iterator[ModuleType]:
    folder = str(root / "benchmarks" / "parity")
    sys.path.insert(0, folder)
    import parity as module

    yield module
    sys.path.remove(folder)


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


@pytest.fixture
def compared(
    parity: ModuleType, work: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[], tuple[int, str]]:
    """The status and what is printed."""

    def run() -> tuple[int, str]:
        try:
            parity.main(["--compare-only", "--authors", "", "--environment", "none", "--work", str(work)])
        except SystemExit as end:
            return end.code, capsys.readouterr().out  # type: ignore[return-value]
        return 0, capsys.readouterr().out

    return run


def change(work: Path, side: str, *path: str, to: Callable[[Any], Any]) -> None:
    """Replace one result of a side."""
    content = results = torch.load(work / f"{side}.pt")
    for name in path[:-1]:
        results = results[name]
    results[path[-1]] = to(results[path[-1]])
    torch.save(content, work / f"{side}.pt")


def line_of(output: str, what: str) -> str:
    (line,) = [line for line in output.splitlines() if line.startswith(f"| {what} |")]
    return line


Compared = Callable[[], tuple[int, str]]


@pytest.mark.ci
def test_our_side_computes_all_that_the_rows_compare(
    root: Path, rows: list[dict[str, str]], tmp_path: Path
) -> None:
    program = root / "benchmarks" / "parity" / "ours.py"
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


def test_a_difference_beyond_the_tolerance_fails_and_names_its_row(compared: Compared, work: Path) -> None:
    change(work, "ours", "cocondenser", "contrastive", to=lambda value: value + 3e-11)  # 1e-11 of 3
    status, output = compared()
    assert status == 1 and output.rstrip().endswith(f"1 fail: {FAILING}")
    assert line_of(output, FAILING) == f"| {FAILING} | 3.0e-11 | 1.0e-11 | 1e-12 | FAILS |"


def test_a_difference_of_one_clone_fails(compared: Compared, work: Path) -> None:
    change(work, "theirs", "finetuning", "tevatron", "plain: loss", to=lambda value: value + 1)
    status, output = compared()
    assert status == 1 and output.rstrip().endswith("1 fail: fine-tuning: loss")


def test_rounding_is_no_difference(compared: Compared, work: Path) -> None:
    change(work, "ours", "cocondenser", "contrastive", to=lambda value: value + 1e-13)
    assert compared()[0] == 0


def test_nan_fails(compared: Compared, work: Path) -> None:
    change(work, "ours", "cocondenser", "contrastive", to=lambda value: value * float("nan"))
    status, output = compared()
    assert status == 1 and "1 fail: " in output


def test_another_number_of_values_fails(compared: Compared, work: Path) -> None:
    change(work, "ours", "blocks", "x 0.1", to=lambda value: value[:2])
    status, output = compared()
    assert status == 1
    assert output.rstrip().endswith("1 fail: blocks, same sentences, short ones 10 %, same draws")


def test_a_documented_difference_that_is_gone_fails(
    compared: Compared, rows: list[dict[str, str]], work: Path
) -> None:
    (row,) = [row for row in rows if row["check"] == "batches"]
    change(work, "ours", "batches", "x", to=lambda value: value + 1)  # theirs trains on the last batch, too
    status, output = compared()
    assert status == 1 and "FAILS: not as documented" in line_of(output, row["what"])


def test_what_a_clone_lacks_is_said_and_not_counted_as_passed(
    compared: Compared, rows: list[dict[str, str]], work: Path
) -> None:
    lack = "Condenser/helper/create_train.py is not in the clone"
    change(work, "theirs", "blocks", to=lambda _: {"Condenser": lack})
    status, output = compared()
    lacks = [row for row in rows if row["check"] == "blocks"]
    assert status == 0 and f"{len(lacks)} not there (not counted as passed)" in output
    assert f"not there: {lack}" in line_of(output, lacks[0]["what"])
    assert f"\n{sum(not row['lowest'] for row in rows) - len(lacks)} equal, " in output


def test_results_that_only_one_side_has_are_refused(compared: Compared, work: Path) -> None:
    change(
        work, "theirs", "condenser", "dense",
        to=lambda results: {name: value for name, value in results.items() if name != "grad/c_head.x"},
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"condenser: expected on both sides .* got grad/c_head.x on one"):
        compared()


def run(root: Path, tmp_path: Path, authors: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(root / "benchmarks" / "parity" / "parity.py"), "--authors", authors]
    options = ["--environment", str(tmp_path / "environment"), "--work", str(tmp_path)]
    environment = {"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"}
    return subprocess.run([*program, *options], capture_output=True, text=True, check=False, env=environment)


def test_without_clones_the_message_says_what_to_give(root: Path, tmp_path: Path) -> None:
    done = run(root, tmp_path, authors="")
    assert done.returncode == 1
    assert done.stderr == (
        "error: AUTHORS: expected a folder with clones of luyug/Condenser, luyug/GradCache, luyug/Dense, "
        "texttron/tevatron at tevatron-v1, got none. Give it: make parity AUTHORS=<folder>.\n"
    )


def test_a_missing_clone_is_named_before_anything_is_installed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "Condenser").mkdir()
    (tmp_path / "Condenser" / "modeling.py").touch()
    done = run(root, tmp_path, authors=str(tmp_path))
    assert done.returncode == 1 and not (tmp_path / "environment").exists()
    assert done.stderr.startswith(f"error: {tmp_path / 'GradCache'}: expected a clone of luyug/GradCache")
