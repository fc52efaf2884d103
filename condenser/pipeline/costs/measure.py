"""The peak rates of this machine, measured on the spot: a plan's yardstick.

Efficiencies in rates.tsv are shares of these, so they carry over to a machine of another speed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import torch

from condenser.pipeline.costs.tables import Device

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_SIZE = 1024
_GPU_SIZE = 8192
_ELEMENTS = 1 << 20  # 4 MB, a chunk's feed-forward
_BEST_OF_S = 1.5  # long enough that a busy machine has a quiet moment


def measure_device(
    device: torch.device,
    *,
    precision: str,
    threads: int,
    clock: Callable[[], float],
    dropout: Callable[[torch.Tensor, float], torch.Tensor],
) -> Device:
    """This machine's rates: matrix products in `precision`, elementwise work, float32 on the processor.

    Elementwise work is what a transformer does between its products, GELU and the dropout that trainings
    use; its rate is given as bytes, 8 for each number (read and written).

    Each is the best of repeated runs, because other work on the machine can only slow them down.

    Args:
        dropout: `condenser.model.dropout.dropout`.
        clock: seconds; `time.perf_counter`, or `time.process_time` for one thread on a busy machine.
    """
    torch.set_num_threads(threads)
    size = _GPU_SIZE if device.type == "cuda" else _SIZE
    flops = _product_rate(device, _DTYPES[precision], size, clock)
    host = (
        flops
        if device.type == "cpu" and precision == "fp32"
        else _product_rate(torch.device("cpu"), torch.float32, _SIZE, clock)
    )
    numbers = torch.randn(_ELEMENTS * (64 if device.type == "cuda" else 1), device=device)

    def elementwise() -> None:
        dropout(torch.nn.functional.gelu(numbers), 0.1)

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"this machine, {threads} threads"
    return Device(
        name=name,
        kind="gpu" if device.type == "cuda" else "cpu",
        precision=precision,
        flops_per_s=flops,
        bytes_per_s=8 * numbers.numel() / _best_time(elementwise, device, clock),
        memory_bytes=_memory_bytes(device),
        host_flops_per_s=host,
    )


def _product_rate(device: torch.device, dtype: torch.dtype, size: int, clock: Callable[[], float]) -> float:
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    with torch.no_grad():
        return 2 * size**3 / _best_time(lambda: torch.mm(left, right), device, clock)


def _best_time(work: Callable[[], object], device: torch.device, clock: Callable[[], float]) -> float:
    def timed() -> float:
        began = clock()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return clock() - began

    timed()  # allocation, choice of kernels
    best, until = timed(), time.perf_counter() + _BEST_OF_S
    while time.perf_counter() < until:
        best = min(best, timed())
    return best


def _memory_bytes(device: torch.device) -> float:
    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).total_memory)
    for line in Path("/proc/meminfo").read_text().splitlines() if Path("/proc/meminfo").is_file() else []:
        if line.startswith("MemTotal:"):
            return 1024.0 * int(line.split()[1])
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
