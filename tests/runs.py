"""Helpers of the tests that run the workflow: a checkout of its own, and what a run left."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from condenser.files import sha256_file

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
    """The environment of a run: nothing of pytest's own limits on threads."""
    return {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}


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
