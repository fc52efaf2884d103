"""A Snakemake that is told to end does, whatever it is doing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.workflow

# Sends itself SIGTERM while it holds its scheduler's lock, in which it looks for jobs that are ready.
SNAKEFILE = """
import signal
from snakemake.scheduling.job_scheduler import JobScheduler

include: {include!r}

open_jobs = JobScheduler.open_jobs.fget

def open_jobs_after_a_signal(scheduler):
    JobScheduler.open_jobs = property(open_jobs)
    assert scheduler._lock.locked()
    signal.raise_signal(signal.SIGTERM)
    return open_jobs(scheduler)

JobScheduler.open_jobs = property(open_jobs_after_a_signal)

rule made:
    output: "made"
    shell: "sleep 1; touch made"
"""


def test_a_stop_in_the_midst_of_scheduling_does_not_hang(root: Path, tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(SNAKEFILE.format(include=str(root / "rules" / "snakemake.smk")))
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "1"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "Will exit after finishing currently running jobs" in done.stdout, done.stdout
