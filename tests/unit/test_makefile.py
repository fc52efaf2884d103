"""`make`: where .venv is a link or half made, and that no text of the user is run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml


def copy_setup(root: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(root / name, folder)


def run_make(folder: Path, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *words],
        env={**os.environ, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def write_program(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}")
    file.chmod(0o755)


def test_help_lists_every_command_in_three_groups(root: Path) -> None:
    shown = run_make(root, "--no-print-directory", "help").stdout
    assert re.findall(r"^\w+$", shown, re.M) == ["Use", "Check", "Develop"]
    assert max(map(len, shown.splitlines())) <= 100
    commands = re.search(r"^\.PHONY: (.+)$", (root / "Makefile").read_text(), re.M)
    assert commands
    assert set(commands[1].split()) - {"FORCE", "help"} <= set(re.findall(r"make ([\w-]+)", shown))
    assert "SHELL" not in shown  # the code below the comment


def test_hosted_integration_runs_what_ci_runs(root: Path) -> None:
    jobs = yaml.safe_load((root / ".github/workflows/ci.yml").read_text())["jobs"]
    run = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    on_every_change = re.findall(r"^make .+$", (root / ".ci/run").read_text(), re.M)
    assert on_every_change and run.keys() == {"test", "weekly"}
    assert run["test"] == ["make setup", *on_every_change]
    assert run["weekly"] == ["make setup", "make test-weekly"]


@pytest.mark.ci
def test_a_linked_environment_is_compared_and_left_as_it_is(root: Path, tmp_path: Path) -> None:
    other, mine = tmp_path / "other", tmp_path / "it's my $d; (#)"
    subprocess.run([sys.executable, "-m", "venv", other / ".venv"], check=True)
    copy_setup(root, mine)
    (mine / ".venv").symlink_to(other / ".venv")
    (mine / "pyproject.toml").write_text("")

    def files() -> set[Path]:
        return {path for path in other.rglob("*") if "__pycache__" not in path.parts}

    before = files()
    (mine / "requirements.lock").write_text("pip")
    done = run_make(mine, "setup")
    assert done.returncode == 0, done.stderr
    (mine / "requirements.lock").write_text("no-such-package==1.0")
    refused = run_make(mine, "setup")
    assert refused.returncode != 0
    assert "error: .venv: expected the versions of requirements.lock" in refused.stdout
    assert files() == before


def test_an_environment_that_was_made_without_pip_is_made_again(root: Path, tmp_path: Path) -> None:
    """Debian's and Ubuntu's python3 leaves one behind as long as their package python3-venv is missing."""
    copy_setup(root, tmp_path)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / ".venv"], check=True)
    write_program(tmp_path / "python", 'echo "$@" >> asked\n')
    done = run_make(tmp_path, "setup", f"PYTHON={tmp_path / 'python'}")
    assert done.returncode != 0 and "No module named pip" in done.stderr  # as this Python makes none
    assert (tmp_path / "asked").read_text().splitlines()[-1] == "-m venv .venv"


TOLD = """echo "$@" >> told
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
    copy_setup(root, tmp_path)
    for name in ("python", "pip"):
        write_program(tmp_path / ".venv" / "bin" / name, TOLD)
    done = run_make(tmp_path, "setup", REFUSED=refused)
    assert (done.returncode == 0) is (refused != "requirements.lock")
    installed = [line for line in (tmp_path / "told").read_text().splitlines() if " install " in line]
    if refused != "import sys, platform":
        assert installed.pop(0).endswith("--require-hashes --requirement .venv/torch.txt")
    assert len(installed) == len(asked)
    assert all(line.endswith(words) for line, words in zip(installed, asked, strict=True))
    if refused == "import sys, platform":  # a platform whose files have no hashes here
        assert "--hash" not in (tmp_path / ".venv" / "requirements.txt").read_text()


def made(root: Path, folder: Path, *arguments: str, **environment: str) -> str:
    """What `make` runs in place of Python: a line of its words."""
    write_program(folder / ".venv" / "bin" / "python", "printf '<%s>' \"$@\"\n")
    cores = {"CORES": os.environ.get("CORES", "2")}
    done = run_make(folder, "-f", root / "Makefile", "-o", ".venv/ready", *arguments, **cores, **environment)
    return done.stdout + done.stderr


def test_a_folder_whose_path_has_a_colon_is_refused(root: Path, tmp_path: Path) -> None:
    said = made(root, tmp_path / "a:b", "setup")
    assert f"{tmp_path}/a:b: expected a folder without a colon" in said and "Clone elsewhere" in said


@pytest.mark.parametrize("target", ["results/mine/table2.tsv", "report", "verify", "search", "serve"])
def test_the_overlays_of_config_reach_snakemake(root: Path, tmp_path: Path, target: str) -> None:
    is_asked = target in ("search", "serve")  # whose program is given the command
    said = made(root, tmp_path, *([] if is_asked else ["-n"]), target, "CONFIG=a.yaml b.yaml")
    assert "python -m condenser.pipeline.command_line --configfile $CONFIG --" in said


def test_a_name_of_an_overlay_is_run_by_neither_make_nor_the_shell(root: Path, tmp_path: Path) -> None:
    name = "a;touch${IFS}b|$(shell touch c)`touch d`*'x"
    said = made(root, tmp_path, "results/mine/table2.tsv", f"CONFIG={name}")
    words = "><".join(name.split())
    assert f"<--configfile><{words}><--cores><2><results/mine/table2.tsv>" in said
    assert {path.name for path in tmp_path.iterdir()} == {".venv"}


TEXT = "a;touch${IFS}b;$(shell touch c)`touch d`'\"$$x#"


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
        ("index TEXTS={} NAME={} TITLE={} TEXT={}", "Ask it: make search DATASET="),
        ("index DATASET={}", "Ask it: make search DATASET="),
        ("serve PORT={}", "<--serve><--port><{}>"),
        ("bench THREADS={} CLOCK={}", "<--threads><{}><--clock><{}><--device><cpu>"),
        ("bench LONG={} CORES={}", "<--threads><{}><--clock><wall><--device><auto><--long>"),
    ],
)
def test_a_text_of_the_user_is_run_by_neither_make_nor_the_shell(
    root: Path, tmp_path: Path, line: str, words: str
) -> None:
    said = made(root, tmp_path, *(word.replace("{}", TEXT) for word in line.split()))
    assert words.replace("{}", TEXT) in said
    assert {path.name for path in tmp_path.iterdir()} == {".venv"}


def test_nor_is_one_of_the_environment(root: Path, tmp_path: Path) -> None:
    said = made(root, tmp_path, "search", SYSTEM=TEXT, QUERY=TEXT, DATASET=TEXT, DEPTH=TEXT)
    assert f"<--dataset><{TEXT}><--system><{TEXT}>" in said and f"<--depth><{TEXT}><--query><{TEXT}>" in said
    assert {path.name for path in tmp_path.iterdir()} == {".venv"}
