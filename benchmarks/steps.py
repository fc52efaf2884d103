"""Measure the stages that compute on a GPU: seconds of an update, share of the peak, memory.

    python benchmarks/steps.py --folder /tmp/steps --configfile configs/paper.yaml --dataset msmarco \\
        --updates 22 --blocks 12 --device cuda --precisions bf16 fp32 --threads 8 --output steps.tsv

Runs the stages themselves (Condenser, coCondenser with the gradient cache and without it, fine-tuning,
encoding) on random tokens, with the settings of config.yaml and the given files. The texts are as long
as the plan assumes for the data set (docs/plan.md), or as --tokens and --variation say. The backbone has
the config's shape and new weights, or is --initial. Needs no network. The folder is made and removed.

Each measurement runs in a new process. The table has a line for each, with means and rates of an update
(for encoding, of a block of rows) without the first two:

    items, tokens        blocks, documents, queries or passages; tokens with specials, without padding
    flops                of matrix products, with padding (condenser.pipeline.costs.arithmetic)
    median_s, best_s     from the end of one update to the end of the next, without saving checkpoints
    items_per_s, tokens_per_s, share_of_peak     by the median
    product_flops_per_s  the peak: one large matrix product, best of 1.5 s in the same process
    memory_bytes         the most that tensors used on a GPU; on a CPU, ru_maxrss of the process
    note                 why there is no measurement

An update ends when the norm of its gradient has arrived from the device. On a GPU the optimiser may still
run then, and counts for the next update. A block ends when its embeddings are on the processor.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from condenser import program

if TYPE_CHECKING:
    from watched_stages import Update

    from condenser.pipeline.costs.arithmetic import Shape

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "condenser" / "pipeline" / "costs" / "tables"
LEFT_OUT = 2  # first updates, in which memory is allocated and kernels are chosen
STAGES = ("condenser", "cocondenser", "retriever", "encode")
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
    add("--dataset", default="msmarco", help="whose lengths of texts; msmarco")
    add("--tokens", type=float, help="mean length of a passage, instead of the data set's")
    add("--variation", type=float, default=0.0, help="of --tokens: standard deviation over mean; 0")
    add("--initial", type=Path, help="a Hugging Face folder, instead of new weights")
    add("--stages", nargs="+", choices=STAGES, default=STAGES)
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
    counts = {stage: given.blocks if stage == "encode" else given.updates for stage in given.stages}
    lengths = {"dataset": given.dataset, "mean_tokens": given.tokens, "variation": given.variation}
    rows: list[dict[str, Any]] = []
    given.folder.mkdir(parents=True)
    try:
        in_new_process(make_inputs, given.folder, config, counts=counts, initial=given.initial, **lengths)
        for precision in given.precisions:
            for stage in given.stages:
                for cache in given.caches if stage == "cocondenser" else [""]:
                    row = {"stage": stage, "gradient_cache": cache, "precision": precision}
                    row |= {"device": given.device, "threads": given.threads}
                    try:
                        row = in_new_process(measure, given.folder, config, row=row, count=counts[stage])
                    except BrokenProcessPool:
                        row["note"] = "does not fit: its process was killed. Is the memory full?"
                    rows.append(row)
                    write_table(rows, given.output)
                    shutil.rmtree(given.folder / "work", ignore_errors=True)
    finally:
        shutil.rmtree(given.folder)


def load_config(overlays: Sequence[Path]) -> dict[str, Any]:
    """config.yaml with these overlays, validated as by the workflow."""
    import yaml
    from snakemake.utils import update_config

    from condenser.config import validated

    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    for overlay in overlays:
        update_config(config, yaml.safe_load(overlay.read_text()) or {})
    return validated(config)


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


def make_inputs(folder: Path, config: dict[str, Any], **settings: Any) -> None:
    """Write the inputs of all stages."""
    from random_inputs import write_inputs

    from condenser.pipeline.costs.tables import read_tables

    write_inputs(folder, config, tables=read_tables(TABLES), **settings)


def measure(folder: Path, config: dict[str, Any], *, row: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Run `count` updates of a stage in this process; gives `row` with the columns that are now known."""
    import numpy as np
    import torch
    from watched_stages import DoesNotFit, run_updates

    from condenser.model.dropout import dropout
    from condenser.pipeline.costs.measure import measure_device
    from condenser.pipeline.costs.sizes import backbone_shape
    from condenser.pipeline.costs.tables import read_tables
    from condenser.train.machine import training_machine

    backbone = {"source": "folder", "path": folder / "backbone"}
    shape = backbone_shape({"backbone": backbone}, read_tables(TABLES))
    stage, cache, threads = row["stage"], row["gradient_cache"], row["threads"]
    with training_machine(device=row["device"], precision=row["precision"], threads=threads) as machine:
        place, kind = machine.processes.device, machine.precision
        row = {**row, "precision": kind, "device": machine.device_name, "torch": torch.__version__}
        try:
            updates = run_updates(
                stage, folder, config, machine, count=count, gradient_cache=cache, shape=shape
            )
        except DoesNotFit as error:
            return {**row, "note": str(error)}
    if place.type == "cuda":
        memory = torch.cuda.max_memory_allocated(place)
    else:
        memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    clock = time.perf_counter
    peak = measure_device(place, precision=kind, threads=threads, clock=clock, dropout=dropout).flops_per_s
    seconds = np.diff([update.ended for update in updates])[LEFT_OUT - 1 :]
    updates, median = updates[LEFT_OUT:], float(np.median(seconds))
    items, tokens = (float(np.mean(counts)) for counts in zip(*(one[1:3] for one in updates), strict=True))
    flops = sum(flops_of(one, shape, config, stage=stage, cache=cache) for one in updates) / len(updates)
    return {
        **row, "updates": len(updates), "items": items, "tokens": tokens, "flops": flops,
        "median_s": median, "best_s": float(seconds.min()), "items_per_s": items / median,
        "tokens_per_s": tokens / median, "product_flops_per_s": peak,
        "share_of_peak": flops / median / peak, "memory_bytes": memory,
    }  # fmt: skip


def flops_of(update: Update, shape: Shape, config: Mapping[str, Any], *, stage: str, cache: str) -> float:
    """Operations of an update, as docs/plan.md counts them."""
    from condenser.pipeline.costs import arithmetic

    encoder = sum(arithmetic.encoder_flops(shape, chunk) for chunk in update.chunks)
    if stage == "encode":
        return encoder
    if stage == "retriever":
        pairs = update.items * update.items * config["finetune"]["passages_per_query"]
        return arithmetic.TRAINING_PASSES * (encoder + 2 * pairs * shape.dim)
    head = config["condenser"]
    options = {"num_head_layers": head["num_head_layers"], "use_late_mlm": head["late_mlm_weight"] > 0}
    forward = sum(arithmetic.condenser_flops(shape, chunk, **options) for chunk in update.chunks)
    pairs = (2 * update.items) ** 2 if stage == "cocondenser" else 0
    first_pass = encoder if cache == "always" else 0.0
    return arithmetic.TRAINING_PASSES * (forward + 2 * pairs * shape.dim) + first_pass


if __name__ == "__main__":
    program.run(main)
