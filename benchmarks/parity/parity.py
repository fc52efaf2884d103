"""Compare our code with the authors', on identical tiny weights and inputs.

    make parity AUTHORS=../authors          # a folder with clones, see CLONES below
    python benchmarks/parity/parity.py --authors ../authors --freeze tests/reference/authors.safetensors

Sets up an environment in which the authors' code runs (once; a package index is needed), computes both sides
in processes of their own, and prints what rows.tsv compares. Status 1 if a row is not within what is allowed.
What a clone lacks is said in its rows and not counted as passed. The second command also writes some of their
numbers to a file that tests/reference/test_authors.py compares with on every change (frozen.py).

The columns of rows.tsv: what is compared; the check, and a pattern of its results' names; the largest
difference that is allowed, relative to the largest number on their side (rounding in float64 gives some
1e-15; counts and token ids must be equal). Where both differ on purpose: the smallest and the largest
difference (absolute) that is documented, and why. A difference outside fails.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import torch
from frozen import freeze
from torch import Tensor

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
EQUAL, KNOWN, NOT_THERE = "equal", "differs, as documented", "not there"


class Finding(NamedTuple):
    """What a row of the table showed: cells of its line, and whether it failed."""

    row: dict[str, str]
    numbers: tuple[float, float] | None  # absolute; relative to the largest number on their side
    verdict: str

    @property
    def failed(self) -> bool:
        return self.verdict.startswith("FAILS")

    def line(self) -> str:
        row, why = self.row, self.row["why"]
        allowed = f"{float(row['tolerance']):.0e}" if float(row["tolerance"]) else "0"
        if row["lowest"]:
            allowed = f"{float(row['lowest']):g} to {float(row['highest']):g}, absolute"
        numbers = [f"{number:.1e}" if number else "0" for number in self.numbers or ()] or ["", ""]
        return f"| {' | '.join([row['what'], *numbers, allowed, self.verdict + (why and f': {why}')])} |"


def read_rows() -> list[dict[str, str]]:
    with (HERE / "rows.tsv").open() as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def compare(row: dict[str, str], ours: Mapping[str, Tensor], theirs: Mapping[str, Any]) -> Finding:
    """The finding of a row: our results of its check, and theirs by clone, or what a clone lacks.

    Raises:
        ValueError: the two sides have other names, or no result has a row's name.
    """
    difference = relative = 0.0
    for results in theirs.values():
        if isinstance(results, str):
            return Finding(row, None, f"{NOT_THERE}: {results}")
        gap, scale = largest_gap(ours, results, row)
        difference, relative = max(difference, gap), max(relative, gap / scale if scale else gap)
    if row["lowest"]:
        is_known = float(row["lowest"]) <= difference <= float(row["highest"])
        verdict = KNOWN if is_known else "FAILS: not as documented"
    else:
        verdict = EQUAL if relative <= float(row["tolerance"]) else "FAILS"
    return Finding(row, (difference, relative), verdict)


def largest_gap(
    ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], row: dict[str, str]
) -> tuple[float, float]:
    """The largest difference (infinite: other shapes), and the largest of their numbers."""
    names, own = ({n for n in side if fnmatchcase(n, row["tensors"])} for side in (theirs, ours))
    if names != own or not names:
        raise ValueError(
            f"{row['check']}: expected on both sides the same results, some named {row['tensors']}, "
            f"got {', '.join(names ^ own) or 'none'} on one alone. Correct pairs.py or rows.tsv."
        )
    if any(ours[name].shape != theirs[name].shape for name in names):  # another number of blocks, say
        return math.inf, 1.0
    pairs = [(ours[name].double(), theirs[name].double()) for name in names if theirs[name].numel()]
    gaps = [(our - their).abs().nan_to_num(nan=math.inf).max().item() for our, their in pairs]
    return max(gaps, default=0.0), max((their.abs().max().item() for _, their in pairs), default=0.0)


def summary(findings: Sequence[Finding]) -> str:
    """One line: how many rows are equal, differ as documented, fail, and could not be compared."""
    verdicts = [finding.verdict for finding in findings]
    failed = [finding.row["what"] for finding in findings if finding.failed]
    counts = verdicts.count(EQUAL), verdicts.count(KNOWN), len(failed)
    line = "{} equal, {} differ as documented, {} fail".format(*counts)
    if missing := len(findings) - sum(counts):
        line += f", {missing} not there (not counted as passed)"
    return f"{line}: {'; '.join(failed)}" if failed else line


def check_clones(authors: str) -> Path:
    """The folder of the clones.

    Raises:
        ValueError: none is named, or a clone is not in it.
    """
    if not authors:
        sources = ", ".join(source for _, source in CLONES.values())
        raise ValueError(
            f"AUTHORS: expected a folder with clones of {sources}, got none. "
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
    variables = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[1])}
    clones = ["--clones", authors, "--old", environment / OLD_FOLDER]
    with (work / "log").open("w") as log:
        for python, more in ((Path(sys.executable), []), (environment / "bin" / "python", clones)):
            command = [python, HERE / "pairs.py", "--work", work, *more]
            done = subprocess.run(command, env=variables, stdout=log, stderr=subprocess.STDOUT, check=False)
            if done.returncode:
                last = (work / "log").read_text().rstrip().rpartition("\n")[2]
                raise ValueError(
                    f"{python} {HERE / 'pairs.py'}: expected results, got status {done.returncode} ({last}). "
                    f"Look at {work / 'log'}."
                )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--authors", required=True, help="a folder with the clones")
    parser.add_argument(
        "--environment", type=Path, default=".venv-parity", help="of the authors' code; made if missing"
    )
    parser.add_argument("--work", type=Path, default="build/parity", help="for inputs and results; emptied")
    parser.add_argument("--compare-only", action="store_true", help="what the work folder has from before")
    parser.add_argument("--freeze", type=Path, metavar="FILE", help="write numbers of theirs for the tests")
    args = parser.parse_args(argv)
    if not args.compare_only:
        authors = check_clones(args.authors)
        prepare_environment(args.environment)
        compute(authors, args.environment, args.work)
    ours, theirs, versions = (torch.load(args.work / f"{name}.pt") for name in ("ours", "theirs", "versions"))
    findings = [compare(row, ours[row["check"]], theirs[row["check"]]) for row in read_rows()]
    header = ["| what is compared | difference | relative | allowed | result |", "|---|---|---|---|---|"]
    table = "\n".join([*header, *(finding.line() for finding in findings)])
    report = f"{', '.join(map(' '.join, versions.items()))}\n\n{table}\n\n{summary(findings)}"
    (args.work / "table.md").write_text(f"{report}\n")
    print(report)
    if any(finding.failed for finding in findings):
        raise SystemExit(1)
    if args.freeze:
        freeze(args.work, versions, args.freeze)


if __name__ == "__main__":
    program.run(main)
