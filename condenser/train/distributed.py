"""Several processes, started by torchrun, that compute one batch together.

Losses are divided by counts of the whole batch, so processes always sum and never average. The only
collective is a sum of tensors of one shape, and all processes get the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from jaxtyping import Float, Int
from torch import Tensor

BUCKET_ELEMENTS = 1 << 25
"""Gradients are summed in pieces of at most so many numbers, which bounds the memory of their copies."""

GROUP_FILE_VARIABLE = "CONDENSER_GROUP_FILE"
"""Set by the launcher for its processes: the file by which they meet, in a folder that is closed to others.

Without it they meet as torchrun says, in a TCPStore: it listens to all machines and asks for no password.
"""


@dataclass(frozen=True)
class Processes:
    """This process among all processes of the run.

    `rank` counts over all machines and decides which process computes what.
    """

    rank: int
    world_size: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and shows progress."""
        return self.rank == 0

    def mine(self, count: int) -> range:
        """The chunks, of `count`, that this process computes: every `world_size`-th one."""
        return range(self.rank, count, self.world_size)

    def sum_in_place(self, values: Tensor) -> None:
        """Replace a tensor, which has the same shape in every process, by its sum over the processes."""
        if self.world_size > 1:
            dist.all_reduce(values)

    def gather_rows(
        self, rows: Float[Tensor, "row dim"], indices: Int[Tensor, " row"], *, num_rows: int
    ) -> Float[Tensor, "num_rows dim"]:
        """The rows of all processes, each at its index in the whole batch, without gradients.

        The result is the same for any number of processes.
        """
        assert len(rows) == len(indices)
        # the last column counts how many processes computed each row
        gathered = torch.zeros(num_rows, rows.shape[1] + 1, dtype=rows.dtype, device=rows.device)
        gathered[indices, :-1] = rows.detach()
        gathered[:, -1].index_add_(0, indices, torch.ones_like(indices, dtype=rows.dtype))
        self.sum_in_place(gathered)
        assert bool((gathered[:, -1] == 1).all()), "a row of the batch was computed never or twice"
        return gathered[:, :-1].contiguous()

    def sum_floats(self, values: Sequence[float]) -> list[float]:
        """Each number summed over the processes, which all give equally many."""
        numbers = torch.tensor(list(values), dtype=torch.float64, device=self.device)
        self.sum_in_place(numbers)
        return numbers.tolist()

    def any(self, claim: bool) -> bool:
        """Whether `claim` is true in any process; the same answer in every process."""
        return self.sum_floats([float(claim)])[0] > 0

    def barrier(self) -> None:
        """Wait until every process has called this."""
        self.any(False)


def sum_gradients(parameters: Iterable[torch.nn.Parameter], processes: Processes) -> None:
    """Replace each gradient by its sum over the processes.

    A process without a gradient (it had no chunk) counts as zero. A parameter without a gradient in
    every process gets none.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if processes.world_size == 1 or not trained:
        return
    present = torch.tensor([float(p.grad is not None) for p in trained], device=processes.device)
    processes.sum_in_place(present)
    wanted = [p for p, count in zip(trained, present.tolist(), strict=True) if count]
    for bucket in _buckets(wanted):
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in bucket])
        processes.sum_in_place(flat)
        for parameter, summed in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
            parameter.grad = summed.view_as(parameter).clone()


def _buckets(parameters: Sequence[torch.nn.Parameter]) -> Iterator[list[torch.nn.Parameter]]:
    """Parameters in order, in lists of one dtype and at most `BUCKET_ELEMENTS` numbers each."""
    bucket: list[torch.nn.Parameter] = []
    for parameter in parameters:
        size = sum(p.numel() for p in bucket)
        if bucket and (parameter.dtype != bucket[0].dtype or size + parameter.numel() > BUCKET_ELEMENTS):
            yield bucket
            bucket = []
        bucket.append(parameter)
    if bucket:
        yield bucket


def alone(device: torch.device) -> Processes:
    """A run of one process."""
    return Processes(rank=0, world_size=1, device=device)


@contextmanager
def joined(device_type: str, *, timeout_s: float | int) -> Iterator[Processes]:
    """The processes of this run, from torchrun's environment variables; without them, one process.

    They communicate by gloo on CPUs and by nccl on GPUs; each process uses the GPU LOCAL_RANK. A process
    fails if it waits longer than `timeout_s` for the others, so this must be more than the first process
    needs to write a checkpoint.

    Raises:
        ValueError: there are fewer GPUs than processes.
    """
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        yield alone(torch.device(device_type))
        return
    rank, world_size, local_rank = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    device = torch.device(device_type)
    if device_type == "cuda":
        if local_rank >= torch.cuda.device_count():
            raise ValueError(
                f"LOCAL_RANK {local_rank}: expected a GPU for each process of this machine, "
                f"got {torch.cuda.device_count()}. Start fewer processes."
            )
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
    if world_size == 1:
        yield Processes(rank, world_size, device)
        return
    group_file = os.environ.get(GROUP_FILE_VARIABLE)
    dist.init_process_group(
        "nccl" if device_type == "cuda" else "gloo",
        timeout=timedelta(seconds=timeout_s),
        store=dist.FileStore(group_file, world_size) if group_file else None,  # None: as torchrun says
        rank=rank,
        world_size=world_size,
    )
    yield Processes(rank, world_size, device)
    dist.destroy_process_group()  # not in a finally: after an error, NCCL would wait for the others
