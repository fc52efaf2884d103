"""What all measurements of benchmarks/bench.py share: their form, timing in turn, a line of the table."""

from __future__ import annotations

import cProfile
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from condenser import program
from condenser.pipeline.environment import SPEED

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parent.parent

COLUMNS = ("what", "unit", "ours", "against", "peer", "ratio", "limit", "goal", "reached", "profile", "note")
_MOST_NAMED = 6  # parts of a profile


@dataclass(frozen=True)
class Form:
    """How large a measurement is, and on what it runs.

    Attributes:
        inputs: the folder of `write_inputs`, which all measurements share.
        work: a folder for this measurement alone.
        long: the sizes of the papers, for a GPU; else those of two processor cores in minutes.
        device: cpu, cuda or auto.
        cpu_time: count seconds of processor time, for one thread on a busy machine.
    """

    inputs: Path
    work: Path
    threads: int
    long: bool
    device: str
    cpu_time: bool

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds: of the clock on the wall, or of processors."""
        return processor_seconds if self.cpu_time else time.perf_counter

    def size(self, short: int, long: int) -> int:
        """One of two numbers, by the form."""
        return long if self.long else short


def run(main: Callable[[Sequence[str] | None], None]) -> None:
    """`program.run` with the variables by which the workflow makes its programs fast."""
    if not SPEED.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **SPEED})
    program.run(main)


def processor_seconds() -> float:
    """Seconds of all processors for this process, its threads, and its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def peak_bytes(device: torch.device) -> int:
    """The most memory of this process: of tensors on a GPU, else what was resident.

    `ru_maxrss` of a new process begins with that of its parent; the system's VmHWM does not.
    """
    import torch

    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def seconds_of(work: Callable[[], object], *, clock: Callable[[], float]) -> float:
    """Seconds that `work` takes."""
    began = clock()
    work()
    return clock() - began


def in_turn(
    works: Mapping[str, Callable[[], object]], *, repeats: int, clock: Callable[[], float]
) -> dict[str, float]:
    """The median of each one's seconds, one after the other, `repeats` times.

    So what else the machine does at a time holds up all of them.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            times[name].append(seconds_of(work, clock=clock))
    return {name: median(of_one) for name, of_one in times.items()}


class Operators:
    """Where the time between `start` and `stop` goes, by PyTorch's operators: each without those it calls."""

    def __init__(self) -> None:
        from torch.profiler import profile

        self._profiler = profile()
        self.said = ""

    def start(self) -> None:
        self._profiler.start()
        self._began = time.perf_counter()

    def stop(self) -> None:
        """Note the longest in `said`."""
        whole = time.perf_counter() - self._began
        self._profiler.stop()
        events = self._profiler.key_averages()
        on_gpu = any(event.self_device_time_total for event in events)
        seconds = {
            event.key.removeprefix("aten::"): 1e-6
            * (event.self_device_time_total if on_gpu else event.self_cpu_time_total)
            for event in events
        }
        seconds["outside of operators"] = whole - sum(seconds.values())
        self.said = shares(seconds, whole)


def functions(work: Callable[[], object]) -> str:
    """Where the time of `work` goes, by Python's functions: each without those it calls."""
    profiler = cProfile.Profile()
    began = time.perf_counter()
    profiler.runcall(work)
    whole, seconds = time.perf_counter() - began, dict[str, float]()
    for entry in profiler.getstats():
        name = re.sub(r"^<(?:built-in )?(?:method )?(.*?)(?: of .*)?>$", r"\1", _name_of(entry.code))
        seconds[name] = seconds.get(name, 0.0) + entry.inlinetime
    return shares(seconds, whole)


def _name_of(code: Any) -> str:
    return code if isinstance(code, str) else code.co_name


def shares(seconds: Mapping[str, float], whole: float) -> str:
    """The largest parts of `whole` in per cent, and what is left.

    >>> shares({"a": 1.0, "b": 2.0}, 4.0)
    'b 50 %, a 25 %, others 25 %'
    """
    largest = sorted(seconds.items(), key=lambda part: -part[1])[:_MOST_NAMED]
    parts = [*largest, ("others", whole - sum(seconds for _, seconds in largest))]
    return ", ".join(f"{name} {100 * part / whole:.0f} %" for name, part in parts)


def line(
    what: str,
    unit: str,
    ours: float,
    *,
    better: Literal["more", "less"],
    against: str = "",
    peer: float | None = None,
    least_ratio: float | None = None,
    most: float | None = None,
    limit: float | None = None,
    profile: str = "",
    note: str = "",
) -> dict[str, Any]:
    """A line of the table.

    Args:
        better: whether more or less of the unit is better. A ratio above 1 says that ours is better.
        least_ratio, most: the goal, for the ratio or for ours; a line may have one of them or none.
        limit: what the hardware allows, in the unit.
        profile: where the time of ours goes.
    """
    ratio = None if peer is None else (ours / peer if better == "more" else peer / ours)
    goal = reached = ""
    if least_ratio is not None:
        assert ratio is not None, "a goal for a ratio needs a peer"
        goal, reached = f"{least_ratio:g}x", "yes" if ratio >= least_ratio else "no"
    elif most is not None:
        goal, reached = f"at most {most:g}", "yes" if ours <= most else "no"
    cells = (what, unit, ours, against, peer, ratio, limit, goal, reached, profile, note)
    return dict(zip(COLUMNS, cells, strict=True))


def load_config(overlays: Sequence[Path]) -> dict[str, Any]:
    """config.yaml and the papers' tables with these overlays, validated as by the workflow."""
    import yaml
    from snakemake.utils import update_config

    from condenser.config import validated

    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    for overlay in [*sorted(ROOT.glob("configs/tables/*.yaml")), *overlays]:
        update_config(config, yaml.safe_load(overlay.read_text()) or {})
    return validated(config)


def write_inputs(folder: Path, *, threads: int, long: bool) -> None:
    """Write what measurements share: the default's collection of docstrings, models, tokens.

    `model/` is the embedded backbone, and `cls/` the same as the papers use it; in the long form both have
    the shape of BERT-base and new weights. `data/` are the canonical files and `tokens.0-of-1` their shard.
    """
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    from condenser.data import sources
    from condenser.data.tokens import Tokenizer, tokenise_collection
    from condenser.model.backbone import backbone_from
    from condenser.model.backbone_sources import embedded_folder

    torch.set_num_threads(threads)
    folder.mkdir(parents=True)
    origin = embedded_folder()
    if long:
        torch.manual_seed(0)
        BertModel(BertConfig(max_position_embeddings=512)).save_pretrained(folder / "base")
        AutoTokenizer.from_pretrained(origin).save_pretrained(folder / "base")
        origin = folder / "base"
    for name, pooling, normalised in (("model", "mean", True), ("cls", "cls", False)):
        backbone_from(origin, folder / name, seed=0, pooling=pooling, normalised=normalised)
    dataset = load_config([])["datasets"]["msmarco"]
    (folder / "data").mkdir()
    sources.collect(folder / "data", {}, dataset)
    tokenise_collection(
        folder / "data" / "collection.jsonl",
        folder / "data" / "doc_ids.txt",
        folder / "tokens.0-of-1",
        Tokenizer(folder / "model"),
        shard="0-of-1",
        multiple_of=1024,
        leading_separator=False,
        batch_size=512,
    )
