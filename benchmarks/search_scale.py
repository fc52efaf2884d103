"""Measure memory and time of exhaustive search over random vectors, for several numbers of them.

    python benchmarks/search_scale.py --folder /tmp/scale --dim 384 --rows 100000 --factors 1 4 16 \\
        --queries 4096 --depth 1000 --block-rows 16384 --threads 1 --seed 1 --output search_scale.tsv
    python benchmarks/search_scale.py --folder /tmp/scale --dim 768 --rows 8841823 --factors 1 \\
        --queries 6980 --depth 1000 --block-rows 16384 --threads 8 --seed 1 --output msmarco.tsv

Writes random vectors into the folder, `dim * 4` bytes a row (27 GB for the second command), searches them
with `search_shard` in a new process, and removes them. Writes one line for each size:

    before_mb       resident memory before the search: Python and its packages
    peak_mb         the most resident memory at any time (VmHWM)
    anonymous_mb    the most of it that is not a page of a file, sampled every 20 ms
    query_block_mb  the queries that are searched together
    beyond_mb       peak_mb minus query_block_mb

and prints how they change from the smallest size to the largest.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from measuring import in_new_process, resident_bytes, write_tsv

from condenser import program
from condenser.files import atomic_write, load_npy
from condenser.retrieve.exact import QUERIES_PER_PRODUCT
from condenser.retrieve.search import search_shard

MB = 1e6
COLUMNS = (
    "rows", "dim", "queries", "depth", "threads", "seconds", "us_per_row",
    "before_mb", "peak_mb", "anonymous_mb", "query_block_mb", "beyond_mb",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="a new one, for the vectors")
    parser.add_argument("--rows", type=int, required=True, help="passages of the smallest size")
    parser.add_argument("--factors", type=int, nargs="+", required=True, help="sizes, in multiples of --rows")
    for name in ("dim", "queries", "depth", "block-rows", "threads", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args(argv)
    given.folder.mkdir(parents=True)
    asked = {name: getattr(given, name) for name in ("dim", "queries", "depth", "threads")}
    measured = []
    try:
        write_vectors(given.folder / "queries.npy", given.queries, given.dim, seed=given.seed)
        for factor in given.factors:
            rows = given.rows * factor
            write_vectors(given.folder / "passages.npy", rows, given.dim, seed=given.seed + factor)
            sizes = {"depth": given.depth, "block_rows": given.block_rows, "threads": given.threads}
            found = in_new_process(measure_search, given.folder, **sizes)
            measured.append({"rows": rows, **asked, **found, "us_per_row": found["seconds"] / rows * 1e6})
            print(
                *write_tsv(given.output, COLUMNS, measured)[-1 if measured[1:] else 0 :], sep="\n", flush=True
            )
    finally:
        shutil.rmtree(given.folder)
    first, last = measured[0], measured[-1]
    times = {name: last[name] / first[name] for name in ("rows", "seconds")}
    more = {name: last[name] - first[name] for name in ("anonymous_mb", "peak_mb")}
    print(
        f"{times['rows']:g} times the rows: {times['seconds']:.2f} times the seconds, "
        f"{more['anonymous_mb']:+.0f} MB of anonymous and {more['peak_mb']:+.0f} MB of resident memory"
    )


def write_vectors(file: Path, rows: int, dim: int, *, seed: int) -> Path:
    """Write random normal numbers, float32 [row, dim], a few MB at a time."""
    rng, step = np.random.default_rng(seed), max(1, (1 << 22) // dim)
    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, dim)}
    with atomic_write(file) as opened:
        np.lib.format.write_array_header_1_0(opened, header)
        for start in range(0, rows, step):
            vectors = rng.standard_normal((min(step, rows - start), dim), dtype=np.float32)
            opened.write(vectors.data)
    return file


def search(
    passages: Path, queries: Path, *, depth: int, block_rows: int, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """The best rows of each query, and their scores."""
    with TemporaryDirectory(dir=passages.parent) as work:
        rows, scores = Path(work, "rows.npy"), Path(work, "scores.npy")
        search_shard(
            passages, queries, rows, scores, first_row=0, depth=depth, block_rows=block_rows, threads=threads,
            work_folder=Path(work, "work"),
        )  # fmt: skip
        return np.array(load_npy(rows)), np.array(load_npy(scores))


def measure_search(folder: Path, *, depth: int, block_rows: int, threads: int) -> dict[str, float]:
    """Search `passages.npy` with `queries.npy`; gives seconds, and MB of this process."""
    before, anonymous, done = resident_bytes("VmRSS") / MB, [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            anonymous.append(resident_bytes("RssAnon") / MB)

    watcher = threading.Thread(target=watch)
    watcher.start()
    began, queries = time.perf_counter(), folder / "queries.npy"
    search(folder / "passages.npy", queries, depth=depth, block_rows=block_rows, threads=threads)
    seconds = time.perf_counter() - began
    done.set()
    watcher.join()
    num_queries, dim = load_npy(queries).shape
    peak, block = resident_bytes("VmHWM") / MB, min(num_queries, QUERIES_PER_PRODUCT) * dim * 4 / MB
    return {
        "seconds": seconds, "before_mb": before, "peak_mb": peak, "anonymous_mb": max(anonymous),
        "query_block_mb": block, "beyond_mb": peak - block,
    }  # fmt: skip


if __name__ == "__main__":
    program.run(main)
