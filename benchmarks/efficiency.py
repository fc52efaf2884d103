"""Measure what share of a device's peak rates the rules reach, for the plan's rates.tsv.

    python benchmarks/efficiency.py --backbone embedded --device auto --precision auto --threads 2 \\
        --rows 32 --widths 24 48 72 128 --repeats 5 --clock wall --output efficiency.tsv \\
        --tables condenser/pipeline/costs/tables

Measures the peak rates (as `plan.py --device measure`), then the real model with new weights: forward
and backward pass of a chunk for the Condenser and the retriever, forward pass alone for encoding, and an
update by AdamW. Each time is the best of the repeats. Writes one line for each measurement, and prints
the rates that fit them; `benchmarks/gpu.py` measures the same on a GPU. The model of a chunk's time: its
products at a share of the peak, plus what its elementwise operations read and write at a share of that peak,
plus a fixed time for each layer.

With --compile, each rule and width is measured again through torch.compile. A printed line gives the
ratio of the two times, and the seconds of the first call, which compiles.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import measuring
import numpy as np
import torch
from measuring import write_tsv
from scipy.optimize import nnls
from torch.nn.functional import cross_entropy

from condenser.encoders import BertConfig
from condenser.model.bert import Bert
from condenser.model.devices import autocast, choose_device, choose_precision, make_deterministic
from condenser.model.mlm_head import MaskedLanguageHead
from condenser.model.pretraining import Condenser
from condenser.model.retriever import Retriever
from condenser.model.rows import Rows
from condenser.pipeline.costs.arithmetic import TRAINING_PASSES, UPDATE_BYTES, Shape, padded
from condenser.pipeline.costs.measure import measure_device
from condenser.pipeline.costs.tables import Device, Tables

MASKED_SHARE = 0.15
COLUMNS = ("rule", "rows", "width", "masked", "flops", "graph_bytes", "layers", "seconds", "share_of_peak")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--backbone", required=True, help="a row of backbones.tsv")
    add("--device", required=True, choices=["auto", "cpu", "cuda"])
    add("--precision", required=True, choices=["auto", "fp32", "bf16", "fp16"])
    add("--threads", type=int, required=True)
    add("--rows", type=int, required=True, help="texts of a chunk")
    add("--widths", type=int, nargs="+", required=True, help="tokens of a text")
    add("--clock", required=True, choices=["wall", "cpu"], help="cpu: for one thread on a busy machine")
    add("--repeats", type=int, required=True)
    add("--compile", action="store_true", help="also measure with torch.compile")
    add("--tables", type=Path, required=True, help="folder of the tables")
    add("--output", type=Path, required=True)
    given = parser.parse_args(argv)
    if given.clock == "cpu" and (given.threads != 1 or given.device != "cpu"):
        raise ValueError("--clock cpu: expected --threads 1 --device cpu: it counts the time of all threads.")
    clock = time.process_time if given.clock == "cpu" else time.perf_counter
    make_deterministic(threads=given.threads)
    place = choose_device(given.device)
    precision = choose_precision(given.precision, place)
    device = measure_device(place, precision=precision, threads=given.threads, clock=clock)
    print(peaks_in_words(device))
    sizes = {"rows": given.rows, "widths": given.widths, "repeats": given.repeats, "compiles": given.compile}
    shape = Tables(given.tables).shape(given.backbone)
    rows, rates = measured_rates(shape, place, device, clock=clock, **sizes)
    print(*write_tsv(given.output, COLUMNS, rows), sep="\n")
    for rule, unit, rate in rates:
        print(f"{rule}\t{device.kind}\t{unit}\t{rate:.3g}")


def peaks_in_words(device: Device) -> str:
    """The peak rates of a device."""
    products = f"{device.flops_per_s / 1e9:,.0f} GFLOP/s in {device.precision}"
    single = f"{device.fp32_flops_per_s / 1e9:,.0f} in float32 without TF32"
    return f"{device.name}: {products}, {single}, {device.bytes_per_s / 1e9:,.1f} GB/s elementwise"


def measured_rates(
    shape: Shape,
    place: torch.device,
    device: Device,
    *,
    rows: int,
    widths: Sequence[int],
    repeats: int,
    clock: Callable[[], float],
    compiles: bool = False,
) -> tuple[list[dict[str, Any]], list[tuple[str, str, float]]]:
    """The rows of the table, and the rates of the rules (rule, unit, rate) that fit them.

    Args:
        shape: of the backbone.
        device: the peaks, and the precision.
    """
    precision, with_head = device.precision, replace(shape, num_head_layers=2)
    settings = BertConfig(
        vocab_size=shape.vocab_size, hidden_size=shape.dim, num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads, intermediate_size=shape.feed_forward,
        max_position_embeddings=shape.max_positions,
    )  # fmt: skip
    torch.manual_seed(0)
    condenser = Condenser(
        Bert(settings), MaskedLanguageHead(settings), num_head_layers=with_head.num_head_layers,
        skip_from=shape.num_layers // 2, use_late_mlm=True, seed=0,
    ).to(place)  # fmt: skip
    retriever = Retriever(condenser.backbone)
    models: dict[str, Callable[..., Any]] = {"condenser": condenser, "retriever": retriever}
    compiled = {name: torch.compile(model, dynamic=False) for name, model in models.items()}
    torch._dynamo.config.recompile_limit = sys.maxsize  # or shapes after the eighth are not compiled

    def best(work: Callable[[], object]) -> float:
        times = []
        for _ in range(repeats + 1):
            began = clock()
            work()
            if place.type == "cuda":
                torch.cuda.synchronize(place)
            times.append(clock() - began)
        return min(times[1:])

    table: list[dict[str, Any]] = []
    fits: dict[str, list[tuple[float, float, float, float]]] = {}
    for width in widths:
        ids = torch.randint(shape.vocab_size, (rows, width))
        lengths = np.full(rows, width)
        lengths[0] -= 1  # one padded row, for the attention kernel of most chunks
        whole = Rows.of(ids.numpy(), lengths, device=place)
        tokens = torch.randperm(whole.layout.num_tokens)
        tokens = tokens[: round(MASKED_SHARE * len(tokens))].sort().values.numpy()
        masked = whole.chosen(np.repeat(np.arange(rows), lengths)[tokens], whole.columns.numpy()[tokens])
        texts, masked = whole.to(place), masked.to(place)
        labels = texts.ids[masked.tokens]
        chunk = replace(padded(lengths, on_cpu=place.type == "cpu"), masked=len(labels))

        def pretrain() -> None:
            condenser.train()
            with autocast(place, precision):
                output = models["condenser"](texts, masked)  # noqa: B023 - called in this turn of the loop
                assert output.late_logits is not None
                logits = output.head_logits, output.late_logits
                loss = sum(cross_entropy(each.float(), labels) for each in logits)  # noqa: B023
            loss.backward()
            condenser.zero_grad(set_to_none=True)

        def finetune() -> None:
            retriever.train()
            with autocast(place, precision):
                vectors = models["retriever"](texts)  # noqa: B023
            vectors.float().square().sum().backward()
            retriever.zero_grad(set_to_none=True)

        def encode() -> None:
            retriever.eval()
            with torch.inference_mode(), autocast(place, precision):
                models["retriever"](texts)  # noqa: B023

        forward = with_head.condenser_flops(chunk, use_late_mlm=True)
        for rule, work, counted, flops, passes in (
            ("pretrain", pretrain, with_head, TRAINING_PASSES * forward, 1.0),
            ("train", finetune, shape, TRAINING_PASSES * shape.encoder_flops(chunk), 1.0),
            ("encode", encode, shape, shape.encoder_flops(chunk), 1 / TRAINING_PASSES),
        ):
            layers = (counted.num_layers + counted.num_head_layers) * passes
            graph_bytes, seconds = 4 * counted.graph_numbers([chunk]) * passes, best(work)
            fits.setdefault(rule, []).append((flops, graph_bytes, layers, seconds))
            share = flops / seconds / device.flops_per_s
            cells = (rule, rows, width, len(labels), flops, graph_bytes, layers, seconds, share)
            table.append(dict(zip(COLUMNS, cells, strict=True)))
            if compiles:
                plain = dict(models)
                models.update(compiled)
                first, ratio = measuring.seconds_of(work, clock=clock), best(work) / seconds
                models.update(plain)
                print(f"{rule}, {width}: compiled {ratio:.2f} of that time, {first:.1f} s at first")

    weights = [weight for weight in condenser.parameters() if weight.requires_grad]
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    optimiser = torch.optim.AdamW(weights, lr=1e-6, fused=True)

    def update() -> None:
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        torch.nn.utils.get_total_norm(gradients)
        torch._foreach_mul_(gradients, 0.5)
        optimiser.step()

    moved = UPDATE_BYTES * sum(weight.numel() for weight in weights)
    seconds = best(update)
    table.append({"rule": "update", "graph_bytes": float(moved), "seconds": seconds})
    rates = [("*", "update_bytes", moved / seconds / device.bytes_per_s)]
    for rule, measured in fits.items():
        work = np.array(measured)
        peaks = np.array([device.flops_per_s, device.bytes_per_s, 1.0])
        found, _ = nnls(work[:, :3] / peaks / work[:, 3:], np.ones(len(work)))
        error = np.abs(work[:, :3] / peaks @ found / work[:, 3] - 1).max()
        print(f"{rule}: the rates are off by {error:.0%} at most; inf: no time beside the other work")
        for unit, one in zip(("flops", "graph_bytes", "layers"), found.tolist(), strict=True):
            rates.append((rule, unit, 1 / one if one else float("inf")))
    return table, rates


if __name__ == "__main__":
    measuring.run(main)
