"""The gradient of a step whose losses are sums over its chunks (else `condenser.train.gradient_cache`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from condenser.train.chunks import Chunk, Inputs
from condenser.train.distributed import Processes
from condenser.train.memory import StepMemory


def chunk_backward(
    chunks: Sequence[Chunk[Inputs]],
    losses: Callable[[Chunk[Inputs]], Tensor],
    *,
    num_losses: int,
    memory: StepMemory,
    processes: Processes,
    scale: float = 1.0,
) -> list[float]:
    """Add the gradient of losses that are sums over chunks to the parameters; gives the sums.

    Args:
        chunks: those of this process, possibly none.
        losses: gives the shares of a chunk, [loss], already divided by counts of the whole batch.
        scale: losses are multiplied by it before the backward pass (fp16's loss scale); else 1.

    Returns:
        Unscaled, of the whole batch, the same in every process.
    """

    def back() -> list[float]:
        sums = torch.zeros(num_losses, dtype=torch.float64, device=processes.device)
        for chunk in chunks:
            torch.manual_seed(chunk.seed)
            of_chunk = losses(chunk)
            (of_chunk.sum() * scale).backward()
            sums += of_chunk.detach()
        return sums.tolist()

    return processes.sum_floats(memory.retried_with_less_memory(back))
