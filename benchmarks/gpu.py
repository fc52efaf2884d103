"""Measure on one GPU all that docs/studies/speed states of GPUs; within ten minutes.

    python benchmarks/gpu.py --output gpu.tsv
    python benchmarks/gpu.py --tiny                      # the same code at sizes for a processor, in a minute

Settings are those of configs/paper.yaml: BERT-base with new weights, random texts of
`steps.TEXTS`. Prints, and writes to --output, a line for each measurement:

    condenser, cocondenser, train   updates of the trainings; `setting` is rows_per_chunk
    encode                          blocks of passages, from their tokens to vectors on the processor
    search                          `setting` is queries x passages

`seconds` are of an update, a block, or the whole; tokens are real ones, without padding. Memory is the most
that tensors used on the GPU; on a processor, that of the process until then.

Last come lines for condenser/pipeline/rates/seconds.tsv, each by the fastest setting.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import measuring
import numpy as np
import steps
import torch
from measuring import peak_bytes, write_tsv

from condenser.encoders import read_encoder_config
from condenser.model.devices import choose_device, choose_precision, claim_visible_gpus, make_deterministic
from condenser.retrieve.device_search import top_passages_on

SEED = 42
TRAINING_PASSES = 3  # a forward pass, and a backward pass of twice its products
COLUMNS = ("what", "setting", "precision", "seconds", "items_per_s", "tokens_per_s", "memory_gb", "note")
MINING = 502_939, 8_841_823  # MS MARCO's train queries and passages

# Of the papers' scale: rows_per_chunk of the Condenser; updates of each training, or blocks; queries,
# passages and depth of searches.
LARGE: dict[str, Any] = {
    "chunks": [64, 128, 256],
    "updates": {"condenser": 12, "cocondenser": 7, "train": 22, "encode": 6},
    "dim": 768,
    "searches": [(65536, 524288, 210), (6980, 524288, 1000)],
    "block_rows": 16384,
}
TINY: dict[str, Any] = {
    "chunks": [4],
    "updates": dict.fromkeys(LARGE["updates"], 4),
    "dim": 32,
    "searches": [(50, 3000, 20)],
    "block_rows": 256,
}
TINY_MODELS: dict[str, dict[str, Any]] = {
    "backbone": {
        "source": "scratch", "vocab_size": 300, "hidden_size": 32, "num_layers": 4, "num_heads": 4,
        "intermediate_size": 64, "max_positions": 128,
    },
    "condenser": {"skip_from": 2, "max_tokens": 30, "batch_size": 6},
    "cocondenser": {"min_span_tokens": 8, "span_tokens": [12, 20], "batch_size": 5, "rows_per_chunk": 4},
}  # fmt: skip
TINY_RECIPE = {"negatives": {"depth": 8, "sample": 6}, "batch_size": 3, "passages_per_query": 4}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="small sizes, on the processor")
    parser.add_argument("--output", type=Path, help="the table, TSV")
    given = parser.parse_args(argv)
    sizes, threads = (TINY, 1) if given.tiny else (LARGE, min(8, os.cpu_count() or 1))
    if not given.tiny:
        claim_visible_gpus(count=1)
    place = choose_device("cpu" if given.tiny else "cuda")
    make_deterministic(threads=threads)
    precision = "fp32" if given.tiny else choose_precision("auto", place)
    machine = "processor" if given.tiny else torch.cuda.get_device_name(place).removeprefix("NVIDIA ")
    bench = Bench(place, precision, sizes, threads, given.output)
    with TemporaryDirectory(prefix="gpu-") as folder:
        bench.measure_jobs(Path(folder))
    bench.measure_search()
    print("\nlines for seconds.tsv:")
    for (rule, unit), seconds in bench.seconds.items():
        print(f"{rule}\t{machine}\t{unit}\t{seconds:.2g}\tpython benchmarks/gpu.py")


class Bench:
    """The measurements on a device, whose lines are printed, and written as they come.

    `seconds` are of a unit of work, by rule and unit: the lines for seconds.tsv.
    """

    def __init__(
        self, place: torch.device, precision: str, sizes: dict[str, Any], threads: int, output: Path | None
    ) -> None:
        self.place, self.precision, self.sizes = place, precision, sizes
        self.threads, self.output = threads, output
        self.seconds: dict[tuple[str, str], float] = {}
        self.rows: list[dict[str, Any]] = []
        print("\t".join(COLUMNS), flush=True)

    def add(self, **cells: Any) -> None:
        assert set(cells) <= set(COLUMNS)
        self.rows.append(cells)
        print(write_tsv(self.output, COLUMNS, self.rows)[-1], flush=True)

    def measure_jobs(self, folder: Path) -> None:
        """The trainings and the encoding."""
        config = measuring.load_config([measuring.ROOT / "configs" / "paper.yaml"])
        is_tiny, counts = self.place.type == "cpu", self.sizes["updates"]
        if is_tiny:
            for name, changes in TINY_MODELS.items():
                vars(config.models[name]).update(changes)
        settings = {name: steps.settings_of(name, config) for name in counts}
        if is_tiny:
            negatives = settings["train"]["negatives"] | TINY_RECIPE["negatives"]
            settings["train"] |= TINY_RECIPE | {"negatives": negatives}
            settings["encode"] |= {"batch_tokens": 512, "block_rows": 20}
        steps.write_inputs(folder, config, settings, counts)
        read = read_encoder_config(folder / "backbone")
        weights = read.hidden_size * (4 * read.hidden_size + 2 * read.intermediate_size)
        cases = [("condenser", {"rows_per_chunk": rows}) for rows in self.sizes["chunks"]]
        cases += [("cocondenser", {"gradient_cache": "always"}), ("train", {}), ("encode", {})]
        machine = {"device": self.place.type, "precision": self.precision, "threads": self.threads}
        for job, changes in cases:
            chosen = settings[job] | changes
            self.start_counting_memory()
            try:
                rates = steps.measure(job, folder, chosen, machine, count=counts[job])
            except steps.DoesNotFit as error:
                rates = {"note": str(error)}
            else:
                self.note_job(job, rates, num_layers=read.num_hidden_layers, layer_weights=weights)
            setting = chosen["batch_tokens" if job == "encode" else "rows_per_chunk"]
            self.add(what=job, setting=setting, precision=self.precision, **rates)

    def measure_search(self) -> None:
        """Search of random vectors."""
        random, sizes, dim = np.random.default_rng(SEED), self.sizes, self.sizes["dim"]
        num_queries, num_passages, _ = sizes["searches"][0]
        passages = random.standard_normal((num_passages, dim), np.float32)
        queries = random.standard_normal((num_queries, dim), np.float32)
        search = partial(top_passages_on, self.place)
        search(passages[:1], queries[:1], depth=1, block_rows=1)  # loads the kernels
        for num_queries, num_passages, depth in sizes["searches"]:
            self.start_counting_memory()
            texts = passages[:num_passages], queries[:num_queries]
            work = partial(search, *texts, depth=depth, block_rows=sizes["block_rows"])
            seconds, _ = self.timed(work)
            pairs = num_queries * num_passages
            self.note("search", "pair", seconds / pairs * 384 / dim)
            self.add(
                what="search", setting=f"{num_queries} x {num_passages}, depth {depth}", precision="fp32",
                seconds=seconds, items_per_s=num_queries / seconds, memory_gb=peak_bytes(self.place) / 1e9,
                note=f"MS MARCO's train queries: {seconds * MINING[0] * MINING[1] / pairs:,.0f} s",
            )  # fmt: skip

    def note_job(self, job: str, rates: dict[str, float], *, num_layers: int, layer_weights: int) -> None:
        """Keep what a job says of its units of work, for an encoder of so many layers and weights in each."""
        of_token = 1e6 / (rates["tokens_per_s"] * num_layers * layer_weights)
        if job == "encode":
            self.note("*", "passed", of_token)
            return
        if job == "train":  # a chunk of queries, and one of passages
            self.note("*", "launch", rates["seconds"] / (TRAINING_PASSES * num_layers * 2))
        else:  # with the heads, which other trainings lack: for them it is a bound
            self.note("pretrain", "trained", of_token)
            self.note("*", "trained", of_token)

    def note(self, rule: str, unit: str, seconds: float) -> None:
        """Keep the seconds of a unit of work if they are the fewest."""
        self.seconds[rule, unit] = min(seconds, self.seconds.get((rule, unit), seconds))

    def timed(self, work: Callable[[], Any]) -> tuple[float, Any]:
        """Seconds until the device has done it, and what it gives."""
        began = time.perf_counter()
        result = work()
        if self.place.type == "cuda":
            torch.cuda.synchronize(self.place)
        return time.perf_counter() - began, result

    def start_counting_memory(self) -> None:
        """Free what nobody uses, so that `memory_gb` is of what follows."""
        gc.collect()
        if self.place.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.place)


if __name__ == "__main__":
    measuring.run(main)
