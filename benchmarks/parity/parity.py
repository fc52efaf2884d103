"""Compare our code with the authors', on identical tiny weights and inputs.

    make parity AUTHORS=../authors          # a folder with clones, see CLONES below
    python benchmarks/parity/parity.py --authors ../authors --environment .venv-parity --work build/parity

Sets up an environment in which the authors' code runs (once; a package index is needed), computes both
sides in processes of their own, and prints a table of differences. Status 1 if a row is not within what is
allowed. What a clone lacks is said in its rows and not counted as passed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from compare import compare, summary, table
from rows import ROWS

from condenser import program
from condenser.files import sha256_file

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
OLD_TRANSFORMERS = "transformers==4.2.0"  # luyug/Dense pins it; only its optimiser and schedule are run
OLD_FOLDER = "transformers-4.2.0"
CLONES = {
    "Condenser": ("modeling.py", "luyug/Condenser"),
    "GradCache": ("src/grad_cache/grad_cache.py", "luyug/GradCache"),
    "Dense": ("src/dense/modeling.py", "luyug/Dense"),
    "tevatron": ("src/tevatron/modeling/dense.py", "texttron/tevatron at tevatron-v1"),
}


def check_clones(authors: str) -> Path:
    """The folder of the clones.

    Raises:
        ValueError: none is named, or a clone is not in it.
    """
    if not authors:
        raise ValueError(
            "AUTHORS: expected a folder with clones of "
            f"{', '.join(source for _, source in CLONES.values())}, got none. "
            "Give it: make parity AUTHORS=<folder>."
        )
    for name, (file, source) in CLONES.items():
        if not Path(authors, name, file).is_file():
            raise ValueError(
                f"{Path(authors, name)}: expected a clone of {source}, got no {file}. "
                f"Clone https://github.com/{source.split()[0]} there."
            )
    return Path(authors)


def prepare_environment(folder: Path) -> None:
    """Install what the authors' code needs, unless it is there."""
    ready = folder / "ready"
    wanted = f"{sha256_file(REQUIREMENTS)} {OLD_TRANSFORMERS}\n"
    if ready.is_file() and ready.read_text() == wanted:
        return
    print(f"Setting up {folder} (once; some minutes) ...", file=sys.stderr)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([*pip, "--requirement", REQUIREMENTS], check=True)
    old = folder / OLD_FOLDER
    shutil.rmtree(old, ignore_errors=True)
    subprocess.run([*pip, "--no-deps", "--target", old, OLD_TRANSFORMERS], check=True)
    ready.write_text(wanted)


def compute(authors: Path, environment: Path, work: Path) -> None:
    """Write both sides' results into a new work folder.

    Raises:
        ValueError: a side ended with an error; `log` in the folder has all that it said.
    """
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    common = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    alone = {key: value for key, value in common.items() if key != "PYTHONPATH"}
    clones = ["--authors", authors, "--old", environment / OLD_FOLDER]
    with (work / "log").open("w") as log:
        for python, side, more, variables in (
            (Path(sys.executable), "ours", [], common),
            (environment / "bin" / "python", "theirs", clones, alone),
        ):
            command = [python, HERE / f"{side}.py", "--work", work, *more]
            done = subprocess.run(command, env=variables, stdout=log, stderr=subprocess.STDOUT, check=False)
            if done.returncode:
                last = (work / "log").read_text().rstrip().rpartition("\n")[2]
                raise ValueError(
                    f"benchmarks/parity/{side}.py: expected results, got status {done.returncode} ({last}). "
                    f"Look at {work / 'log'}."
                )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--authors", required=True, help="a folder with the clones")
    parser.add_argument(
        "--environment", type=Path, required=True, help="for the authors' code; made if missing"
    )
    parser.add_argument("--work", type=Path, required=True, help="for inputs and results; emptied first")
    parser.add_argument("--compare-only", action="store_true", help="what the work folder has from before")
    args = parser.parse_args(argv)
    if not args.compare_only:
        authors = check_clones(args.authors)
        prepare_environment(args.environment)
        compute(authors, args.environment, args.work)
    findings = compare(ROWS, args.work)
    versions = json.loads((args.work / "theirs" / "versions.json").read_text())
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    report = f"{told}\n\n{table(findings)}\n\n{summary(findings)}"
    (args.work / "table.md").write_text(f"{report}\n")
    print(report)
    if any(finding.failed for finding in findings):
        raise SystemExit(1)


if __name__ == "__main__":
    program.run(main)
