"""What a user sees when a job fails, or cannot run here: one error, last and alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from runs import checkout, finished


def test_the_error_of_a_bad_row_comes_last_and_without_the_command(root: Path, tmp_path: Path) -> None:
    shutil.copy(root / "config.yaml", tmp_path)
    mine = tmp_path / "mine"
    shutil.copytree(root / "tests" / "data" / "tiny", mine)
    with (mine / "corpus.jsonl").open("a") as file:
        file.write('{"_id": "x"}\n')
    (tmp_path / "mine.yaml").write_text("datasets: {mine: {source: beir, path: mine}}\n")
    done = subprocess.run(
        [
            sys.executable, "-m", "snakemake", "results/mine/data/collection.jsonl", "--cores", "1",
            "--snakefile", str(root / "Snakefile"), "--configfile", "mine.yaml",
        ],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    *_, last = done.stdout.splitlines()
    assert done.returncode != 0
    assert last.startswith("error: mine/corpus.jsonl:") and last.endswith(
        "rename the field that contains it. bad_rows: skip leaves it out."
    )
    assert "--spec" not in done.stdout and "CalledProcessError" not in done.stdout
    assert len(done.stdout.splitlines()) < 60


def test_a_dry_run_lists_what_the_network_is_needed_for_and_where_to_put_it(
    root: Path, tmp_path: Path
) -> None:
    folder = checkout(root, tmp_path / "checkout")
    (folder / "mirror").mkdir()
    (folder / "mirror" / "marco.tar.gz").touch()
    (folder / "overlay.yaml").write_text("downloads: {mirror: mirror}\n")
    options: dict[str, Any] = {"base": "configs/paper.yaml", "overlays": ["overlay.yaml"]}
    said = finished(folder, "-n", target="results/msmarco/table1.tsv", **options)
    lines = said.partition("Fetched from the network (")[2].partition("By the plan")[0].splitlines()
    assert "    https://huggingface.co/bert-base-uncased: mirror/bert-base-uncased/" in lines
    file = "trec.nist.gov/data/deep/2019qrels-pass.txt"
    assert f"    https://{file}, 187,092 bytes: mirror/{file}" in lines
    texts = "https://huggingface.co/datasets/wikimedia/wikipedia"
    assert f"    {texts}: any folder, as id in datasets.wikibook.parts" in lines
    assert not [line for line in lines if "marco.tar.gz" in line or "docdev" in line]


@pytest.mark.ci
def test_it_runs_in_another_folder_and_refuses_an_absolute_path(root: Path, tmp_path: Path) -> None:
    table = "results/mine/table2.tsv"
    (tmp_path / "mine.yaml").write_text(
        f"datasets: {{mine: {{source: beir, path: {root / 'tests/data/tiny'}}}}}\n"
    )

    def last_line(*arguments: str, cwd: Path) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "snakemake", "-n", "--cores", "1", *arguments],
            cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        return done.stdout.splitlines()[-1]

    overlay = ["--configfile", str(tmp_path / "mine.yaml")]
    snakefile = ["--snakefile", str(root / "Snakefile")]
    assert last_line(table, *snakefile, *overlay, cwd=tmp_path).startswith("This was a dry-run")
    assert last_line(table, "--directory", str(tmp_path), *overlay, cwd=root).startswith("This was a dry-run")
    said = last_line(str(tmp_path / table), *snakefile, *overlay, cwd=tmp_path)
    assert said.endswith(f"expected a path that begins with results/. Ask for {table}.")
    tiny = ["--configfile", str(root / "configs/tiny.yaml")]  # whose path is relative to the workflow
    said = last_line("results/tiny/table2.tsv", *snakefile, *tiny, cwd=tmp_path)
    assert said.endswith(f"(Snakemake runs in {tmp_path}: start it in {root}, or write absolute paths.)")
    (tmp_path / "config.yaml").write_text("seed: 1\n")
    said = last_line(table, *snakefile, *overlay, cwd=tmp_path)
    assert said.endswith(f"({tmp_path / 'config.yaml'} is read in place of the workflow's own.)")


SAID = """
import logging

include: {include!r}

record = logging.makeLogRecord({{"msg": {text!r}}})
in_plain_words(record)
print(record.msg)
"""


@pytest.mark.parametrize(
    "text",
    [
        "WorkflowError:\nFailed to create output directory a/b.\nPermissionError: [Errno 13] {}: 'a'",
        "Traceback (most recent call last):\n\n    os.remove(file)\n\nOSError: [Errno 30] {}: 'a'\n",
    ],
)
def test_what_snakemake_cannot_write_is_one_line(root: Path, tmp_path: Path, text: str) -> None:
    include = str(root / "rules" / "snakemake.smk")
    (tmp_path / "Snakefile").write_text(SAID.format(include=include, text=text.format("Not allowed")))
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "-n", "--cores", "1"],
        cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert "error: a: Not allowed. A job writes there: correct that, or run in a copy.\n" in done.stdout
