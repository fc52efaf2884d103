"""Exhaustive search of vectors on disk against FAISS's IndexFlatIP, which holds them in memory."""

from __future__ import annotations

import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import faiss
import numpy as np
from measuring import Form, in_new_process, in_turn, line, lines, resident_bytes

from condenser.files import load_npy
from condenser.retrieve.search import search_shard

MB = 1e6


def measure(form: Form) -> list[dict[str, Any]]:
    """Time in turn, then the memory of a process that only searches."""
    depth, dim = 1000, form.size(384, 768)
    num_rows, num_queries = form.size(200_000, 1_000_000), form.size(1000, 6980)
    files = [
        write_vectors(form.work / f"{name}.npy", rows, dim, seed=seed)
        for seed, (name, rows) in enumerate((("passages", num_rows), ("queries", num_queries)), start=1)
    ]
    sizes = {"depth": depth, "block_rows": 1024, "threads": form.threads}
    memory = in_new_process(measure_search, form.work, **sizes)
    passages, queries = (np.array(load_npy(file)) for file in files)
    faiss.omp_set_num_threads(form.threads)
    index = faiss.IndexFlatIP(dim)
    index.add(passages)
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    works = {
        "ours": lambda: found.update(ours=search(*files, **sizes)),
        "theirs": lambda: found.update(theirs=index.search(queries, depth)[::-1]),
    }
    seconds = in_turn(works, repeats=3, clock=form.clock)
    same = float(np.equal(*(np.sort(rows, axis=1) for rows, _ in found.values())).mean())
    differs = float(np.abs(np.subtract(*(scores for _, scores in found.values()))).max())
    size = f"{num_queries:,} queries, {num_rows:,} vectors of {dim}, depth {depth}"
    peer = {"IndexFlatIP in memory": num_queries / seconds["theirs"]}
    return [
        *lines(
            "exhaustive search", "queries/s", num_queries / seconds["ours"], peer,
            goals=dict.fromkeys(peer, 1.0),
            note=f"{size}; rows the same: {same:.4%}, scores to {differs:.1g}",
        ),
        line(
            "its memory", "GB", memory["peak_mb"] / 1e3, better="less", most=1.0,
            against="IndexFlatIP, vectors alone", peer=num_rows * dim * 4 / 1e9,
            note="resident, of a process that only searches",
        ),
    ]  # fmt: skip


def write_vectors(file: Path, rows: int, dim: int, *, seed: int) -> Path:
    """Write random normal numbers, float32 [row, dim]."""
    np.save(file, np.random.default_rng(seed).standard_normal((rows, dim), dtype=np.float32))
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
    """Search `passages.npy` with `queries.npy`; gives MB of this process.

    `before_mb` was resident before, `peak_mb` is the most at any time; `anonymous_mb` is the most that was no
    page of a file, as seen every 20 ms.
    """
    before, anonymous, done = resident_bytes("VmRSS") / MB, [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            anonymous.append(resident_bytes("RssAnon") / MB)

    watcher = threading.Thread(target=watch)
    watcher.start()
    files = folder / "passages.npy", folder / "queries.npy"
    search(*files, depth=depth, block_rows=block_rows, threads=threads)
    done.set()
    watcher.join()
    return {"before_mb": before, "peak_mb": resident_bytes("VmHWM") / MB, "anonymous_mb": max(anonymous)}
