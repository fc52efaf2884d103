"""The plan of a data set's table: what each stage takes, worked out without running any."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from condenser.files import atomic_write, read_json
from condenser.pipeline.costs.jobs import Cost, Jobs, closure
from condenser.pipeline.costs.sizes import read_counted
from condenser.pipeline.costs.tables import Device, Tables
from condenser.pipeline.manifests import manifest_path
from condenser.pipeline.stages import Job

COLUMNS = (
    "stage",
    "jobs",
    "tokens",
    "flops",
    "bytes_on_disk",
    "memory_bytes",
    "seconds",
    "device",
    "basis",
    "assumption",
)
_SHARES = {"flops": "flops_per_s", "host_flops": "host_flops_per_s", "graph_bytes": "bytes_per_s"}
_SHARES["update_bytes"] = "bytes_per_s"
_COUNTED = ("collect", "tokens", "query_tokens", "examples", "triple_examples")  # a plan can use their counts


@dataclass(frozen=True)
class PlanRow:
    """A stage, all its shards together; `memory_bytes` is of one job, all else of all."""

    stage: str
    jobs: int
    tokens: float
    flops: float
    bytes_on_disk: float
    memory_bytes: float
    seconds: float
    device: str
    basis: str
    assumption: str


def make_plan(
    config: dict[str, Any], dataset: str, manifests: Sequence[Path], *, tables: Tables, device: Device
) -> list[PlanRow]:
    """The stages on the way to a data set's table 2, in order, and their sum.

    A row is named by its stage and by what else tells its jobs apart: a data set other than this
    one, a system, a split, a file. Seconds are of one job after the other on the one device, on
    its processor where a stage uses nothing else.

    Args:
        config: from `condenser.config.validated`.
        manifests: of the jobs whose counts replace assumptions; see `current_manifests`.

    Raises:
        ValueError: a size, backbone, stage or rate is missing from the tables.
    """
    jobs = Jobs(config, tables=tables, counted=read_counted(manifests), device=device)
    costs: dict[str, list[Cost]] = {}
    seconds: dict[str, float] = {}
    for job in closure(config, ("table2", {"dataset": dataset})):
        name, cost = _row_name(job, dataset), jobs.cost(job)
        costs.setdefault(name, []).append(cost)
        threads = config["compute"]["threads"]
        seconds[name] = seconds.get(name, 0.0) + job_seconds(
            job[0], cost.work, tables=tables, device=device, threads=threads
        )
    rows = []
    for name, group in costs.items():
        assumptions = dict.fromkeys(text for cost in group for text in cost.assumptions if text)
        rows.append(
            PlanRow(
                name,
                len(group),
                sum(cost.tokens for cost in group),
                sum(cost.flops for cost in group),
                sum(cost.bytes_on_disk for cost in group),
                max(cost.memory_bytes for cost in group),
                seconds[name],
                device.name,
                "assumed" if assumptions else "counted",
                "; ".join(assumptions),
            )
        )
    return [*rows, _total(rows, device)]


def job_seconds(
    stage: str, work: Mapping[str, float], *, tables: Tables, device: Device, threads: int
) -> float:
    """The time of one job: each kind of its work at its rate, one after the other.

    Raises:
        ValueError: rates.tsv has no rate for a kind of work.
    """
    total = 0.0
    for unit, amount in work.items():
        row = next(
            (
                tables.rates[key]
                for key in ((stage, device.kind, unit), (stage, "host", unit), ("*", device.kind, unit))
                if key in tables.rates
            ),
            None,
        )
        if row is None:
            raise ValueError(
                f"rates.tsv: expected a rate of {unit} of stage {stage} on a {device.kind}, got none. "
                "Add a row."
            )
        rate = float(row["rate"])
        if unit in _SHARES:
            rate *= getattr(device, _SHARES[unit])
        elif int(row["threads"]):
            rate *= threads / int(row["threads"])
        total += amount / rate
    return total


def current_manifests(
    config: dict[str, Any],
    dataset: str,
    results: Path,
    *,
    spec: Callable[[str, dict[str, str]], dict[str, Any]],
) -> list[Path]:
    """Manifests under `results` whose counts hold for this configuration: their spec is today's.

    Args:
        spec: the spec of a job, as `condenser.pipeline.specs.Specs.spec` gives it.
    """
    found = []
    for stage, wildcards in closure(config, ("table2", {"dataset": dataset})):
        if stage in _COUNTED:
            path = manifest_path(results, stage, wildcards)
            if path.is_file() and read_json(path).get("spec") == spec(stage, wildcards):
                found.append(path)
    return found


def write_plan(rows: Sequence[PlanRow], output: str | Path) -> None:
    """Write the rows as TSV, whole numbers but for seconds and operations."""
    with atomic_write(output) as file:
        file.write(("\t".join(COLUMNS) + "\n").encode())
        for row in rows:
            cells = [
                row.stage,
                row.jobs,
                round(row.tokens),
                f"{row.flops:.4g}",
                round(row.bytes_on_disk),
                round(row.memory_bytes),
                f"{row.seconds:.1f}",
                row.device,
                row.basis,
                row.assumption,
            ]
            file.write(("\t".join(map(str, cells)) + "\n").encode())


def _row_name(job: Job, dataset: str) -> str:
    stage, wildcards = job
    parts = [wildcards[name] for name in ("dataset", "system", "split", "file") if name in wildcards]
    return " ".join([stage, *(part for part in parts if part != dataset)])


def _total(rows: Sequence[PlanRow], device: Device) -> PlanRow:
    return PlanRow(
        "total",
        sum(row.jobs for row in rows),
        sum(row.tokens for row in rows),
        sum(row.flops for row in rows),
        sum(row.bytes_on_disk for row in rows),
        max(row.memory_bytes for row in rows),
        sum(row.seconds for row in rows),
        device.name,
        "assumed" if any(row.basis == "assumed" for row in rows) else "counted",
        "memory is the largest stage's; seconds of one job after the other",
    )
