"""Measure on one GPU all that docs/reproducing.md states of GPUs; within ten minutes.

    python benchmarks/gpu.py --output gpu.tsv
    python benchmarks/gpu.py --tiny                      # the same code at sizes for a processor, in a minute

Settings are those of configs/paper.yaml: BERT-base with new weights, random tokens as long as the plan
assumes. Prints, and writes to --output, a line for each measurement:

    condenser, cocondenser, train   updates of the trainings; `setting` is rows_per_chunk
    encode                          blocks of passages, from their tokens to vectors on the processor
    sentence-transformers           the same model by `SentenceTransformer.encode`, by batch size; in bf16
                                    throughout where ours keeps weights in float32, and with tokenising
    search                          `setting` is queries x passages; on this processor FAISS, for a part

`seconds` are of an update, a block, or the whole; tokens are real ones, without padding; `tflops` counts the
matrix products that the method needs; the peak is that of one large product in the same precision. Memory
is the most that tensors used on the GPU; on a processor, that of the process until then.

Last come lines for condenser/pipeline/costs/tables/rates.tsv.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import efficiency
import measuring
import steps
from measuring import peak_bytes

if TYPE_CHECKING:
    import torch

    from condenser.pipeline.costs.tables import Device

SEED = 42
COLUMNS = (
    "what", "setting", "precision", "seconds", "items_per_s", "tokens_per_s", "tflops", "share_of_peak",
    "memory_gb", "note",
)  # fmt: skip
MINING = 502_939, 8_841_823  # MS MARCO's train queries and passages

# Of the papers' scale: rows_per_chunk of the Condenser; updates of each training, or blocks; batch sizes of
# sentence-transformers; queries, passages and depth of searches; what FAISS searches; chunks for the rates.
LARGE: dict[str, Any] = {
    "chunks": [64, 128, 256],
    "updates": {"condenser": 12, "cocondenser": 7, "train": 22, "encode": 6},
    "texts": 32768,
    "batch_sizes": [64, 256, 1024],
    "dim": 768,
    "searches": [(65536, 524288, 210), (6980, 524288, 1000)],
    "by_faiss": (4096, 131072, 210),
    "block_rows": 16384,
    "rates": {"rows": 128, "widths": [32, 64, 128], "repeats": 10},
}
TINY: dict[str, Any] = {
    "chunks": [4],
    "updates": dict.fromkeys(LARGE["updates"], 4),
    "texts": 40,
    "batch_sizes": [8],
    "dim": 32,
    "searches": [(50, 3000, 20)],
    "by_faiss": (20, 1000, 20),
    "block_rows": 256,
    "rates": {"rows": 4, "widths": [16, 24, 32], "repeats": 1},
}
TINY_BACKBONE = {
    "source": "scratch", "vocab_size": 300, "hidden_size": 32, "num_layers": 4, "num_heads": 4,
    "intermediate_size": 64, "max_positions": 128,
}  # fmt: skip
TINY_MODELS = {
    "condenser": {"skip_from": 2, "max_tokens": 30, "batch_size": 6},
    "cocondenser": {"min_span_tokens": 8, "span_tokens": [12, 20], "batch_size": 5, "rows_per_chunk": 4},
}
TINY_RECIPE = {"negatives": {"depth": 8, "sample": 6}, "batch_size": 3, "passages_per_query": 4}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="small sizes, on the processor")
    parser.add_argument("--output", type=Path, help="the table, TSV")
    arguments = parser.parse_args(argv)

    from condenser.model.devices import (
        choose_device,
        choose_precision,
        claim_visible_gpus,
        make_deterministic,
    )
    from condenser.pipeline.costs import measure
    from condenser.pipeline.costs.tables import Device

    sizes, threads = (TINY, 1) if arguments.tiny else (LARGE, min(8, os.cpu_count() or 1))
    if not arguments.tiny:
        claim_visible_gpus(count=1)
    place = choose_device("cpu" if arguments.tiny else "cuda")
    make_deterministic(threads=threads)
    precision = "fp32" if arguments.tiny else choose_precision("auto", place)
    if arguments.tiny:
        peaks = Device(
            "the processor", "cpu", precision, 1e11, 1e10, 1e10, 1e11
        )  # assumed: spares some seconds
    else:
        peaks = measure.measure_device(place, precision=precision, threads=threads, clock=time.perf_counter)
    rates_of_peaks = peaks.flops_per_s / 1e12, peaks.fp32_flops_per_s / 1e12, peaks.bytes_per_s / 1e9
    print(
        "{}: {:.4g} TFLOP/s in {}, {:.4g} in float32 without TF32, {:.4g} GB/s elementwise".format(
            peaks.name, rates_of_peaks[0], precision, *rates_of_peaks[1:]
        )
    )
    table = Table(arguments.output)
    folder = Path(tempfile.mkdtemp(prefix="gpu-"))
    try:
        lengths = measure_stages(table, folder, place, peaks, sizes, threads=threads)
        measure_sentence_transformers(table, folder, place, precision, lengths, sizes)
        rates = efficiency.measured_rates(
            steps.shape_of(folder, {}), place, peaks, clock=time.perf_counter, **sizes["rates"]
        )[1]
    finally:
        shutil.rmtree(folder)
    rates.append(("search", "fp32_flops", measure_search(table, place, peaks, sizes, threads=threads)))
    print("\nlines for rates.tsv:")
    for stage, unit, rate in rates:
        print(f"{stage}\t{peaks.kind}\t{unit}\t{rate:.3g}\t0\t{peaks.name}\tmeasured with benchmarks/gpu.py")


class Table:
    """The lines that are printed, and written as they come."""

    def __init__(self, output: Path | None) -> None:
        self._output = output
        self._lines = ["\t".join(COLUMNS)]
        print(self._lines[0], flush=True)

    def add(self, **cells: Any) -> None:
        from condenser.files import atomic_write

        values = [cells.get(name, "") for name in COLUMNS]
        assert set(cells) <= set(COLUMNS)
        self._lines.append(
            "\t".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in values)
        )
        print(self._lines[-1], flush=True)
        if self._output is not None:
            with atomic_write(self._output) as file:
                file.write("".join(f"{line}\n" for line in self._lines).encode())


def measure_stages(
    table: Table, folder: Path, place: torch.device, peaks: Device, sizes: dict[str, Any], *, threads: int
) -> list[int]:
    """The trainings and the encoding; leaves their inputs, and gives the lengths of passages of `encode`."""
    import numpy as np

    from condenser.data.tokens import TokenShards

    config = measuring.load_config([measuring.ROOT / "configs" / "paper.yaml"])
    if place.type == "cpu":
        config["models"]["backbone"] |= TINY_BACKBONE
        for name, changes in TINY_MODELS.items():
            config["models"][name] |= changes
    stages = {name: steps.settings_of(name, config, "msmarco") for name in sizes["updates"]}
    if place.type == "cpu":
        stages["train"] |= TINY_RECIPE | {
            "negatives": stages["train"]["negatives"] | TINY_RECIPE["negatives"]
        }
        stages["encode"] |= {"batch_tokens": 512, "block_rows": 20}
    steps.make_inputs(
        folder, config, stages, counts=sizes["updates"], dataset="msmarco", initial=None, mean_tokens=None,
        variation=0.0,
    )  # fmt: skip
    cases = [("condenser", {"rows_per_chunk": rows}) for rows in sizes["chunks"]]
    cases += [("cocondenser", {"gradient_cache": "always"}), ("train", {}), ("encode", {})]
    for stage, changes in cases:
        settings = stages[stage] | changes
        row = {"stage": stage, "device": place.type, "precision": peaks.precision, "threads": threads}
        start_counting_memory(place)
        found = steps.measure(
            folder, settings, row=row, count=sizes["updates"][stage], seed=SEED, peak=peaks.flops_per_s
        )
        shutil.rmtree(folder / "work", ignore_errors=True)
        measured = {
            name: found[name]
            for name in ("items_per_s", "tokens_per_s", "share_of_peak", "note")
            if name in found
        }
        if "median_s" in found:
            measured |= {"seconds": found["median_s"], "tflops": found["flops"] / found["median_s"] / 1e12}
            measured |= {"memory_gb": found["memory_bytes"] / 1e9}
        setting = settings["batch_tokens" if stage == "encode" else "rows_per_chunk"]
        table.add(what=stage, setting=setting, precision=peaks.precision, **measured)
    shards = TokenShards([folder / "encode.0-of-1"])
    lengths = np.diff(shards.row_starts)[: sizes["texts"]]
    return np.minimum(lengths, stages["encode"]["lengths"]["passage"] - 2).tolist()


def measure_sentence_transformers(
    table: Table,
    folder: Path,
    place: torch.device,
    precision: str,
    lengths: Sequence[int],
    sizes: dict[str, Any],
) -> None:
    """`SentenceTransformer.encode` with the same model, of texts of as many words that are one token each."""
    import numpy as np
    import torch
    from sentence_transformers import SentenceTransformer

    from condenser.data.tokens import Tokenizer

    model = SentenceTransformer(str(folder / "backbone"), device=str(place), local_files_only=True)
    model.max_seq_length = max(lengths) + 2
    if precision == "bf16":
        model.bfloat16()
    tokenizer = Tokenizer(folder / "backbone")
    first = [one for one in tokenizer.random_ids.tolist() if not tokenizer.is_continuation[one]]
    words = np.array(model.tokenizer.convert_ids_to_tokens(first))
    random = np.random.default_rng(SEED)
    texts = [" ".join(random.choice(words, size=length)) for length in lengths]
    (ids,) = model.tokenizer(texts[:1])["input_ids"]
    assert len(ids) == lengths[0] + 2, "every word is one token"
    for size in sizes["batch_sizes"]:
        start_counting_memory(place)
        model.encode(texts[:size], batch_size=size, show_progress_bar=False)  # chooses kernels
        seconds, _ = timed(partial(model.encode, texts, batch_size=size, show_progress_bar=False), place)
        table.add(
            what="sentence-transformers", setting=size, precision=precision, seconds=seconds,
            items_per_s=len(texts) / seconds, tokens_per_s=(sum(lengths) + 2 * len(texts)) / seconds,
            memory_gb=peak_bytes(place) / 1e9, note="with tokenising",
        )  # fmt: skip
    del model
    torch.cuda.empty_cache()


def measure_search(
    table: Table, place: torch.device, peaks: Device, sizes: dict[str, Any], *, threads: int
) -> float:
    """Search of random vectors; gives the share of float32's peak that the first one reaches."""
    import numpy as np

    from condenser.retrieve.device_search import top_passages_on
    from condenser.retrieve.faiss_search import top_passages

    random, (most_queries, most_passages, _) = np.random.default_rng(SEED), sizes["searches"][0]
    passages, queries = (
        random.standard_normal((rows, sizes["dim"]), np.float32) for rows in (most_passages, most_queries)
    )
    shares: list[float] = []
    found: dict[str, Any] = {}
    by_faiss = sizes["by_faiss"]
    on_device, on_processor = partial(top_passages_on, place), partial(top_passages, threads=threads)
    on_device(passages[:1], queries[:1], depth=1, block_rows=1)  # loads the kernels
    for name, search, (num_queries, num_passages, depth) in [
        *(("search", on_device, one) for one in [*sizes["searches"], by_faiss]),
        ("search, FAISS", on_processor, by_faiss),
    ]:
        operations = 2.0 * num_queries * num_passages * sizes["dim"]
        start_counting_memory(place)

        texts = passages[:num_passages], queries[:num_queries]
        seconds, found[name] = timed(
            partial(search, *texts, depth=depth, block_rows=sizes["block_rows"]), place
        )
        shares.append(operations / seconds / peaks.fp32_flops_per_s)
        mining_s = seconds * MINING[0] * MINING[1] / (num_queries * num_passages)
        note = f"MS MARCO's train queries at this rate: {mining_s:,.0f} s"
        is_faiss = search is on_processor
        if is_faiss:
            (rows, scores), (their_rows, their_scores) = found["search"], found["search, FAISS"]
            note += f"; {(rows == their_rows).mean():.6%} of the hits the same, scores differ by at most "
            note += f"{np.abs(scores - their_scores).max():.2g}"
        table.add(
            what=name, setting=f"{num_queries} x {num_passages}, depth {depth}", precision="fp32",
            seconds=seconds, items_per_s=num_queries / seconds, tflops=operations / seconds / 1e12,
            note=note,
            **({} if is_faiss else {"share_of_peak": shares[-1], "memory_gb": peak_bytes(place) / 1e9}),
        )  # fmt: skip
    return shares[0]


def timed(work: Callable[[], Any], place: torch.device) -> tuple[float, Any]:
    """Seconds until the device has done it, and what it gives."""
    import torch

    began = time.perf_counter()
    result = work()
    if place.type == "cuda":
        torch.cuda.synchronize(place)
    return time.perf_counter() - began, result


def start_counting_memory(place: torch.device) -> None:
    """Free what nobody uses, so that `memory_gb` is of what follows."""
    import torch

    gc.collect()
    if place.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(place)


if __name__ == "__main__":
    measuring.run(main)
