"""Measure the stages that compute on a GPU: seconds of an update, share of the peak, memory.

    python benchmarks/steps.py --folder /tmp/steps --configfile configs/paper.yaml --dataset msmarco \\
        --updates 22 --blocks 12 --device cuda --precisions bf16 fp32 --threads 8 --output steps.tsv

Runs the stages themselves (pre-training of --models, with the gradient cache and without it where they may
use it; fine-tuning, `train`; encoding) on random tokens, with the settings of config.yaml and the given
files. The texts are as long as the plan assumes for the data set (docs/using.md), or as --tokens and
--variation say. The backbone has the shape of the checkpoint of the first model and new weights, or is
--initial. All stages start from it, with a new head where they need one. Needs no network. The folder is
made and removed.

Each measurement runs in a new process. The table has a line for each, with means and rates of an update
(for encoding, of a block of rows) without the first two:

    items, tokens        blocks, documents, queries or passages; tokens with specials, without padding
    flops                of matrix products (condenser.pipeline.costs.arithmetic); nan for a
                         masked language model without a Condenser head, which the plan does not count
    median_s, best_s     from the end of one update to the end of the next, without saving checkpoints
    items_per_s, tokens_per_s, share_of_peak     by the median
    product_flops_per_s  the peak: one large matrix product, best of 1.5 s in the same process
    memory_bytes         the most that tensors used on a GPU; on a CPU, what was resident
    note                 why there is no measurement

An update ends when the norm of its gradient has arrived from the device. On a GPU the optimiser may still
run then, and counts for the next update. A block ends when its embeddings are on the processor.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import measuring
from measuring import ROOT, load_config

if TYPE_CHECKING:
    from watched_stages import Update

    from condenser.pipeline.costs.arithmetic import Shape

TABLES = ROOT / "condenser" / "pipeline" / "costs" / "tables"
LEFT_OUT = 2  # first updates, in which memory is allocated and kernels are chosen
COLUMNS = (
    "stage", "gradient_cache", "precision", "device", "threads", "torch", "updates", "items", "tokens",
    "flops", "median_s", "best_s", "items_per_s", "tokens_per_s", "product_flops_per_s", "share_of_peak",
    "memory_bytes", "note",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--folder", type=Path, required=True, help="a new one, for inputs and results")
    add("--configfile", type=Path, nargs="*", default=[ROOT / "configs" / "paper.yaml"], help="overlays")
    add("--dataset", default="msmarco", help="whose lengths of texts and recipe; msmarco")
    add("--tokens", type=float, help="mean length of a passage, instead of the data set's")
    add("--variation", type=float, default=0.0, help="of --tokens: standard deviation over mean; 0")
    add("--initial", type=Path, help="a Hugging Face folder, instead of new weights")
    add("--models", nargs="+", default=["condenser", "cocondenser"], help="names under models")
    add("--caches", nargs="+", choices=["always", "never"], default=["always", "never"])
    add("--updates", type=int, required=True, help="of each training")
    add("--blocks", type=int, required=True, help="of encode.block_rows passages")
    add("--device", required=True, choices=["auto", "cpu", "cuda"])
    add("--precisions", required=True, nargs="+", choices=["auto", "fp32", "bf16", "fp16"])
    add("--threads", type=int, required=True)
    add("--output", type=Path, required=True)
    given = parser.parse_args(argv)
    if min(given.updates, given.blocks) <= LEFT_OUT:
        raise ValueError(f"--updates, --blocks: expected more than {LEFT_OUT}, which are left out.")
    config = load_config(given.configfile)
    stages = {name: settings_of(name, config, given.dataset) for name in [*given.models, "train", "encode"]}
    counts = dict.fromkeys(stages, given.updates) | {"encode": given.blocks}
    inputs = {"dataset": given.dataset, "mean_tokens": given.tokens, "variation": given.variation}
    inputs |= {"counts": counts, "initial": given.initial}
    rows: list[dict[str, Any]] = []
    given.folder.mkdir(parents=True)
    try:
        in_new_process(make_inputs, given.folder, config, stages, **inputs)
        for precision, (stage, settings) in product(given.precisions, stages.items()):
            for cache in given.caches if "gradient_cache" in settings else [""]:
                row = {"stage": stage, "gradient_cache": cache, "precision": precision}
                row |= {"device": given.device, "threads": given.threads}
                chosen = {**settings, "gradient_cache": cache} if cache else settings
                options = {"row": row, "count": counts[stage], "seed": config["seed"]}
                try:
                    row = in_new_process(measure, given.folder, chosen, **options)
                except BrokenProcessPool:
                    row["note"] = "does not fit: its process was killed. Is the memory full?"
                rows.append(row)
                write_table(rows, given.output)
                shutil.rmtree(given.folder / "work", ignore_errors=True)
    finally:
        shutil.rmtree(given.folder)


def settings_of(stage: str, config: Mapping[str, Any], dataset: str) -> dict[str, Any]:
    """What a stage is told: a model's entry, the recipe of a data set, or that with the block `encode`.

    A model that needs the head of another gets a new one of the same shape.
    """
    from condenser import experiment

    if stage in ("train", "encode"):
        recipe = experiment.recipe(config, config["datasets"][dataset]["recipe"])
        return recipe | config["encode"] if stage == "encode" else recipe
    if stage not in config["models"]:
        raise ValueError(f"--models: expected some of {', '.join(config['models'])}, got {stage}.")
    settings = config["models"][stage]
    entries = (config["models"][name] for name in experiment.chain(config, stage))
    heads = (entry.get("new_head") or entry for entry in entries)
    head = next((head for head in heads if "skip_from" in head), None)
    if "new_head" in settings and head:
        settings = settings | {"new_head": {key: head[key] for key in ("skip_from", "num_head_layers")}}
    return settings


def in_new_process(work: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """What `work` gives in a process of its own, whose memory can be measured."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(work, *arguments, **settings).result()


