"""What a run says: lines, on a terminal the last one of what runs, Snakemake's own words if asked."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from runs import checkout, environment
from terminals import on_terminal

# Beside the workflow's own rules, one that takes long enough to be seen, and one that fails.
RULES = """

rule slow:
    input:
        "results/tiny/data/counts.json",
    output:
        "slow.txt",
    log:
        "slow.log",
    benchmark:
        "slow.tsv"
    shell:
        "(echo 'slow: 10 of 20 rows (50 %), 1.0 a second, 00:10 left'; sleep ${{WAIT:-0}}; touch {output})"
        " 2>&1 | tee {log}"


rule failing:
    output:
        "failing.txt",
    log:
        "failing.log",
    shell:
        "(echo failing: half done; echo 'error: here: expected b, got a. Write b.'; exit 1) 2>&1 | tee {log}"
"""


@pytest.fixture
def folder(root: Path, tmp_path: Path) -> Path:
    """A checkout without results, with the two rules."""
    folder = checkout(root, tmp_path / "checkout")
    with (folder / "Snakefile").open("a") as file:
        file.write(RULES)
    return folder


def command(*arguments: str) -> list[str]:
    return [
        sys.executable, "-m", "snakemake", "--cores", "1", "--configfile", "configs/tiny.yaml",
        "--", *arguments,
    ]  # fmt: skip


def options(*arguments: str) -> list[str]:
    *first, separator = command()
    return [*first, *arguments, separator]


def run(folder: Path, words: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=folder, env={**environment(), **more}, capture_output=True, text=True, check=False
    )


def test_a_terminal_shows_the_last_line_of_what_runs_and_clears_it(folder: Path) -> None:
    done = on_terminal(folder, [*command(), "slow.txt"], WAIT="3")
    assert done.status == 0, done.raw
    assert any(screen.splitlines()[-1].startswith("slow: 10 of 20 rows") for screen in done.screens), done.raw
    assert done.raw.index("slow: 10 of 20 rows") < done.raw.index("finished slow")  # while it runs
    _profile, plan, *lines, log, end = [line for line in done.screens[-1].splitlines() if line.strip()]
    assert "By the plan about" in plan and "Complete log" in log
    assert len(lines) == 4 and re.search(r"finished slow in 00:0\d: 2 of 2 jobs done$", lines[-1])
    assert re.match(r"2 of 2 jobs done in 00:\d\d", end)


def test_on_a_terminal_the_error_comes_last_and_once(folder: Path) -> None:
    done = on_terminal(folder, [*command(), "failing.txt"])
    assert done.status != 0
    assert done.screens[-1].splitlines()[-1] == "error: here: expected b, got a. Write b."
    assert done.screens[-1].count("error: ") == 1 and "failing: half done" in done.screens[-1]
    assert "Error in rule failing" in done.raw and "failing.log" in done.raw


def test_elsewhere_the_error_comes_last_and_once(folder: Path) -> None:
    done = run(folder, [*command(), "failing.txt"])
    assert done.returncode != 0 and done.stdout == "failing: half done\n"
    assert done.stderr.splitlines()[-1] == "error: here: expected b, got a. Write b."
    assert done.stderr.count("error: ") == 1


@pytest.mark.ci
def test_elsewhere_there_is_a_line_for_each_start_and_end(folder: Path) -> None:
    done = run(folder, [*command(), "slow.txt", "results/tiny/subsets/n3-seed1.txt"])
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if re.match(r"\d\d:\d\d:\d\d ", line)]
    assert len(lines) == 6
    assert re.fullmatch(r"\S+ started collect_tiny", lines[0])
    assert re.fullmatch(r"\S+ finished collect_tiny in 00:\d\d: 1 of 3 jobs done.*", lines[1])
    assert sum("subset tiny n3-seed1" in line for line in lines) == 2
    rest = [line for line in done.stderr.splitlines() if line not in lines]
    assert len(rest) <= 4, rest  # the profile, the plan, the complete log, the end
    assert re.match(r"3 of 3 jobs done in 00:\d\d", rest[-1])
    # what was left out is in the files
    (log,) = folder.glob(".snakemake/log/*.log")
    assert "rule slow:" in log.read_text() and "resources: " in log.read_text()
    assert (folder / "slow.log").read_text().startswith("slow: 10 of 20")
    # of what was asked for, and does not work long, standard output has what it said
    assert "slow: 10" not in done.stdout
    assert done.stdout == (folder / "results/tiny/logs/subset.n3-seed1.log").read_text()
    again = run(folder, [*command(), "slow.txt"])
    assert "Nothing to be done" in again.stderr and "started" not in again.stderr


@pytest.mark.ci
def test_the_report_of_verify_is_on_standard_output(folder: Path) -> None:
    assert run(folder, [*command(), "results/tiny/data/counts.json"]).returncode == 0
    done = run(folder, [*command(), "verify"])
    assert done.returncode == 0 and re.search(r"^8 artefacts checked, 0 findings$", done.stdout, re.MULTILINE)
    (folder / "results" / "tiny" / "stray.npy").touch()
    failed = run(folder, [*command(), "verify"])
    assert failed.returncode != 0 and "unknown: results/tiny/stray.npy" in failed.stdout


@pytest.mark.parametrize("asked", [pytest.param(["--verbose"], marks=pytest.mark.ci), ["--printshellcmds"]])
def test_snakemake_speaks_for_itself_if_asked(folder: Path, asked: list[str]) -> None:
    done = run(folder, [*options(*asked), "slow.txt"])
    assert done.returncode == 0, done.stderr
    assert re.search(r"^(?:local)?rule slow:", done.stderr, re.MULTILINE)
    assert "2 of 2 steps (100%) done" in done.stderr and "resources: " in done.stderr
    assert "started slow" not in done.stderr
    assert "slow: 10 of 20 rows" in done.stdout


def test_a_dry_run_names_jobs_and_reasons(folder: Path) -> None:
    done = run(folder, [*options("-n"), "slow.txt"])
    assert done.returncode == 0
    said = done.stdout + done.stderr
    assert "rule slow:" in said and "reason: Missing output files: slow.txt" in said
