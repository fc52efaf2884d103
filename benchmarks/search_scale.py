"""Measure memory and time of exhaustive search over random vectors, for several numbers of them.

    python benchmarks/search_scale.py --folder /tmp/scale --dim 384 --rows 100000 --factors 1 4 16 \\
        --queries 4096 --depth 1000 --block-rows 16384 --threads 1 --seed 1 --output search_scale.tsv
    python benchmarks/search_scale.py --folder /tmp/scale --dim 768 --rows 8841823 --factors 1 \\
        --queries 6980 --depth 1000 --block-rows 16384 --threads 8 --seed 1 --output msmarco.tsv

Writes random vectors into the folder, `dim * 4` bytes a row (27 GB for the second command), searches them
with `search_shard` in a new process, and removes them. Writes one line for each size:

    before_mb       resident memory before the search: Python and its packages
    peak_mb         the most resident memory at any time (ru_maxrss)
    anonymous_mb    the most of it that is not a page of a file, sampled every 20 ms
    query_block_mb  the queries that are searched together
    beyond_mb       peak_mb minus query_block_mb

and prints how they change from the smallest size to the largest.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import resource
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from condenser import program

MB = 1e6
COLUMNS = (
    "rows", "dim", "queries", "depth", "threads", "seconds", "us_per_row",
    "before_mb", "peak_mb", "anonymous_mb", "query_block_mb", "beyond_mb",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="a new one, for the vectors")
    parser.add_argument("--dim", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True, help="passages of the smallest size")
    parser.add_argument("--factors", type=int, nargs="+", required=True, help="sizes, in multiples of --rows")
    parser.add_argument("--queries", type=int, required=True)
    parser.add_argument("--depth", type=int, required=True)
    parser.add_argument("--block-rows", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args(argv)
    arguments.folder.mkdir(parents=True)
    try:
        measured = _measure_sizes(arguments)
    finally:
        shutil.rmtree(arguments.folder)
    _write_table(measured, arguments.output)
    first, last = measured[0], measured[-1]
    times = {name: last[name] / first[name] for name in ("rows", "seconds")}
    more = {name: last[name] - first[name] for name in ("anonymous_mb", "peak_mb")}
    print(
        f"{times['rows']:g} times the rows: {times['seconds']:.2f} times the seconds, "
        f"{more['anonymous_mb']:+.0f} MB of anonymous and {more['peak_mb']:+.0f} MB of resident memory"
    )


def _measure_sizes(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    queries, passages = arguments.folder / "queries.npy", arguments.folder / "passages.npy"
    write_vectors(queries, arguments.queries, arguments.dim, seed=arguments.seed)
    measured = []
    print("\t".join(COLUMNS))
    for factor in arguments.factors:
        rows = arguments.rows * factor
        write_vectors(passages, rows, arguments.dim, seed=arguments.seed + factor)
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            found = process.submit(
                measure_search,
                arguments.folder,
                depth=arguments.depth,
                block_rows=arguments.block_rows,
                threads=arguments.threads,
            ).result()
        settings = {name: getattr(arguments, name) for name in ("dim", "queries", "depth", "threads")}
        line = {"rows": rows, **settings, **found, "us_per_row": found["seconds"] / rows * 1e6}
        print("\t".join(_cells(line)), flush=True)
        measured.append(line)
    return measured


def write_vectors(file: Path, rows: int, dim: int, *, seed: int) -> None:
    """Write random normal numbers, float32 [row, dim], a few MB at a time."""
    import numpy as np

    from condenser.files import atomic_write

    rng = np.random.default_rng(seed)
    step = max(1, (1 << 22) // dim)
    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, dim)}
    with atomic_write(file) as opened:
        np.lib.format.write_array_header_1_0(opened, header)
        for start in range(0, rows, step):
            vectors = rng.standard_normal((min(step, rows - start), dim), dtype=np.float32)
            opened.write(vectors.data)


def measure_search(folder: Path, *, depth: int, block_rows: int, threads: int) -> dict[str, float]:
    """Search `passages.npy` with `queries.npy`; gives seconds, and MB of this process."""
    from condenser.files import load_npy
    from condenser.retrieve.exact import QUERIES_PER_PRODUCT
    from condenser.retrieve.search import search_shard

    before, anonymous = resident_mb("VmRSS"), [0.0]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            anonymous.append(resident_mb("RssAnon"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    search_shard(
        folder / "passages.npy",
        folder / "queries.npy",
        folder / "rows.npy",
        folder / "scores.npy",
        first_row=0,
        depth=depth,
        block_rows=block_rows,
        threads=threads,
        work_folder=folder / "work",
    )
    seconds = time.perf_counter() - began
    done.set()
    watcher.join()
    shutil.rmtree(folder / "work", ignore_errors=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB
    num_queries, dim = load_npy(folder / "queries.npy").shape
    block = min(num_queries, QUERIES_PER_PRODUCT) * dim * 4 / MB
    return {
        "seconds": seconds,
        "before_mb": before,
        "peak_mb": peak,
        "anonymous_mb": max(anonymous),
        "query_block_mb": block,
        "beyond_mb": peak - block,
    }


def resident_mb(kind: str) -> float:
    """`VmRSS`, or another entry of Linux's /proc/self/status, in MB."""
    found = re.search(rf"^{kind}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"/proc/self/status: expected {kind}, found none. Is this Linux, 4.5 or newer?")
    return int(found[1]) * 1024 / MB


def _cells(line: dict[str, Any]) -> list[str]:
    return [f"{line[name]:.4g}" if isinstance(line[name], float) else str(line[name]) for name in COLUMNS]


def _write_table(measured: list[dict[str, Any]], output: Path) -> None:
    from condenser.files import atomic_write

    lines = ["\t".join(COLUMNS), *("\t".join(_cells(line)) for line in measured)]
    with atomic_write(output) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())


if __name__ == "__main__":
    program.run(main)
