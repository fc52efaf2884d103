"""The peak rates of this machine, measured on the spot.

The rates of rates.tsv are shares of these, so that they hold for a machine of another speed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch

from condenser.pipeline.costs.tables import Device

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_SIZES = {"cpu": 1024, "cuda": 8192}  # of square matrices
_NUMBERS = {"cpu": 1 << 20, "cuda": 1 << 26}  # 4 MB: the feed-forward of a chunk
_BEST_OF_S = 1.5  # long enough that a busy machine has a quiet moment


def measure_device(
    device: torch.device, *, precision: str, threads: int, clock: Callable[[], float]
) -> Device:
    """This machine's rates: matrix products in `precision` and in float32, and elementwise work.

    The elementwise work is what a transformer does between its products: GELU and dropout. Its rate is in
    bytes, 8 for each number (read and written). Each rate is the best of repeated runs: other work on the
    machine can only slow them down.

    Args:
        clock: seconds: `time.perf_counter`, or `time.process_time` for one thread on a busy machine.
    """
    from condenser.model.dropout import dropout

    torch.set_num_threads(threads)
    is_gpu = device.type == "cuda"
    numbers = torch.randn(_NUMBERS[device.type], device=device)
    elementwise_s = _best_time(lambda: dropout(torch.nn.functional.gelu(numbers), 0.1), device, clock)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Device(
        name=torch.cuda.get_device_name(device) if is_gpu else f"this machine, {threads} threads",
        kind="gpu" if is_gpu else "cpu",
        precision=precision,
        flops_per_s=_product_rate(device, precision, clock),
        bytes_per_s=8 * len(numbers) / elementwise_s,
        memory_bytes=float(torch.cuda.get_device_properties(device).total_memory if is_gpu else memory),
        fp32_flops_per_s=_product_rate(device, "fp32", clock),
    )


def _product_rate(device: torch.device, precision: str, clock: Callable[[], float]) -> float:
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
