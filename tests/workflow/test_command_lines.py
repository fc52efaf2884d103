"""The command lines that `snakemake -n -p` prints can be pasted into a shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from runs import TARGET, copied, finished
from small_generators import write_generator

from condenser.files import read_json

# all rules with a program: a variant of fewer queries, an official file, a plan, the check of all results
OVERLAY = """
tables:
  table2: {train_queries: [20, all]}
  low_data: {by_dataset: {stsb: {train_queries: [20], seeds: [1]}}}
datasets:
  tiny: {queries: {log: log.tsv}}
  official: {source: msmarco, unjudged: rest}
systems:
  teacher:
    {kind: crossencoder, initial: backbone, negatives: [bm25], candidates: bm25, depth: 9, loss: pointwise,
     recipe: {negatives: {denoise: {negative_below: 0.1, positive_above: 0.9}}}}
  glove: {kind: word_vectors, path: overlay.yaml}
  learnt: {kind: fusion, of: [backbone-zeroshot, bm25], method: convex, weights: learnt, depth: 9}
  deepct: {kind: bm25, k1: 10, b: 0.9, expanded_passages: deepct}
  own: {kind: bm25, k1: 10, b: 0.9, expanded_passages: own}
expansions:
  own: {generated: {model: generator, samples: 1, max_tokens: 9, max_input_tokens: 40, rows_per_chunk: 9}}
  deepct:
    weights: 100
    trained: {initial: backbone, max_tokens: 40, rows_per_chunk: 4, batch_size: 4, learning_rate: 1.0e-4,
              weight_decay: 0.0, warmup_ratio: 0.1, max_grad_norm: 1.0, epochs: 1}
"""
TARGETS = [
    TARGET, "results/tiny/table2.tests.tsv", "results/tiny/table2.plan.H200.tsv",
    "results/downloads/2019qrels-pass.txt", "results/tiny/attention_entropy.svg", "verify", "ask",
    "results/tiny/report.html", "results/tiny/audit.tsv", "results/tiny/adapt.tsv",
    "results/stsb/low_data.tsv", "results/stsb/systems/glove/untrained/metrics.test.json",
    "results/tiny/systems/bm25/untrained/run.log.trec", "results/tiny/table3.tsv",
    "results/tiny/table2.crate.zip", "results/tiny/systems/learnt/seed42/run.dev.trec",
    "results/tiny/systems/cocondenser-round1/seed42/export/agreement.json",
    "results/tiny/systems/teacher/seed42/pseudo_labels.log.jsonl",
    "results/official/queries/rest/counts.json", "results/tiny/systems/deepct/seed42/run.dev.trec",
    "results/tiny/systems/own/untrained/run.dev.trec",
]  # fmt: skip


@pytest.fixture(scope="module")
def lines(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command lines of all jobs, as a dry run prints them, in a checkout whose path has a space."""
    folder = copied(golden, tmp_path_factory.mktemp("command lines") / "a checkout")
    (folder / "overlay.yaml").write_text(OVERLAY)
    (folder / "log.tsv").write_text("1\ta query\n")
    write_generator("t5", folder / "generator")
    said = finished(folder, *TARGETS[1:], "-n", "-p", "--forceall", overlays=["overlay.yaml"])
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


def test_every_line_is_a_program_and_a_job_that_it_can_read(root: Path, lines: list[str]) -> None:
    seen = set()
    for line in lines:
        program, file = words(line, root)[:2]
        rule = Path(program).stem
        seen.add(rule)
        assert Path(program).is_file() and Path(program).parent.name == "workflow_scripts"
        if rule != "ask":
            by_hand = f"    python workflow_scripts/{rule}.py .snakemake/jobs/{rule}-"
            assert by_hand in Path(program).read_text()
            assert Path(file).parts[:2] == (".snakemake", "jobs"), line
    assert seen == {file.stem for file in (root / "workflow_scripts").glob("*.py")}


def makes(line: str, name: str, folder: Path) -> bool:
    """Whether the job of a line writes a result of the tiny data set."""
    program, file, *_ = words(line, folder)
    job = {} if program.endswith("ask.py") else read_json(folder / file)
    return f"results/tiny/{name}" in job.get("output", {}).values()


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
