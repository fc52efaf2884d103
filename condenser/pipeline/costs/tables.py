"""The tables of published and measured numbers, one TSV file each; every row names its source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from condenser.evaluate import published
from condenser.pipeline.costs.shape import Shape

Row = dict[str, str]
Rate = tuple[str, str]  # basis (measured, scaled or stated), then rule, kind and unit
# Columns of the key, which come first.
_NUM_KEYS = {"devices": 1, "backbones": 1, "collections": 1, "assumptions": 1, "rates": 3, "spreads": 1}
_PEAKS = {"flops": "flops_per_s", "fp32_flops": "fp32_flops_per_s"}
_TIMELESS = ("tokens", "launches", "bytes_on_disk", "memory_bytes", "note", "lacks")  # of most rules


@dataclass(frozen=True)
class Device:
    """A machine by its rates; `kind` is cpu or gpu.

    `flops_per_s` is what a layer of a transformer reaches in `precision`, forward and backward, and
    `fp32_flops_per_s` a large product in float32 (on a GPU without TF32).
    """

    name: str
    kind: str
    precision: str
    flops_per_s: float
    fp32_flops_per_s: float
    memory_bytes: float


class Tables:
    """The tables of a folder.

    Raises:
        ValueError: a line has more or fewer columns than the header.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables = {
            name: {
                " ".join(list(row.values())[:num_keys]): row for row in published.read(folder / f"{name}.tsv")
            }
            for name, num_keys in _NUM_KEYS.items()
        }

    def row(self, table: str, key: str) -> Row:
        """The row of a table with this key in its first column.

        Raises:
            ValueError: there is none.
        """
        rows = self._tables[table]
        if key not in rows:
            raise ValueError(
                f"{self._folder / table}.tsv: expected one of {', '.join(rows)}, got {key!r}. "
                "Add a row for it."
            )
        return rows[key]

    def assumption(self, name: str) -> float:
        """A value of assumptions.tsv."""
        return float(self.row("assumptions", name)["value"])

    def device(self, name: str) -> Device:
        """A device of devices.tsv."""
        _, kind, precision, *rates, _ = self.row("devices", name).values()
        return Device(name, kind, precision, *map(float, rates))

    def shape(self, name: str) -> Shape:
        """The dimensions of a checkpoint of backbones.tsv."""
        _, *dimensions, _ = self.row("backbones", name).values()
        return Shape(*map(int, dimensions))

    def seconds_range(self, seconds: Mapping[Rate, float], *, sizes_assumed: bool) -> tuple[float, float]:
        """The lowest and the highest sum of seconds at these rates, by the factors of spreads.tsv."""
        ends = []
        for end, sign in (("low", -1), ("high", 1)):
            factor = {basis: float(row[end]) ** sign for basis, row in self._tables["spreads"].items()}
            sizes = factor["sizes"] if sizes_assumed else 1.0
            ends.append(sizes * sum(factor[basis] * part for (basis, _), part in seconds.items()))
        return ends[0], ends[1]

    def seconds_by_rate(
        self, rule: str, work: Mapping[str, Any], device: Device, *, threads: int
    ) -> dict[Rate, float]:
        """The time of one job, by rate: its start, then each kind of its work, one after the other.

        A rate is `measured` on this very device, or `scaled` from another one, or only `stated`.

        A row of the rule wins over a row of all rules (`*`). Of `flops` and `fp32_flops` the row has
        the share of the device's rate. Other rates grow with the threads they were measured with, if not 0.
        A processor launches a layer's kernels (`launches`) while a GPU computes (`flops`): the slower counts.

        Raises:
            ValueError: rates.tsv has no rate for a kind of work.
        """
        seconds: dict[Rate, float] = defaultdict(float)
        for unit, amount in {"jobs": 1, **work}.items():
            keys = (f"{rule} {device.kind}", f"{rule} host", f"* {device.kind}")
            row = next(filter(None, (self._tables["rates"].get(f"{key} {unit}") for key in keys)), None)
            if row is not None:
                peak = getattr(device, _PEAKS[unit]) if unit in _PEAKS else 1.0
                speed = float(row["rate"]) * peak * threads / (int(row["threads"]) or threads)
                key = " ".join([row["rule"], row["kind"], unit])
                seconds[_basis(row["measured_on"], device), key] += amount / speed
            elif unit not in _TIMELESS:
                raise ValueError(
                    f"{self._folder / 'rates.tsv'}: expected a rate of {unit} of rule {rule} on a "
                    f"{device.kind}, got none. Add it."
                )
        at_once = [rate for rate in seconds if rate[1].endswith((" flops", " launches"))]
        for rate in sorted(at_once, key=seconds.__getitem__)[:-1]:
            del seconds[rate]
        return seconds


def _basis(measured_on: str, device: Device) -> str:
    """What a rate is for a device; `measured_on` is a machine's name, or nothing."""
    if measured_on == "nothing":
        return "stated"
    return "measured" if device.name in measured_on else "scaled"
