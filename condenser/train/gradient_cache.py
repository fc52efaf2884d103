"""Contrastive gradients of a batch of any size in the memory of one chunk.

Source: coCondenser, §3.3, eq. 8-12 (Gao et al., "Scaling Deep Contrastive Learning Batch Size under
Memory Limited Setup"). The loss needs all representations at once, an encoder's backward pass only
its own rows' share of the gradient: so representations are computed first, then d loss / d
representation, then each chunk again with its share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from condenser.train.distributed import Processes
from condenser.train.memory import StepMemory

Inputs = TypeVar("Inputs")


@dataclass(frozen=True)
class Chunk(Generic[Inputs]):
    """Rows that are computed together.

    `group` names their representations ("spans"; "queries", "passages"), `rows` are their places in
    that group's whole batch, `seed` is that of their dropout: one for each (seed, step, chunk).
    """

    group: str
    rows: Int[Tensor, " row"]
    inputs: Inputs
    seed: int


def contrastive_backward(
    chunks: Sequence[Chunk[Inputs]],
    encode: Callable[[Inputs], Tensor],
    loss: Callable[..., Tensor],
    *,
    num_rows: Mapping[str, int],
    dim: int,
    encode_with_losses: Callable[[Inputs], tuple[Tensor, Mapping[str, Tensor]]] | None,
    loss_names: Sequence[str],
    keep_graphs: bool,
    memory: StepMemory,
    processes: Processes,
    scale: float,
) -> dict[str, float]:
    """Add the gradient of the whole batch's loss to the parameters; gives that loss's parts by name.

    The loss is `loss(**representations)`, one tensor [num_rows[group], dim] a group, plus the losses
    that chunks have by themselves (a masked language model's, already divided by the counts of the
    whole batch). Each process passes its own chunks, maybe none; afterwards its gradients hold its
    own rows' part, to be summed over the processes.

    With `keep_graphs` every chunk is computed once and its graph kept until the loss is known. Without,
    or where `memory` has no room for that, it is computed twice, with the same dropout: first by
    `encode`, without a graph, then by `encode_with_losses` (or by `encode` when there are no other
    losses). Both give the same gradient.

    Args:
        encode: gives [row, dim]. It enters autocast by itself.
        encode_with_losses: gives the same representations, drawing the same dropout for them, and the
            chunk's own losses under `loss_names`.
        dim: width of a representation, for a process that has none.
        memory: of the model whose gradients these are; it has none before the call.
        scale: what losses are multiplied by before the backward pass (fp16's loss scaler); 1 otherwise.

    Returns:
        "contrastive" and each of `loss_names`, of the whole batch, the same in every process, unscaled.
    """
    # autocast keeps the weights it has cast: cast without a graph, they would get no gradient in
    # the second pass
    for device_type in {"cpu", processes.device.type}:
        assert not torch.is_autocast_enabled(device_type), "enter autocast inside encode"

    def compute(chunk: Chunk[Inputs]) -> tuple[Tensor, Mapping[str, Tensor]]:
        torch.manual_seed(chunk.seed)  # the CPU's generator and every GPU's
        return encode_with_losses(chunk.inputs) if encode_with_losses else (encode(chunk.inputs), {})

    def compute_alone(chunk: Chunk[Inputs]) -> Tensor:
        torch.manual_seed(chunk.seed)
        with torch.no_grad():
            return encode(chunk.inputs)

    kept: list[tuple[Tensor, Mapping[str, Tensor]]] = []

    def represent() -> list[Tensor]:
        if not (keep_graphs and memory.keeps_graphs):
            return [compute_alone(chunk) for chunk in chunks]
        pairs = [compute(chunk) for chunk in chunks]
        kept.extend(pairs)
        return [representations for representations, _ in pairs]

    first_pass = memory.fitting(represent)
    whole = _gathered(chunks, first_pass, num_rows=num_rows, dim=dim, processes=processes)
    with torch.enable_grad():
        contrastive = loss(**whole)
        gradients = dict(
            zip(whole, torch.autograd.grad(contrastive * scale, list(whole.values())), strict=True)
        )

    del first_pass

    def back() -> dict[str, Tensor]:
        sums = {name: torch.zeros((), dtype=torch.float64, device=processes.device) for name in loss_names}
        graphs, kept[:] = kept[::-1], []  # a second try finds none, and computes them anew
        for chunk in chunks:
            representations, losses = graphs.pop() if graphs else compute(chunk)
            assert set(losses) == set(loss_names), f"{sorted(losses)} is not {sorted(loss_names)}"
            rows = chunk.rows.to(processes.device, non_blocking=True)
            share = gradients[chunk.group].index_select(0, rows).to(representations.dtype)
            own = list(losses.values())
            # the same as the backward pass of (representations * share).sum() + scale * the chunk's losses
            torch.autograd.backward(
                [representations, *own], [share, *(torch.full_like(value, scale) for value in own)]
            )
            for name, value in losses.items():
                sums[name] += value.detach()
        return sums

    sums = memory.fitting(back)
    totals = processes.sum_floats([float(sums[name]) for name in loss_names])
    return {"contrastive": float(contrastive.detach()), **dict(zip(loss_names, totals, strict=True))}


def _gathered(
    chunks: Sequence[Chunk[Inputs]],
    representations: Sequence[Tensor],
    *,
    num_rows: Mapping[str, int],
    dim: int,
    processes: Processes,
) -> dict[str, Tensor]:
    """Each group's representations of the whole batch, as leaves that take a gradient."""
    # a process without chunks must bring the type of the others
    exact = processes.any(any(tensor.dtype == torch.float64 for tensor in representations))
    dtype = torch.float64 if exact else torch.float32
    whole = {}
    for group in sorted(num_rows):  # the same order of collectives in every process
        rows = [torch.zeros(0, dtype=torch.int64)]
        values = [torch.zeros(0, dim, dtype=dtype, device=processes.device)]
        for chunk, tensor in zip(chunks, representations, strict=True):
            if chunk.group == group:
                rows.append(chunk.rows)
                values.append(tensor.detach().to(dtype))
        places = torch.cat(rows).to(processes.device, non_blocking=True)
        gathered = processes.gather_rows(torch.cat(values), places, num_rows=num_rows[group])
        whole[group] = gathered.requires_grad_(True)
    return whole
