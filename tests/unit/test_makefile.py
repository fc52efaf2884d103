"""`make` where .venv is a link to the environment of another checkout or half made, and with overlays."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def make_setup(folder: Path, *requirements: str) -> subprocess.CompletedProcess[str]:
    (folder / "requirements.lock").write_text("\n".join(requirements))
    return subprocess.run(["make", "setup"], cwd=folder, capture_output=True, text=True, check=False)


def test_a_linked_environment_is_compared_and_left_as_it_is(root: Path, tmp_path: Path) -> None:
    other, mine = tmp_path / "other", tmp_path / "it's my $d; (#)"
    subprocess.run([sys.executable, "-m", "venv", other / ".venv"], check=True)
    mine.mkdir()
    shutil.copy(root / "Makefile", mine)
    (mine / "pyproject.toml").touch()
    (mine / ".venv").symlink_to(other / ".venv")
    before = {path for path in other.rglob("*") if "__pycache__" not in path.parts}
    done = make_setup(mine, "pip")
    assert done.returncode == 0, done.stderr
    refused = make_setup(mine, "no-such-package==1.0")
    assert (
        refused.returncode != 0
        and "error: .venv: expected the versions of requirements.lock" in refused.stdout
    )
    assert {path for path in other.rglob("*") if "__pycache__" not in path.parts} == before


def test_an_environment_that_was_made_without_pip_is_made_again(root: Path, tmp_path: Path) -> None:
    """Debian's and Ubuntu's python3 leaves one behind as long as their package python3-venv is missing."""
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(root / name, tmp_path)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / ".venv"], check=True)
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$@" >> asked\n')
    python.chmod(0o755)
    done = subprocess.run(
        ["make", "setup", f"PYTHON={python}"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0 and "No module named pip" in done.stderr  # as this Python makes none
    assert (tmp_path / "asked").read_text().splitlines()[-1] == "-m venv .venv"


TOLD = """#!/bin/sh
echo "$@" >> told
mkdir -p .venv/wheels
case "$*" in *check) echo "torch 2 requires cuda, which is not installed.";; *"$REFUSED"*) exit 1;; esac
"""


@pytest.mark.parametrize(
    ("refused", "asked"),
    [
        (
            "nothing",
            ["--require-hashes --requirement requirements.lock", "requirements-cuda.lock", "--editable ."],
        ),
        ("requirements.lock", ["--require-hashes --requirement requirements.lock"]),
        ("import sys, platform", [".venv/requirements.txt", "--editable ."]),
    ],
)
def test_setup_compares_packages_with_the_hashes_of_the_lock(
    root: Path, tmp_path: Path, refused: str, asked: list[str]
) -> None:
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(root / name, tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name in ("python", "pip"):
        (tmp_path / ".venv" / "bin" / name).write_text(TOLD)
        (tmp_path / ".venv" / "bin" / name).chmod(0o755)
    done = subprocess.run(
        ["make", "setup"],
        env={**os.environ, "REFUSED": refused},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert (done.returncode == 0) is (refused != "requirements.lock")
    installed = [line for line in (tmp_path / "told").read_text().splitlines() if " install " in line]
    if refused != "import sys, platform":
        assert installed.pop(0).endswith("--require-hashes --requirement .venv/torch.txt")
    assert len(installed) == len(asked)
    assert all(line.endswith(words) for line, words in zip(installed, asked, strict=True))
    if refused == "import sys, platform":  # a platform whose files have no hashes here
        assert "--hash" not in (tmp_path / ".venv" / "requirements.txt").read_text()


def made(root: Path, folder: Path, *arguments: str) -> str:
    """What `make` runs in place of Python: a line of its words."""
    (folder / ".venv" / "bin").mkdir(parents=True)
    python = folder / ".venv" / "bin" / "python"
    python.write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n")
    python.chmod(0o755)
    done = subprocess.run(
        ["make", "-f", root / "Makefile", "-o", ".venv/ready", *arguments],
        env={"CORES": "2", **os.environ}, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_a_folder_whose_path_has_a_colon_is_refused(root: Path, tmp_path: Path) -> None:
    said = made(root, tmp_path / "a:b", "setup")
    assert f"{tmp_path}/a:b: expected a folder without a colon" in said and "Clone elsewhere" in said


@pytest.mark.parametrize("target", ["results/mine/table2.tsv", "report", "verify", "search", "serve"])
def test_the_overlays_of_config_reach_snakemake_before_its_options(
    root: Path, tmp_path: Path, target: str
) -> None:
    said = made(root, tmp_path, "-n", target, "CONFIG=a.yaml b.yaml")
    assert "python -m condenser.pipeline.command_line --configfile $CONFIG --" in said


def test_a_name_of_an_overlay_is_run_by_neither_make_nor_the_shell(root: Path, tmp_path: Path) -> None:
    name = "a;touch${IFS}b|$(shell touch c)`touch d`*'x"
    said = made(root, tmp_path, "results/mine/table2.tsv", f"CONFIG={name}")
    words = "><".join(name.split())
    assert f"<--configfile><{words}><--cores><2><results/mine/table2.tsv>" in said
    assert {path.name for path in tmp_path.iterdir()} == {".venv"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("results/{}", "<--cores><2><results/{}>"),
        ("results/x CORES={}", "<--cores><{}><results/x>"),
        ("report DATASET={}", "<results/{}/report.html>"),
        ("verify DATASET={} AGAINST={}", "<verify>"),
        (
            "search SYSTEM={} QUERY={} DATASET={}",
            "<--dataset><{}><--system><{}><--variant><><--depth><10><--query><{}>",
        ),
        ("search SYSTEM=a QUERY=b VARIANT={} DEPTH={}", "<--variant><{}><--depth><{}><--query><b>"),
        ("serve PORT={}", "<--serve><--port><{}>"),
        ("bench THREADS={} CLOCK={}", "<--threads><{}><--clock><{}><--device><cpu>"),
        ("bench LONG={} CORES={}", "<--threads><{}><--clock><wall><--device><auto><--long>"),
        ("parity AUTHORS={}", "<--authors><{}>"),
    ],
)
@pytest.mark.parametrize("where", ["of make", "of the environment"])
def test_a_text_of_the_user_is_run_by_neither_make_nor_the_shell(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, words: str, where: str
) -> None:
    text = "a;touch${IFS}b;$(shell touch c)`touch d`'\"$$x#"
    target, *variables = line.split()
    variables = [variable.replace("{}", text) for variable in variables]
    if where == "of the environment":
        for variable in variables:
            monkeypatch.setenv(*variable.split("=", 1))
    said = made(root, tmp_path, target.replace("{}", text), *(variables if where == "of make" else []))
    assert words.replace("{}", text) in said
    assert {path.name for path in tmp_path.iterdir()} == {".venv"}