def write_table(rows: Sequence[Mapping[str, Any]], output: Path) -> None:
    """Write all rows, and print the last one, the first time below the header."""
    from condenser.files import atomic_write

    cells = [COLUMNS, *([row.get(name, "") for name in COLUMNS] for row in rows)]
    lines = ["\t".join(f"{c:.6g}" if isinstance(c, float) else str(c) for c in row) for row in cells]
    with atomic_write(output) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
    print(*(lines if len(rows) == 1 else lines[-1:]), sep="\n", flush=True)


def make_inputs(folder: Path, config: dict[str, Any], stages: Mapping[str, Any], **options: Any) -> None:
    """Write the inputs of all stages."""
    from random_inputs import write_inputs

    from condenser.pipeline.costs.tables import Tables

    write_inputs(folder, config, stages, tables=Tables(TABLES), **options)


def shape_of(folder: Path, settings: Mapping[str, Any]) -> Shape:
    """The backbone's dimensions, with the head that a stage gives it."""
    from condenser.model.text_vector import read_text_vector
    from condenser.pipeline.costs.data import checkpoint_shape
    from condenser.pipeline.costs.tables import Tables

    backbone = folder / "backbone"
    model = {"source": "folder", "path": backbone, "pooling": read_text_vector(backbone).pooling}
    shape = checkpoint_shape(model, Tables(TABLES))
    head = settings.get("new_head") or settings
    return replace(shape, num_head_layers=head.get("num_head_layers", 0))


def measure(
    folder: Path,
    settings: Mapping[str, Any],
    *,
    row: Mapping[str, Any],
    count: int,
    seed: int,
    peak: float | None = None,
) -> dict[str, Any]:
    """Run `count` updates of a stage in this process; gives `row` with the columns that are now known.

    Args:
        peak: operations a second of a large matrix product; None measures it.
    """
    import numpy as np
    import torch
    from watched_stages import DoesNotFit, run_updates

    from condenser.pipeline.costs.measure import measure_device
    from condenser.train.machine import training_machine

    shape, stage, threads = shape_of(folder, settings), row["stage"], row["threads"]
    with training_machine(device=row["device"], precision=row["precision"], threads=threads) as machine:
        place, kind = machine.processes.device, machine.precision
        row = {**row, "precision": kind, "device": machine.device_name, "torch": torch.__version__}
        try:
            updates = run_updates(stage, folder, settings, machine, count=count, seed=seed, shape=shape)
        except DoesNotFit as error:
            return {**row, "note": str(error)}
    memory = measuring.peak_bytes(place)
    clock = time.perf_counter
    peak = peak or measure_device(place, precision=kind, threads=threads, clock=clock).flops_per_s
    seconds = np.diff([update.ended for update in updates])[LEFT_OUT - 1 :]
    updates, median = updates[LEFT_OUT:], float(np.median(seconds))
    items, tokens = (float(np.mean(counts)) for counts in zip(*(one[1:3] for one in updates), strict=True))
    flops = sum(flops_of(one, shape, settings) for one in updates) / len(updates)
    return {
        **row, "updates": len(updates), "items": items, "tokens": tokens, "flops": flops,
        "median_s": median, "best_s": float(seconds.min()), "items_per_s": items / median,
        "tokens_per_s": tokens / median, "product_flops_per_s": peak,
        "share_of_peak": flops / median / peak, "memory_bytes": memory,
    }  # fmt: skip


def flops_of(update: Update, shape: Shape, settings: Mapping[str, Any]) -> float:
    """Operations of an update, as docs/using.md counts them."""
    from condenser.pipeline.costs.arithmetic import TRAINING_PASSES

    forward = encoder = sum(map(shape.encoder_flops, update.chunks))
    if "batch_tokens" in settings:
        return encoder
    if shape.num_head_layers:
        late = settings["late_mlm_weight"] > 0
        forward = sum(shape.condenser_flops(chunk, use_late_mlm=late) for chunk in update.chunks)
    elif any(chunk.masked for chunk in update.chunks):
        return math.nan
    is_cached = settings.get("gradient_cache") == "always"
    return TRAINING_PASSES * forward + is_cached * encoder


if __name__ == "__main__":
    measuring.run(main)
