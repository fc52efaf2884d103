"""Jobs as the workflow writes them, for programs that are tried without it."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

from condenser.job import Job, do_job


def job(rule: str, **parts: Any) -> dict[str, Any]:
    """A job; paths may be of any kind."""
    return json.loads(json.dumps({"rule": rule, **parts}, default=str))


def job_file(file: Path, rule: str, **parts: Any) -> str:
    """A file with a job; gives its path."""
    file.write_text(json.dumps(job(rule, **parts)))
    return str(file)


def do(rule: str, **parts: Any) -> None:
    """Do a job in this process."""
    program = importlib.import_module(f"workflow_scripts.{rule}")
    do_job(Job(job(rule, **parts)), program.main)
