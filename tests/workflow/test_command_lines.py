"""The command lines that `snakemake -n -p` prints can be pasted into a shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import every_kind
import pytest
from runs import TARGET, copied, finished

from condenser.files import read_json

TARGETS = [*every_kind.TARGETS, *every_kind.OTHER_TARGETS, "verify", "ask"]  # all rules with a program


@pytest.fixture(scope="module")
def lines(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command lines of all jobs, as a dry run prints them, in a checkout whose path has a space."""
    folder = copied(golden, tmp_path_factory.mktemp("command lines") / "a checkout")
    every_kind.write_files(folder)
    said = finished(folder, *TARGETS, "-n", "-p", "--forceall", overlays=[every_kind.NAME])
    return re.findall(r"(?m)^Shell command: (.*)$", said)


def words(line: str, folder: Path) -> list[str]:
    """What a shell makes of a line, up to the pipe to its log."""
    command, pipe, log = line.rpartition(" 2>&1 | tee ")
    assert pipe and re.fullmatch(r"(results|\.snakemake)/\S+\.log", log), line
    said = subprocess.run(
        ["bash", "-uc", f"python() {{ printf '%s\\0' \"$@\"; }}; {command}"],
        cwd=folder, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return said.stdout.split("\0")[:-1]


@pytest.mark.ci
def test_every_line_is_a_program_and_a_job_that_it_can_read(root: Path, lines: list[str]) -> None:
    seen = set()
    for line in lines:
        program, file = words(line, root)[:2]
        rule = Path(program).stem
        seen.add(rule)
        assert Path(program).is_file() and Path(program).parent.name == "workflow_scripts"
        if rule != "ask":
            assert Path(file).parts[:2] == (".snakemake", "jobs"), line
    assert seen == {file.stem for file in (root / "workflow_scripts").glob("*.py")}


def test_a_program_says_what_it_takes_and_does(root: Path) -> None:
    command = [sys.executable, "workflow_scripts/encode.py", "--help"]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    assert said.startswith("usage: python workflow_scripts/encode.py [-h] .snakemake/jobs/encode-*.json\n")
    assert "Embed the passages of one token shard" in said


def makes(line: str, name: str, folder: Path) -> bool:
    """Whether the job of a line writes a result of the tiny data set."""
    program, file, *_ = words(line, folder)
    job = {} if program.endswith("ask.py") else read_json(folder / file)
    return f"results/tiny/{name}" in job.get("output", {}).values()


@pytest.mark.ci
def test_a_pasted_line_makes_the_same_result(
    golden: Path, copy_of_golden: Callable[[], Path], lines: list[str]
) -> None:
    folder = copy_of_golden()
    printed_in = Path(words(lines[0], folder)[0]).parents[1]
    jobs = Path(".snakemake", "jobs")
    shutil.copytree(printed_in / jobs, folder / jobs, dirs_exist_ok=True)
    made = ["systems/bm25/untrained/metrics.dev.json", "systems/cocondenser-round1/seed42/run.dev.trec"]
    for name in made:
        file = folder / "results" / "tiny" / name
        file.unlink()
        (line,) = (line for line in lines if makes(line, name, folder))
        subprocess.run(
            ["bash", "-c", line],
            cwd=folder,
            env={
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "PYTHONPATH": str(folder),  # instead of an installed package
            },
            check=True,
            capture_output=True,
        )
        assert file.read_bytes() == (golden / "results" / "tiny" / name).read_bytes()


@pytest.mark.ci
def test_a_project_and_texts_whose_paths_have_a_space_are_no_matter(golden: Path, tmp_path: Path) -> None:
    folder = copied(golden, tmp_path / "my own project")
    table = folder / TARGET
    before = table.read_bytes()
    table.unlink()
    finished(folder)  # reads the published figures by their full path
    assert table.read_bytes() == before
    (folder / "tests" / "data" / "tiny").rename(folder / "my own texts")
    (folder / "overlay.yaml").write_text("datasets: {tiny: {path: my own texts}}\n")
    collection = folder / "results" / "tiny" / "data" / "collection.jsonl"
    before = collection.read_bytes()
    collection.unlink()
    finished(folder, overlays=["overlay.yaml"], target="results/tiny/data/collection.jsonl")
    assert collection.read_bytes() == before
