"""The cost of a table: parameters, time and memory of its rules, beside the costs that the authors state.

Source: Condenser, A.2, and `costs.tsv` beside this file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from condenser.nouns import FigureOfTable

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

READS = "manifests"

_COLUMNS = ("rule", "name", "jobs", "parameters", "seconds", "processor_hours", "gpu_hours")
_MORE = ("peak_memory_mb", "peak_gpu_memory_mb", "device", "origin", "collection", "source")


class Settings(FigureOfTable):
    """The `table` whose rules are counted."""

    PUBLISHED: ClassVar[Path | None] = Path(__file__).with_suffix(".tsv")


def table(settings: Any, files: Sequence[Path], *, significance: Mapping[str, Any]) -> pd.DataFrame:
    """A line for each rule of each model and system: sums over its jobs, and the most memory of one.

    The seconds of a job that was interrupted are those of its last part. `parameters` are all weights that
    the rule wrote, heads included.
    """
    import pandas as pd

    from condenser.evaluate import published
    from condenser.manifest import read_manifest

    *manifests, figures = files
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for file in manifests:
        record = read_manifest(file)  # refuses a damaged one
        job = record.spec["rule"], _name(record.spec["wildcards"])
        groups.setdefault(job, []).append({**record.whole, "parameters": _num_parameters(record.outputs)})
    lines: list[dict[str, Any]] = []
    for (rule, name), records in groups.items():
        on_gpu = [record for record in records if record["device"].startswith("cuda")]
        devices = sorted({record["device"] for record in records})
        lines.append(
            {
                "rule": rule,
                "name": name,
                "jobs": len(records),
                "parameters": records[0]["parameters"],
                "seconds": f"{sum(record['wall_time_s'] for record in records):.1f}",
                "processor_hours": _hours(records, "processor_s"),
                "gpu_hours": _hours(on_gpu, "wall_time_s") if on_gpu else None,
                "peak_memory_mb": max(record["peak_memory_mb"] for record in records),
                "peak_gpu_memory_mb": max(record.get("peak_gpu_memory_mb", 0) for record in records) or None,
                "device": "; ".join(devices),
                "origin": "measured",
                "collection": settings.collection,
                "source": "manifests",
            }
        )
    lines += [{**row, "origin": "published"} for row in published.read(figures)]
    frame = pd.DataFrame(lines, columns=[*_COLUMNS, *_MORE])
    for column in ("jobs", "parameters", "peak_memory_mb", "peak_gpu_memory_mb"):
        frame[column] = pd.to_numeric(frame[column].replace("", None)).astype("Int64")
    return frame


def _name(wildcards: Mapping[str, str]) -> str:
    """The model or system of a job, whatever its seed; else its data set."""
    name = wildcards.get("system") or wildcards.get("model") or wildcards.get("dataset") or wildcards["file"]
    return re.sub(r"-seed\d+$", "", name)


def _num_parameters(outputs: Mapping[Path, str]) -> int | None:
    """The numbers in all weights of a result, from the headers of their files."""
    from safetensors import safe_open

    weights = [file for file in outputs if file.suffix == ".safetensors"]
    total = 0
    for file in weights:
        with safe_open(file, framework="numpy") as tensors:
            total += sum(prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118
    return total if weights else None


def _hours(records: Sequence[Mapping[str, Any]], key: str) -> str:
    """The sum over jobs and their processes, written with six decimals."""
    return f"{sum(record[key] * record['processes'] for record in records) / 3600:.6f}"


def picture(frame: pd.DataFrame, settings: Any) -> Picture:
    """Bars of wall time and of peak memory for each rule of each model and system, the ten longest."""
    from condenser.evaluate.figures._drawing import panels, styles

    measured = frame[frame["origin"] == "measured"].copy()
    measured["minutes"] = measured["seconds"].astype(float) / 60
    longest = measured.sort_values("minutes", ascending=False, kind="stable").head(10).iloc[::-1]
    drawn, axes = panels(
        [f"the longest of {len(measured)} rules", "peak memory of one job"],
        title=f"What {settings.table} took, {measured['collection'].iloc[0]}",
        x="minutes, one job after the other",
        y="",
        share_y=True,
    )
    axes[1].set_xlabel("GB; of a GPU, where one was used")
    names = [f"{rule} {name}" for rule, name in zip(longest["rule"], longest["name"], strict=True)]
    memory = longest["peak_gpu_memory_mb"].fillna(longest["peak_memory_mb"]).astype(float) / 1000
    jobs = [f" ({jobs} jobs)" if jobs > 1 else "" for jobs in longest["jobs"]]
    minutes = [f" {value:.1f}{note}" for value, note in zip(longest["minutes"], jobs, strict=True)]
    gigabytes = [f" {value:.1f}" for value in memory]
    for axis, values, labels in zip(axes, (longest["minutes"], memory), (minutes, gigabytes), strict=True):
        bars = axis.barh(names, values, color=styles(1)[0]["color"])
        axis.bar_label(bars, labels)
        axis.margins(x=0.3)
        axis.grid(axis="y", visible=False)
    return drawn
