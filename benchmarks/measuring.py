"""What all measurements share: their form, timing in turn, a line of a table, processes and inputs."""

from __future__ import annotations

import multiprocessing
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from condenser import program
from condenser.nouns import Config
from condenser.pipeline.environment import SPEED

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parent.parent

COLUMNS = ("what", "unit", "ours", "against", "peer", "ratio", "goal", "reached", "note")


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
    """The most memory of this process: of tensors on a GPU, else what was resident."""
    import torch

    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else resident_bytes("VmHWM")


def resident_bytes(kind: str) -> int:
    """`VmRSS`, or another entry of Linux's /proc/self/status.

    `ru_maxrss` of a new process begins with that of its parent; the entry VmHWM does not.
    """
    found = re.search(rf"^{kind}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"/proc/self/status: expected {kind}, found none. Is this Linux, 4.5 or newer?")
    return 1024 * int(found[1])


def in_new_process(work: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """What `work` gives in a process of its own, whose memory can be measured."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(work, *arguments, **settings).result()


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
    turns = [{name: seconds_of(works[name], clock=clock) for name in works} for _ in range(repeats)]
    return {name: median(turn[name] for turn in turns) for name in works}


def best_size(step: Callable[[int], object], sizes: Sequence[int], *, clock: Callable[[], float]) -> int:
    """The size at which a step is fastest; the first is repeated: it warms up."""
    seconds = {size: seconds_of(lambda size=size: step(size), clock=clock) for size in (sizes[0], *sizes)}
    return min(seconds, key=seconds.__getitem__)


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
    cells = (what, unit, ours, against, peer, ratio, goal, reached, note)
    return dict(zip(COLUMNS, cells, strict=True))


def lines(
    what: str, unit: str, ours: float, peers: Mapping[str, float], *, goals: Mapping[str, float], **more: Any
) -> list[dict[str, Any]]:
    """A line for each peer's rate; some have a goal for the ratio."""
    return [
        line(what, unit, ours, better="more", against=name, peer=peer, least_ratio=goals.get(name), **more)
        for name, peer in peers.items()
    ]


def write_tsv(
    file: Path | None, columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, heading: str = ""
) -> list[str]:
    """Write a table, of numbers in four digits, unless there is no file; gives its lines."""
    from condenser.files import atomic_write

    cells = ([row.get(name, "") for name in columns] for row in rows)
    table = ["\t".join(f"{c:.4g}" if isinstance(c, float) else str(c) for c in row) for row in cells]
    table = ["\t".join(columns), *table]
    if file is not None:
        with atomic_write(file) as out:
            out.write("".join(f"{row}\n" for row in [*filter(None, [heading]), *table]).encode())
    return table


def load_config(overlays: Sequence[Path]) -> Config:
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
    from jobs import tokenise
    from transformers import AutoTokenizer, BertConfig, BertModel

    from condenser.data import sources
    from condenser.data.tokens import Tokenizer
    from condenser.model.backbone import backbone_from
    from condenser.model.backbone_sources import embedded_folder

    torch.set_num_threads(threads)
    folder.mkdir(parents=True)
    origin, data = embedded_folder(), folder / "data"
    if long:
        torch.manual_seed(0)
        BertModel(BertConfig(max_position_embeddings=512)).save_pretrained(folder / "base")
        AutoTokenizer.from_pretrained(origin).save_pretrained(folder / "base")
        origin = folder / "base"
    for name, pooling, normalised in (("model", "mean", True), ("cls", "cls", False)):
        backbone_from(origin, folder / name, seed=0, pooling=pooling, normalised=normalised)
    data.mkdir()
    sources.collect(data, {}, load_config([]).datasets["msmarco"])
    tokens = folder / "tokens.0-of-1"
    tokenise(data / "collection.jsonl", data / "doc_ids.txt", tokens, Tokenizer(folder / "model"))
