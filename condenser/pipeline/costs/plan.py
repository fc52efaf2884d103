"""The plan of a table: what each of its jobs takes, worked out without running any."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from condenser import kinds
from condenser.files import atomic_write
from condenser.objectives import FOLDER as OBJECTIVES
from condenser.pipeline.costs import WILDCARDS, rules
from condenser.pipeline.costs.data import Data, Work
from condenser.pipeline.costs.jobs import Job
from condenser.pipeline.costs.tables import Device, Rate, Tables
from condenser.systems import FOLDER as SYSTEMS

Row = dict[str, Any]
_AMOUNTS = ("tokens", "flops", "bytes_on_disk", "memory_bytes")
_RANGE = ("seconds_low", "seconds_high")
_SUMMED = ("tokens", "flops", "bytes_on_disk", "seconds", *_RANGE)
COLUMNS = ("rule", "jobs", *_AMOUNTS, "seconds", "device", "basis", "assumption", *_RANGE, "rates")
_FORMATS = {"flops": "{:.4g}", **dict.fromkeys(("seconds", *_RANGE), "{:.1f}")}
_BASES = ("measured", "counted", "assumed", "unknown")  # a sum has the last of those of its parts


def make_plan(
    jobs: Sequence[Job], dataset: str, *, tables: Tables, device: Device, threads: int
) -> list[Row]:
    """A row for jobs that differ in their shard only, in order, and a row of their sum; None is unknown.

    Args:
        jobs: of a table, what is needed first.
        dataset: of the table; rows do not name it.

    Raises:
        ValueError: a size, a backbone or a rate is missing from the tables.
    """
    data, groups = Data(jobs, tables, device), defaultdict(list)
    for job in jobs:
        names = [job.wildcards[name] for name in WILDCARDS if job.wildcards.get(name, dataset) != dataset]
        groups[" ".join([job.rule, *names])].append(_row(job, data, threads=threads))
    rows = [_sum(name, group) for name, group in groups.items()]
    lacks = ", ".join(row["rule"] for row in rows if row["seconds"] is None)
    return [*rows, {**_sum("total", rows), "assumption": f"lacks the seconds of {lacks}" if lacks else ""}]


def work_of(job: Job, data: Data) -> Work | None:
    """The amounts of a job's work (`condenser.pipeline.costs.rules`); None where its kind has no `cost`."""
    kind = None
    for folder, noun, key in ((SYSTEMS, "system", "kind"), (OBJECTIVES, "model", "objective")):
        if hasattr(job.config, noun):
            kind = kinds.load(folder, getattr(getattr(job.config, noun), key))
    cost = getattr(rules, job.rule, None) or getattr(kind, "cost", None)
    return None if cost is None else cost(job, data)


def write_plan(rows: Sequence[Row], output: str | Path) -> None:
    """Write the rows as TSV."""
    lines = [COLUMNS, *([_cell(name, row[name]) for name in COLUMNS] for row in rows)]
    with atomic_write(output) as file:
        file.write("".join("\t".join(line) + "\n" for line in lines).encode())


def rendered(rows: Sequence[Row]) -> str:
    """The total with its range, and a line on the rates and sizes of it that nobody has measured."""
    total = rows[-1]
    if total["seconds"] is None:
        return "The time is unknown."
    low, high = (in_words(total[end]) for end in _RANGE)
    time = f"{in_words(total['seconds'])}, between {low} and {high}, one job after the other"
    rates = {
        key: part / total["seconds"] for (basis, key), part in total["rates"].items() if basis == "stated"
    }
    large = [f"{key} {share:.0%}" for key, share in _largest_first(rates).items() if share >= 0.01]
    if len(rates) > len(large):
        large.append(f"{len(rates) - len(large)} {'more' if large else 'rates'} below 1% each")
    num_assumed = sum(row["basis"] == "assumed" for row in rows[:-1])
    lines = [f"{total['device']}: {time}. Rates: {_shares(total['rates'])}."]
    if large:
        lines.append(f"Nobody has measured (with the share of the time): {', '.join(large)}.")
    if num_assumed:
        lines.append(
            f"Sizes are assumed in {num_assumed} of {len(rows) - 1} rows: see the column assumption."
        )
    if total["assumption"]:
        lines.append(f"The total {total['assumption']}.")
    return "\n".join(lines)


def _row(job: Job, data: Data, *, threads: int) -> Row:
    """The row of one job, without its name."""
    data.assumptions.clear()
    work = work_of(job, data)
    row: Row = dict.fromkeys(COLUMNS) | {"jobs": 1, "device": data.device.name, "seconds": job.seconds}
    row |= {"basis": "unknown" if job.seconds is None else "measured", "assumption": "", "rates": {}}
    if job.seconds is not None:
        row |= dict.fromkeys(_RANGE, job.seconds) | {"rates": {("measured", job.rule): job.seconds}}
    if work is None:
        return row
    if job.seconds is None:
        row["rates"] = data.tables.seconds_by_rate(job.rule, work, data.device, threads=threads)
        row["seconds"] = sum(row["rates"].values())
        row["basis"] = "assumed" if data.assumptions else "counted"
        ends = data.tables.seconds_range(row["rates"], sizes_assumed=bool(data.assumptions))
        row |= dict(zip(_RANGE, ends, strict=True))
    row |= {column: work.get(column, 0) for column in _AMOUNTS}
    row["flops"] += work.get("fp32_flops", 0)
    row["memory_bytes"] += data.tables.assumption("process_bytes")
    return row | {"assumption": _each_once([*data.assumptions, work.get("note"), work.get("lacks")])}


def _sum(name: str, rows: Sequence[Row]) -> Row:
    """Several rows as one, without what is unknown."""
    known = {column: [row[column] for row in rows if row[column] is not None] for column in COLUMNS}
    return {
        "rule": name,
        **{column: sum(known[column]) if known[column] else None for column in ("jobs", *_SUMMED)},
        "memory_bytes": max(known["memory_bytes"], default=None),
        "device": rows[0]["device"],
        "basis": max(known["basis"], key=_BASES.index),
        "assumption": _each_once(known["assumption"]),
        "rates": _add(known["rates"]),
    }


def _each_once(texts: Iterable[str | None]) -> str:
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _add(parts: Iterable[Mapping[Any, float]]) -> dict[Any, float]:
    sums: dict[Any, float] = defaultdict(float)
    for part in parts:
        for key, amount in part.items():
            sums[key] += amount
    return dict(sums)


def _largest_first(amounts: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(amounts.items(), key=lambda item: -item[1]))


def _shares(rates: Mapping[Rate, float]) -> str:
    """What seconds rest on, most first; parts below half a percent are left out.

    >>> _shares({("scaled", "* cpu flops"): 9.0, ("stated", "* cpu layers"): 1.0})
    'scaled 90%, stated 10%'
    """
    by_basis = _largest_first(_add({basis: part} for (basis, _), part in rates.items()))
    total = sum(by_basis.values())
    shares = {basis: round(100 * part / total) for basis, part in by_basis.items()}
    return ", ".join(f"{basis} {share}%" for basis, share in shares.items() if share) or "unknown"


def in_words(seconds: float) -> str:
    """Seconds to three digits.

    >>> in_words(42), in_words(630), in_words(135_360)
    ('42 s', '10.5 min', '37.6 h')
    """
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:,.0f} h" if seconds >= 3.6e6 else f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _cell(column: str, value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, dict):
        return _shares(value)
    return value if isinstance(value, str) else _FORMATS.get(column, "{:.0f}").format(value)
