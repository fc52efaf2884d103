"""Helpers of the tests that run the workflow: a checkout of its own, and what a run left."""

from __future__ import annotations

import csv
import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from condenser.data.records import ScoredDoc, read_run
from condenser.files import sha256_file

ROOT = Path(__file__).resolve().parents[1]
TARGET = "results/tiny/table2.tsv"
# Records of how and when a job went; everything else must be the same in every run.
_NOT_COMPARED = ("logs", "benchmarks", ".work", "index")
_PARTS = ("Snakefile", "config.yaml", "configs", "rules", "profiles", "envs", "workflow_scripts", "condenser")


def checkout(root: Path, folder: Path) -> Path:
    """A copy of the workflow in `folder`, without results."""
    folder.mkdir(parents=True)
    for name in _PARTS:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    shutil.copytree(root / "tests" / "data" / "tiny", folder / "tests" / "data" / "tiny")
    return folder


def command(
    *arguments: str,
    target: str = TARGET,
    cores: int = 2,
    overlays: Sequence[str] = (),
    base: str = "configs/tiny.yaml",
) -> list[str]:
    """The command line of a run, of the tiny configuration if none is given; `arguments` may be targets."""
    return [
        sys.executable, "-m", "snakemake", target, *arguments,
        "--cores", str(cores), "--configfile", base, *overlays, "--rerun-incomplete",
    ]  # fmt: skip


def environment() -> dict[str, str]:
    """The environment of a run from a shell, without pytest's limit on threads and what its own make says."""
    own = {"OMP_NUM_THREADS", "MAKELEVEL", "MAKEFLAGS", "MFLAGS"}
    return {key: value for key, value in os.environ.items() if key not in own}


def run(folder: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Snakemake in a checkout and wait for it; gives its status and all it said."""
    return subprocess.run(
        command(*arguments, **options),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def finished(folder: Path, *arguments: str, **options: Any) -> str:
    """Run Snakemake to a good end; gives what it said."""
    done = run(folder, *arguments, **options)
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def rules_to_run(folder: Path, *arguments: str, **options: Any) -> set[str]:
    """The rules a dry run names."""
    return started_rules(finished(folder, "-n", *arguments, **options))


def started_rules(said: str) -> set[str]:
    """The rules whose jobs a run (rules/progress.smk) or a dry run announced."""
    return set(re.findall(r"^(?:(?:local)?rule|[\d:]+ started) (\w+)", said, flags=re.MULTILINE))


def made_once(tmp_path_factory: pytest.TempPathFactory, name: str, make_in: Callable[[Path], object]) -> Path:
    """A folder that the first process of the tests makes for all of them."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # one of several processes: the folder above is common to them
        shared = shared.parent
    folder, is_made = shared / name, shared / f"{name}-is-made"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_made.exists():
            shutil.rmtree(folder, ignore_errors=True)  # what a failed run left
            make_in(folder)
            is_made.touch()
    return folder


def copied(checkout: Path, folder: Path) -> Path:
    """A copy of a checkout with its results, elsewhere and with new times of change."""
    return shutil.copytree(checkout, folder, symlinks=True, copy_function=shutil.copyfile)


def hits_by_query(run: Path) -> dict[str, list[ScoredDoc]]:
    """The hits of each query of a run, in its order."""
    return {query_id: list(hits) for query_id, hits in groupby(read_run(run), key=attrgetter("query_id"))}


def scores_by_query(run: Path) -> dict[str, dict[str, float]]:
    """The score of each hit of each query of a run, by doc_id in the order of the run."""
    found = hits_by_query(run).items()
    return {query_id: {hit.doc_id: hit.score for hit in hits} for query_id, hits in found}


def rows_of(table: Path) -> list[dict[str, str]]:
    """The rows of a table, by the names of its columns."""
    with table.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@contextmanager
def served(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The server of a checkout's results, as `make serve` starts it, and the address that it prints."""
    program = [sys.executable, "workflow_scripts/ask.py", "--known", ".snakemake/known.json"]
    with subprocess.Popen(
        [*program, "--serve", "--port=0"],
        cwd=folder,
        env={**environment(), "PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            address = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stdout.readline())
            assert address, process.stderr and process.stderr.read()
            yield process, address[0]
        finally:
            process.kill()


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of everything a run made, but records of time and place."""
    results = folder / "results"
    return {
        str(path.relative_to(results)): sha256_file(path)
        for path in sorted(results.rglob("*"))
        if path.is_file()
        and not path.name.endswith(".manifest.json")
        and not any(part in _NOT_COMPARED for part in path.relative_to(results).parts)
    }


def edit(folder: Path, name: str, old: str, new: str) -> None:
    """Replace a text that stands once in a file."""
    file = folder / name
    text = file.read_text()
    assert text.count(old) == 1, f"{name}: {old!r} stands {text.count(old)} times"
    file.write_text(text.replace(old, new))
