"""The tables of public and measured numbers that a plan is made with, one TSV file each.

Every row names its source; a number that is nobody's says so there. Columns hold text, numbers are
read where they are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from condenser.pipeline.costs.arithmetic import Shape

Row = dict[str, str]


@dataclass(frozen=True)
class Device:
    """A machine by its peak rates.

    `kind` is cpu or gpu; `flops_per_s` are of matrix products in `precision`, `bytes_per_s` of
    everything else, which only passes through memory. `host_flops_per_s` are of matrix products in
    float32 on all threads of the processor beside a GPU; on a CPU, its own.
    """

    name: str
    kind: str
    precision: str
    flops_per_s: float
    bytes_per_s: float
    memory_bytes: float
    host_flops_per_s: float


@dataclass(frozen=True)
class Tables:
    """All tables; rows by their first column, the rates by stage, kind of device and unit."""

    devices: dict[str, Row]
    backbones: dict[str, Row]
    collections: dict[str, Row]
    assumptions: dict[str, Row]
    rates: dict[tuple[str, str, str], Row]

    def assumption(self, name: str) -> float:
        return float(self.assumptions[name]["value"])

    def device(self, name: str) -> Device:
        """A device by its name.

        Raises:
            ValueError: there is none of this name.
        """
        if name not in self.devices:
            known = ", ".join(self.devices)
            raise ValueError(
                f"device: expected one out of {known}, or measure, got {name!r}. Add a row for it."
            )
        row = self.devices[name]
        return Device(
            name,
            row["kind"],
            row["precision"],
            float(row["flops_per_s"]),
            float(row["bytes_per_s"]),
            float(row["memory_bytes"]),
            float(row["host_flops_per_s"]),
        )

    def shape(self, name: str) -> Shape:
        """The dimensions of a known backbone.

        Raises:
            ValueError: it is not known.
        """
        if name not in self.backbones:
            raise ValueError(
                f"backbone: expected one out of {', '.join(self.backbones)}, got {name!r}. "
                "Add a row with its dimensions to backbones.tsv."
            )
        row = self.backbones[name]
        return Shape(*(int(row[key]) for key in Shape.__dataclass_fields__))


def read_tables(folder: str | Path) -> Tables:
    """Read the tables of a folder.

    Raises:
        ValueError: a line has more or fewer columns than the header, or repeats a key.
    """
    folder = Path(folder)
    by_name = {
        name: {row[next(iter(row))]: row for row in _rows(folder / f"{name}.tsv", keys=1)}
        for name in ("devices", "backbones", "collections", "assumptions")
    }
    rates = {(row["stage"], row["kind"], row["unit"]): row for row in _rows(folder / "rates.tsv", keys=3)}
    return Tables(**by_name, rates=rates)


def _rows(path: Path, *, keys: int) -> list[Row]:
    """The rows of a TSV file with a header; its first `keys` columns tell rows apart."""
    header, *lines = path.read_text().splitlines()
    names = header.split("\t")
    rows: dict[tuple[str, ...], Row] = {}
    for number, line in enumerate(lines, start=2):
        cells = line.split("\t")
        if len(cells) != len(names):
            raise ValueError(f"{path}:{number}: expected {len(names)} columns, got {len(cells)}. Use tabs.")
        if tuple(cells[:keys]) in rows:
            raise ValueError(
                f"{path}:{number}: expected each row once, got {cells[:keys]} again. Remove one."
            )
        rows[tuple(cells[:keys])] = dict(zip(names, cells, strict=True))
    return list(rows.values())
