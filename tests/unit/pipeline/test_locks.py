"""Two Snakemakes in one folder, one of them killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from condenser.pipeline.locks import join_folder

HOLD = (
    "import sys, time; from pathlib import Path; from condenser.pipeline.locks import join_folder\n"
    "held = join_folder(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
)


def _locked(folder: Path) -> Path:
    lock = folder / "locks" / "0.output.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text("results/tiny/table2.tsv\n")
    return lock


def test_a_lock_stays_while_its_snakemake_lives_and_goes_after_it_was_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        lock = _locked(tmp_path)
        with join_folder(tmp_path) or (tmp_path / "none").open():
            assert lock.exists()
    finally:
        holder.kill()
        holder.communicate()
    with join_folder(tmp_path) or (tmp_path / "none").open():
        assert not lock.exists()


def test_a_lock_set_on_another_machine_stays(tmp_path: Path) -> None:
    lock = _locked(tmp_path)
    (tmp_path / "machines").write_text("another-machine\n")
    with join_folder(tmp_path) or (tmp_path / "none").open():
        assert lock.exists()
    lock.unlink()  # as by --unlock
    with join_folder(tmp_path) or (tmp_path / "none").open():
        lock = _locked(tmp_path)
    with join_folder(tmp_path) or (tmp_path / "none").open():
        assert not lock.exists()
