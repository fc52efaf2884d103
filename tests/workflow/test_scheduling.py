"""Snakemake looks at the ready jobs when one ends and once a second, not ever more often."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Writes a line to `looks` whenever the scheduler chooses among the ready jobs.
SNAKEFILE = """
from snakemake.scheduling.job_scheduler import JobScheduler

include: {include!r}

job_selector = JobScheduler.job_selector

def counted(scheduler, jobs):
    with open("looks", "a") as looks:
        print(len(jobs), file=looks)
    return job_selector(scheduler, jobs)

JobScheduler.job_selector = counted

rule all:
    default_target: True
    input: "long", "last", expand("made{{number}}", number=range({number}))

rule made:
    output: "made{{number}}"
    shell: "touch {{output}}"

rule long:
    output: "long"
    priority: -1
    shell: "sleep 4; touch {{output}}"

rule last:
    output: "last"
    priority: -2
    shell: "touch {{output}}"
"""


@pytest.mark.parametrize(
    ("limit", "number", "most"), [("100/1s", 12, 30), pytest.param("5/1s", 12, 40, marks=pytest.mark.ci)]
)
def test_jobs_that_have_ended_cost_no_more_looks_at_the_ready_ones(
    root: Path, tmp_path: Path, *, limit: str, number: int, most: int
) -> None:
    """`last` is ready while `long` runs. Snakemake by itself looked 59 and 80 times in all."""
    include = str(root / "rules" / "snakemake.smk")
    (tmp_path / "Snakefile").write_text(SNAKEFILE.format(include=include, number=number))
    options = ["--cores", "1", "--max-jobs-per-timespan", limit]
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", *options],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert all((tmp_path / name).exists() for name in ("long", "last", f"made{number - 1}"))
    looks = len((tmp_path / "looks").read_text().splitlines())
    assert number < looks < most, looks
