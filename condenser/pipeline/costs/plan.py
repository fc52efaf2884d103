"""The plan of a table: what each of its jobs takes, worked out without running any."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from condenser import kinds
from condenser.files import atomic_write
from condenser.objectives import FOLDER as OBJECTIVES
from condenser.pipeline.costs import stages
from condenser.pipeline.costs.data import Data
from condenser.pipeline.costs.jobs import Job
from condenser.pipeline.costs.stages import Work
from condenser.pipeline.costs.tables import Device, Tables
from condenser.systems import FOLDER as SYSTEMS

Row = dict[str, Any]
_AMOUNTS = ("tokens", "flops", "bytes_on_disk", "memory_bytes")
_SUMMED = ("tokens", "flops", "bytes_on_disk", "seconds")
COLUMNS = ("stage", "jobs", *_AMOUNTS, "seconds", "device", "basis", "assumption")
_TOLD = ("dataset", "file", "model", "system", "variant", "split")  # what a row names of its jobs
_FORMATS = {"flops": "{:.4g}", "seconds": "{:.1f}"}
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
        told = [job.wildcards[name] for name in _TOLD if job.wildcards.get(name, dataset) != dataset]
        groups[" ".join([job.stage, *told])].append(_row(job, data, threads=threads))
    rows = [_sum(name, group) for name, group in groups.items()]
    lacks = ", ".join(row["stage"] for row in rows if row["seconds"] is None)
    return [*rows, {**_sum("total", rows), "assumption": f"lacks the seconds of {lacks}" if lacks else ""}]


def work_of(job: Job, data: Data) -> Work | None:
    """The amounts of a job's work (`condenser.pipeline.costs.stages`); None where its kind has no `cost`."""
    kind = None
    for folder, noun, key in ((SYSTEMS, "system", "kind"), (OBJECTIVES, "model", "objective")):
        if noun in job.config:
            kind = kinds.load(folder, job.config[noun][key])
    cost = getattr(stages, job.stage, None) or getattr(kind, "cost", None)
    return None if cost is None else cost(job, data)


def write_plan(rows: Sequence[Row], output: str | Path) -> None:
    """Write the rows as TSV."""
    lines = [COLUMNS, *([_cell(name, row[name]) for name in COLUMNS] for row in rows)]
    with atomic_write(output) as file:
        file.write("".join("\t".join(line) + "\n" for line in lines).encode())


def _row(job: Job, data: Data, *, threads: int) -> Row:
    """The row of one job, without its name."""
    data.assumptions.clear()
    work = work_of(job, data)
    row: Row = dict.fromkeys(COLUMNS) | {"jobs": 1, "device": data.device.name, "seconds": job.seconds}
    row |= {"basis": "unknown" if job.seconds is None else "measured", "assumption": ""}
    if work is None:
        return row
    if job.seconds is None:
        row["seconds"] = data.tables.seconds(job.stage, work, data.device, threads=threads)
        row["basis"] = "assumed" if data.assumptions else "counted"
    row |= {column: work.get(column, 0) for column in _AMOUNTS}
    row["flops"] += work.get("fp32_flops", 0)
    row["memory_bytes"] += data.tables.assumption("process_bytes")
    return row | {"assumption": _each_once([*data.assumptions, work.get("note")])}


def _sum(name: str, rows: Sequence[Row]) -> Row:
    """Several rows as one, without what is unknown."""
    known = {column: [row[column] for row in rows if row[column] is not None] for column in COLUMNS}
    return {
        "stage": name,
        **{column: sum(known[column]) if known[column] else None for column in ("jobs", *_SUMMED)},
        "memory_bytes": max(known["memory_bytes"], default=None),
        "device": rows[0]["device"],
        "basis": max(known["basis"], key=_BASES.index),
        "assumption": _each_once(known["assumption"]),
    }


def _each_once(said: Iterable[str | None]) -> str:
    return "; ".join(dict.fromkeys(filter(None, said)))


def _cell(column: str, value: Any) -> str:
    if value is None:
        return "unknown"
    return value if isinstance(value, str) else _FORMATS.get(column, "{:.0f}").format(value)
