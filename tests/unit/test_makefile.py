"""`make` in a checkout whose .venv is a link to the environment of another."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


def make_setup(folder: Path, *requirements: str) -> subprocess.CompletedProcess[str]:
    (folder / "requirements.lock").write_text("\n".join(requirements))
    return subprocess.run(["make", "setup"], cwd=folder, capture_output=True, text=True, check=False)


def test_a_linked_environment_is_compared_and_left_as_it_is(root: Path, tmp_path: Path) -> None:
    other, mine = tmp_path / "other", tmp_path / "mine"
    subprocess.run([sys.executable, "-m", "venv", other / ".venv"], check=True)
    mine.mkdir()
    shutil.copy(root / "Makefile", mine)
    (mine / "pyproject.toml").touch()
    (mine / ".venv").symlink_to(other / ".venv")
    before = {path for path in other.rglob("*") if "__pycache__" not in path.parts}
    done = make_setup(mine, "pip")
    assert done.returncode == 0, done.stderr
    refused = make_setup(mine, "no-such-package==1.0")
    assert (
        refused.returncode != 0
        and "error: .venv: expected the versions of requirements.lock" in refused.stdout
    )
    assert {path for path in other.rglob("*") if "__pycache__" not in path.parts} == before
