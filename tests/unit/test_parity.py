"""How results are compared with the authors' (`make parity`), on small files made up here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

FAILING = "coCondenser: contrastive loss"


@pytest.fixture
def rows(root: Path) -> Iterator[ModuleType]:
    sys.path.insert(0, str(root / "benchmarks" / "parity"))
    import rows as module

    yield module
    sys.path.remove(str(root / "benchmarks" / "parity"))


@pytest.fixture
def work(rows: ModuleType, tmp_path: Path) -> Path:
    """Results as they should be: equal, or as far apart as is documented."""
    sides: dict[str, dict[str, dict[str, np.ndarray]]] = {"ours": {}, "theirs": {}}
    for row in rows.ROWS:
        for check in row.checks:
            value = np.array([1.0, -2.0, 3.0])
            name = row.names.replace("*", "x")
            sides["theirs"].setdefault(check, {})[name] = value
            apart = sum(row.known) / 2 if row.known else 0.0
            sides["ours"].setdefault(check, {})[name] = value - apart
    for side, checks in sides.items():
        (tmp_path / side).mkdir()
        for check, tensors in checks.items():
            save_file(tensors, tmp_path / side / f"{check}.safetensors")
    (tmp_path / "theirs" / "status.json").write_text(json.dumps(dict.fromkeys(sides["theirs"])))
    (tmp_path / "theirs" / "versions.json").write_text(json.dumps({"torch": "2.13.0"}))
    return tmp_path


def parity(root: Path, work: Path, *, authors: str = "none") -> subprocess.CompletedProcess[str]:
    compare = ["--compare-only"] if authors == "none" else []
    return subprocess.run(
        [
            *[sys.executable, str(root / "benchmarks" / "parity" / "parity.py"), "--authors", authors],
            *["--environment", str(work / "environment"), "--work", str(work), *compare],
        ],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"},
    )


def change(work: Path, check: str, name: str, by: float) -> None:
    file = work / "ours" / f"{check}.safetensors"
    tensors = load_file(file)
    tensors[name] = tensors[name] + by
    save_file(tensors, file)


def line_of(output: str, what: str) -> str:
    (line,) = [line for line in output.splitlines() if line.startswith(f"| {what} |")]
    return line


@pytest.mark.slow
def test_our_side_computes_all_that_the_rows_compare(root: Path, rows: ModuleType, tmp_path: Path) -> None:
    program = root / "benchmarks" / "parity" / "ours.py"
    subprocess.run([sys.executable, str(program), "--work", str(tmp_path)], check=True, cwd=root)
    for row in rows.ROWS:
        for check in row.checks:
            tensors = load_file(tmp_path / "ours" / f"{check}.safetensors")
            found = [value for name, value in tensors.items() if fnmatch(name, row.names)]
            assert found and all(np.isfinite(value).all() for value in found), (check, row.names)


def test_equal_sides_and_documented_differences_pass(root: Path, rows: ModuleType, work: Path) -> None:
    done = parity(root, work)
    assert done.returncode == 0, done.stderr
    known = sum(row.known is not None for row in rows.ROWS)
    assert f"{len(rows.ROWS) - known} equal, {known} differ as documented, 0 fail\n" in done.stdout
    assert done.stdout == (work / "table.md").read_text()


def test_a_difference_beyond_the_tolerance_fails_and_names_its_row(root: Path, work: Path) -> None:
    change(work, "cocondenser", "contrastive", 3e-11)  # 1e-11 of the largest number, 3
    done = parity(root, work)
    assert done.returncode == 1
    assert done.stdout.rstrip().endswith(f"1 fail: {FAILING}")
    assert line_of(done.stdout, FAILING) == f"| {FAILING} | 3.0e-11 | 1.0e-11 | 1e-12 | FAILS |"


def test_rounding_is_no_difference(root: Path, work: Path) -> None:
    change(work, "cocondenser", "contrastive", 1e-13)
    assert parity(root, work).returncode == 0


def test_nan_fails(root: Path, work: Path) -> None:
    change(work, "cocondenser", "contrastive", float("nan"))
    done = parity(root, work)
    assert done.returncode == 1 and "1 fail: " in done.stdout


def test_another_number_of_values_fails(root: Path, work: Path) -> None:
    file = work / "ours" / "blocks.safetensors"
    tensors = load_file(file)
    save_file(tensors | {"x 0.1": tensors["x 0.1"][:2].copy()}, file)
    done = parity(root, work)
    assert done.returncode == 1
    assert done.stdout.rstrip().endswith("1 fail: blocks, same sentences, short ones 10 %, same draws")


def test_a_documented_difference_that_is_gone_fails(root: Path, rows: ModuleType, work: Path) -> None:
    (row,) = [row for row in rows.ROWS if "batches_dense" in row.checks]
    change(work, "batches_dense", "x", 1.0)  # theirs trains on the last batch, too
    change(work, "batches_tevatron", "x", 1.0)
    done = parity(root, work)
    assert done.returncode == 1
    assert "FAILS: not as documented" in line_of(done.stdout, row.what)


def test_what_a_clone_lacks_is_said_and_not_counted_as_passed(
    root: Path, rows: ModuleType, work: Path
) -> None:
    status = work / "theirs" / "status.json"
    lacking = json.loads(status.read_text()) | {
        "blocks": "Condenser/helper/create_train.py is not in the clone"
    }
    status.write_text(json.dumps(lacking))
    (work / "theirs" / "blocks.safetensors").unlink()
    done = parity(root, work)
    lacks = [row for row in rows.ROWS if row.checks == ("blocks",)]
    assert f"{len(lacks)} not there (not counted as passed)" in done.stdout
    assert "not there: Condenser/helper/create_train.py is not in the clone" in line_of(
        done.stdout, lacks[0].what
    )
    equal = sum(row.known is None for row in rows.ROWS) - len(lacks)
    assert f"\n{equal} equal, " in done.stdout


def test_results_that_only_one_side_has_are_refused(root: Path, work: Path) -> None:
    file = work / "theirs" / "condenser.safetensors"
    save_file({name: value for name, value in load_file(file).items() if name != "grad/c_head.x"}, file)
    done = parity(root, work)
    assert done.returncode == 1 and done.stderr.startswith("error: ") and "c_head" in done.stderr


def test_without_clones_the_message_says_what_to_give(root: Path, tmp_path: Path) -> None:
    done = parity(root, tmp_path, authors="")
    assert done.returncode == 1
    assert done.stderr == (
        "error: AUTHORS: expected a folder with clones of luyug/Condenser, luyug/GradCache, luyug/Dense, "
        "texttron/tevatron at tevatron-v1, got none. Give it: make parity AUTHORS=<folder>.\n"
    )


def test_a_missing_clone_is_named_before_anything_is_installed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "Condenser").mkdir()
    (tmp_path / "Condenser" / "modeling.py").touch()
    done = parity(root, tmp_path, authors=str(tmp_path))
    assert done.returncode == 1 and not (tmp_path / "environment").exists()
    assert done.stderr.startswith(f"error: {tmp_path / 'GradCache'}: expected a clone of luyug/GradCache")


def test_make_parity_passes_the_folder_on(root: Path) -> None:
    command = ["make", "--dry-run", "parity", "AUTHORS=/some/clones"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert '--authors "/some/clones"' in done.stdout
