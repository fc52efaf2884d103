"""Compare what our code and the authors' code computed from the same weights and inputs.

Each side has written one file of tensors for each check, `ours/<check>.safetensors` and
`theirs/<check>.safetensors`, and theirs also `status.json`: for each check null, or what a clone lacks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        what: what is compared.
        checks: the files that hold both results.
        names: a pattern of the tensors' names in them.
        tolerance: of the largest difference, relative to the largest number on their side. Rounding in
            float64 gives some 1e-15; counts and token ids must be equal (0).
        known: None where both sides must agree. Where they differ on purpose: the smallest and the
            largest difference (absolute) that is documented. A difference outside fails.
        why: the reason, where they differ on purpose.
    """

    what: str
    checks: tuple[str, ...]
    names: str
    tolerance: float = 1e-12
    known: tuple[float, float] | None = None
    why: str = ""


@dataclass(frozen=True)
class Finding:
    """What a row showed. `difference` is absolute, `relative` is of the largest number on their side."""

    row: Row
    difference: float | None
    relative: float | None
    verdict: str

    @property
    def failed(self) -> bool:
        return self.verdict in (FAILS, NOT_AS_KNOWN)


EQUAL, FAILS = "equal", "FAILS"
KNOWN, NOT_AS_KNOWN = "differs, as documented", "FAILS: not as documented"
NOT_THERE = "not there"


def compare(rows: Sequence[Row], work: Path) -> list[Finding]:
    """The finding of each row.

    Raises:
        ValueError: the two sides have other names, or no tensor has a row's name.
    """
    status = json.loads((work / "theirs" / "status.json").read_text())
    return [_finding(row, work, status) for row in rows]


def _finding(row: Row, work: Path, status: Mapping[str, str | None]) -> Finding:
    missing = [told for check in row.checks if (told := status[check]) is not None]
    if missing:
        return Finding(row, None, None, f"{NOT_THERE}: {missing[0]}")
    difference, relative = 0.0, 0.0
    for check in row.checks:
        gap, scale = _gap(check, work, row.names)
        difference, relative = max(difference, gap), max(relative, gap / scale if scale else gap)
    if row.known is None:
        return Finding(row, difference, relative, EQUAL if relative <= row.tolerance else FAILS)
    lowest, highest = row.known
    return Finding(row, difference, relative, KNOWN if lowest <= difference <= highest else NOT_AS_KNOWN)


def _gap(check: str, work: Path, names: str) -> tuple[float, float]:
    """The largest difference of the tensors with these names, and the largest number on their side.

    Tensors of different shapes differ by infinity.
    """
    ours, theirs = (_wanted(work / side / f"{check}.safetensors", names) for side in ("ours", "theirs"))
    if ours.keys() != theirs.keys():
        raise ValueError(
            f"{check}: expected the same tensors on both sides, got {min(ours.keys() ^ theirs.keys())} "
            "on one alone. Correct ours.py or theirs.py."
        )
    difference, scale = 0.0, 0.0
    for name, value in theirs.items():
        if ours[name].shape != value.shape:  # another number of blocks, say
            return math.inf, 1.0
        if value.size:
            gap = np.abs(ours[name].astype(np.float64) - value.astype(np.float64)).max()
            difference = max(difference, float(np.nan_to_num(gap, nan=np.inf)))
            scale = max(scale, float(np.abs(value).max()))
    return difference, scale


def _wanted(file: Path, pattern: str) -> dict[str, np.ndarray]:
    found = {name: value for name, value in load_file(file).items() if fnmatchcase(name, pattern)}
    if not found:
        raise ValueError(f"{file}: expected a tensor named {pattern}, got none. Correct rows.py.")
    return found


def table(findings: Sequence[Finding]) -> str:
    """The findings as a Markdown table."""
    lines = ["| what is compared | difference | relative | allowed | result |", "|---|---|---|---|---|"]
    for finding in findings:
        row = finding.row
        allowed = f"{row.tolerance:.0e}" if row.tolerance else "0"
        if row.known is not None:
            allowed = f"{row.known[0]:g} to {row.known[1]:g}, absolute"
        numbers = [
            "" if value is None else f"{value:.1e}" if value else "0"
            for value in (finding.difference, finding.relative)
        ]
        result = finding.verdict + (f": {row.why}" if row.why else "")
        lines.append(f"| {row.what} | {numbers[0]} | {numbers[1]} | {allowed} | {result} |")
    return "\n".join(lines)


def summary(findings: Sequence[Finding]) -> str:
    """One line: how many rows are equal, differ as documented, fail, and could not be compared."""
    num_equal = sum(finding.verdict == EQUAL for finding in findings)
    num_known = sum(finding.verdict == KNOWN for finding in findings)
    failed = [finding.row.what for finding in findings if finding.failed]
    line = f"{num_equal} equal, {num_known} differ as documented, {len(failed)} fail"
    missing = len(findings) - num_equal - num_known - len(failed)
    line += f", {missing} not there (not counted as passed)" if missing else ""
    return line + (": " + "; ".join(failed) if failed else "")
