"""A Snakemake that is told to end does, whatever it is doing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from runs import checkout, command, finished
from terminals import SEQUENCE, on_terminal

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


MODEL = "results/tiny/models/condenser/model.safetensors"


def interrupts(moment: str, *, gap_s: float, number: int) -> Callable[[str, int], None]:
    """Sends SIGINT to the foreground of a terminal, as Ctrl-C does, a second after a text stands on it."""
    sent: list[float] = []

    def interrupt(raw: str, pid: int) -> None:
        if re.search(moment, SEQUENCE.sub("", raw)) and not sent:
            time.sleep(1)
            for _ in range(number):
                sent.append(time.monotonic())
                os.killpg(os.getpgid(pid), signal.SIGINT)
                time.sleep(gap_s)

    return interrupt


@pytest.mark.ci
def test_two_interrupts_end_a_run_without_a_traceback_and_the_next_start_resumes(
    root: Path, tmp_path: Path
) -> None:
    folder = checkout(root, tmp_path / "checkout")
    # twice the updates: the interrupts come while the program imports torch
    (folder / "long.yaml").write_text("models: {condenser: {epochs: 4}}\n")
    words = command(target=MODEL, overlays=["long.yaml"])
    # four within 60 ms: some of them may be one to Python, and the program must not have ended by then
    done = on_terminal(folder, words, then=interrupts("started pretrain tiny", gap_s=0.02, number=4))
    assert done.status == 130, done.raw
    assert "Traceback" not in done.raw and "KeyboardInterrupt" not in done.raw, done.raw
    # jobs that end in this moment may add a line
    assert "Interrupted again: not waiting" in done.screens[-1], done.raw
    resumed = finished(folder, target=MODEL, overlays=["long.yaml"])
    assert "started pretrain" in resumed and "collect_tiny" not in resumed


# The locks of the log are taken, as after an interrupt between taking one and the block that frees it.
LOCKED = """
import os
import threading
import time

def take_locks():
    while not os.path.exists("begun"):
        time.sleep(0.02)
    for handler in logger.handlers:
        handler.acquire()

threading.Thread(target=take_locks, daemon=True).start()
"""


@pytest.mark.parametrize("more", ["", LOCKED])
def test_a_second_interrupt_of_snakemake_alone_does_not_wait_for_its_jobs(
    root: Path, tmp_path: Path, more: str
) -> None:
    (tmp_path / "Snakefile").write_text(
        f"include: {str(root / 'rules' / 'snakemake.smk')!r}\n{more}"
        "rule made:\n    output: 'made'\n    shell: 'touch begun; sleep 20; touch made'\n"
    )
    with (tmp_path / "said").open("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "snakemake", "--cores", "1"],
            cwd=tmp_path, stdout=said, stderr=said, start_new_session=True,
        )  # fmt: skip
        try:
            while not (tmp_path / "begun").exists():
                assert process.poll() is None
                time.sleep(0.05)
            for _ in range(2):
                time.sleep(0.5)
                process.send_signal(signal.SIGINT)
            assert process.wait(timeout=10) == 130
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # the job, which nobody waits for
        said.seek(0)
        words = said.read()
        assert "Traceback" not in words and words.count("Interrupted again: not waiting") == 1, words


def test_the_last_line_after_an_interrupt_says_that_the_same_command_resumes(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "Snakefile").write_text(
        f"include: {str(root / 'rules' / 'snakemake.smk')!r}\n"
        "rule made:\n    output: 'made'\n    shell: 'kill -INT $PPID; sleep 1; false'\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "1"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0 and done.stdout.endswith("Stopped. The same command resumes.\n"), done.stdout


def test_an_interrupt_that_is_swallowed_before_the_first_job_still_ends_the_run(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "Snakefile").write_text(
        f"include: {str(root / 'rules' / 'snakemake.smk')!r}\n"
        "import contextlib, signal\n"
        "with contextlib.suppress(BaseException):\n    signal.raise_signal(signal.SIGINT)\n"
        "rule made:\n    output: 'made'\n    shell: 'touch made'\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "condenser.pipeline.command_line", "--cores", "1"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 130 and done.stdout.endswith("interrupted\n"), done.stdout
    assert "Traceback" not in done.stdout and not (tmp_path / "made").exists()
