"""The rates of this machine, measured on the spot, of which rates.tsv has shares."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch
from torch import nn

from condenser.pipeline.costs.tables import Device

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_SIZES = {"cpu": 1024, "cuda": 8192}  # of square matrices
_LAYER = {"cpu": (384, 12, 32, 64), "cuda": (768, 12, 128, 128)}  # width, heads, rows and tokens of a row
_BEST_OF_S = 1.5  # long enough that a busy machine has a quiet moment


def measure_device(
    device: torch.device, *, precision: str, threads: int, clock: Callable[[], float]
) -> Device:
    """This machine's rates: a layer in `precision`, and products in float32, each the best of repeated runs.

    Args:
        clock: seconds: `time.perf_counter`, or `time.process_time` for one thread on a busy machine.
    """
    torch.set_num_threads(threads)
    is_gpu = device.type == "cuda"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Device(
        name=torch.cuda.get_device_name(device) if is_gpu else f"this machine, {threads} threads",
        kind="gpu" if is_gpu else "cpu",
        precision=precision,
        flops_per_s=layer_rate(device, precision, clock),
        fp32_flops_per_s=product_rate(device, "fp32", clock),
        memory_bytes=float(torch.cuda.get_device_properties(device).total_memory if is_gpu else memory),
    )


def layer_rate(device: torch.device, precision: str, clock: Callable[[], float]) -> float:
    """Operations a second of PyTorch's own layer of a transformer, forward and backward, without dropout."""
    dim, num_heads, num_rows, num_tokens = _LAYER[device.type]
    layer = nn.TransformerEncoderLayer(dim, num_heads, 4 * dim, 0.0, "gelu", batch_first=True).to(device)
    states = torch.randn(num_rows, num_tokens, dim, device=device, requires_grad=True)

    def step() -> None:
        with torch.autocast(device.type, _DTYPES[precision], enabled=precision != "fp32"):
            loss = layer(states).float().square().sum()
        loss.backward()

    # as `Shape.token_flops` counts a layer
    flops = 3 * num_rows * num_tokens * 2 * (12 * dim**2 + 2 * num_tokens * dim)
    return flops / _best_time(step, device, clock)


def product_rate(device: torch.device, precision: str, clock: Callable[[], float]) -> float:
    """Operations a second of a large matrix product: the peak."""
    size = _SIZES[device.type]
    left, right = (torch.randn(size, size, device=device).to(_DTYPES[precision]) for _ in range(2))
    with torch.no_grad():
        return 2 * size**3 / _best_time(lambda: torch.mm(left, right), device, clock)


def _best_time(work: Callable[[], object], device: torch.device, clock: Callable[[], float]) -> float:
    times: list[float] = []
    until = time.perf_counter() + _BEST_OF_S
    while len(times) < 3 or time.perf_counter() < until:
        began = clock()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(clock() - began)
    return min(times)
