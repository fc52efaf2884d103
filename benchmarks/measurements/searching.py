"""Exhaustive search of vectors on disk against FAISS's IndexFlatIP, which holds them in memory."""

from __future__ import annotations

import shutil
from typing import Any

import faiss
import numpy as np
import torch
from measuring import Form, functions, in_turn, line
from search_scale import measure_search, write_vectors
from steps import in_new_process

from condenser.files import load_npy
from condenser.pipeline.costs.measure import measure_device
from condenser.retrieve.search import search_shard

BLOCK_ROWS = 1024


def measure(form: Form) -> list[dict[str, Any]]:
    """Time in turn, then the memory of a process that only searches."""
    folder, depth = form.work, 1000
    num_rows, num_queries, dim = form.size(200_000, 1_000_000), form.size(1000, 6980), form.size(384, 768)
    write_vectors(folder / "passages.npy", num_rows, dim, seed=1)
    write_vectors(folder / "queries.npy", num_queries, dim, seed=2)
    sizes = {"depth": depth, "block_rows": BLOCK_ROWS, "threads": form.threads}
    memory = in_new_process(measure_search, folder, **sizes)
    queries = np.array(load_npy(folder / "queries.npy"))
    faiss.omp_set_num_threads(form.threads)
    index = faiss.IndexFlatIP(dim)
    index.add(np.array(load_npy(folder / "passages.npy")))
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def ours() -> None:
        search_shard(
            folder / "passages.npy",
            folder / "queries.npy",
            folder / "rows.npy",
            folder / "scores.npy",
            first_row=0,
            work_folder=folder / "work",
            **sizes,
        )
        shutil.rmtree(folder / "work")

    seconds = in_turn(
        {"ours": ours, "theirs": lambda: found.update(theirs=index.search(queries, depth))},
        repeats=form.size(3, 3),
        clock=form.clock,
    )
    rows, scores = (np.array(load_npy(folder / f"{name}.npy")) for name in ("rows", "scores"))
    theirs_scores, theirs_rows = found["theirs"]
    same = float((np.sort(rows, axis=1) == np.sort(theirs_rows, axis=1)).mean())
    differs = float(np.abs(scores - theirs_scores).max())
    peak = measure_device(
        torch.device("cpu"), precision="fp32", threads=form.threads, clock=form.clock
    ).flops_per_s
    limit = num_queries / (2 * num_queries * num_rows * dim / peak)
    size = f"{num_queries:,} queries, {num_rows:,} vectors of {dim}, depth {depth}"
    return [
        line(
            "exhaustive search",
            "queries/s",
            num_queries / seconds["ours"],
            better="more",
            against="IndexFlatIP in memory",
            peer=num_queries / seconds["theirs"],
            least_ratio=1.0,
            limit=limit,
            profile=functions(ours),
            note=f"{size}; rows the same: {same:.4%}, scores to {differs:.1g}",
        ),
        line(
            "its memory",
            "GB",
            memory["peak_mb"] / 1e3,
            better="less",
            most=1.0,
            against="IndexFlatIP, vectors alone",
            peer=num_rows * dim * 4 / 1e9,
            note="resident, of a process that only searches",
        ),
    ]
