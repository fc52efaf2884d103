"""What a user sees when a job fails: the job's own error, last and alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.workflow


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
        "rename the field that contains it."
    )
    assert "--spec" not in done.stdout and "CalledProcessError" not in done.stdout
    assert len(done.stdout.splitlines()) < 60
