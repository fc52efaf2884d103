"""The gradient cache: contrastive gradients of a batch of any size in the memory of one chunk.

The loss needs the representations of the whole batch, but the backward pass of a chunk needs only the
gradient of its own representations. So the first pass computes representations without graphs, then
come the gradients of the loss with respect to them, and the second pass computes each chunk again and
runs its backward pass.
Source: coCondenser, §3.3, eq. 8-12 (Gao et al., "Scaling Deep Contrastive Learning Batch Size under
Memory Limited Setup").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from condenser.model.rows import copy_to
from condenser.train.chunks import Chunk, Inputs
from condenser.train.distributed import Processes, alone
from condenser.train.memory import StepMemory


def batch_backward(
    chunks: Sequence[Chunk[Inputs]],
    encode: Callable[[Chunk[Inputs]], Tensor],
    loss: Callable[..., Tensor],
    *,
    num_rows: Mapping[str, int],
    width: int,
    memory: StepMemory | None = None,
    processes: Processes | None = None,
    scale: float = 1.0,
    encode_with_losses: Callable[[Chunk[Inputs]], tuple[Tensor, Mapping[str, Tensor]]] | None = None,
    loss_names: Sequence[str] = (),
    keep_graphs: bool = True,
) -> dict[str, float]:
    """Add the gradient of the whole batch's loss to the parameters; gives the parts of the loss by name.

    The loss is `loss(**representations)`, with a tensor [num_rows[group], width] for each group, plus the
    chunks' own losses (of a masked language model, say, already divided by counts of the whole batch).
    Each process passes its own chunks, possibly none. Afterwards its gradients are those of its own
    rows, and the caller sums them over the processes.

    With `keep_graphs`, every chunk is computed once and its graph kept until the loss is known. Without
    it, or if `memory` is too small, every chunk is computed twice with the same dropout: first by
    `encode`, without a graph, then by `encode_with_losses` (or by `encode` if chunks have no own
    losses). Both ways give the same gradient.

    Args:
        encode: gives [row, width].
        encode_with_losses: gives the same representations, with the same dropout, and the chunk's own
            losses under `loss_names`.
        width: of a representation, for a process without chunks.
        memory: of the model, which has no gradients before the call; None tries nothing a second time.
        processes: those that compute the batch together; None is this one alone, on the processor.
        scale: losses are multiplied by it before the backward pass (fp16's loss scale); else 1.

    Returns:
        "batch" and each of `loss_names`: unscaled, of the whole batch, the same in every process.
    """

    def compute(chunk: Chunk[Inputs]) -> tuple[Tensor, Mapping[str, Tensor]]:
        torch.manual_seed(chunk.seed)  # the CPU's generator and every GPU's
        return encode_with_losses(chunk) if encode_with_losses else (encode(chunk), {})

    def compute_alone(chunk: Chunk[Inputs]) -> Tensor:
        torch.manual_seed(chunk.seed)
        with torch.no_grad():
            return encode(chunk)

    retried = memory.retried_with_less_memory if memory else lambda compute: compute()
    processes = processes or alone(torch.device("cpu"))
    kept: list[tuple[Tensor, Mapping[str, Tensor]]] = []

    def represent() -> list[Tensor]:
        if not (keep_graphs and (memory is None or memory.keeps_graphs)):
            return [compute_alone(chunk) for chunk in chunks]
        pairs = [compute(chunk) for chunk in chunks]
        kept.extend(pairs)
        return [representations for representations, _ in pairs]

    first_pass = retried(represent)
    whole = _gathered(chunks, first_pass, num_rows=num_rows, width=width, processes=processes)
    with torch.enable_grad():
        contrastive = loss(**whole)
        gradients = dict(
            zip(whole, torch.autograd.grad(contrastive * scale, list(whole.values())), strict=True)
        )

    del first_pass

    def back() -> dict[str, Tensor]:
        sums = {name: torch.zeros((), dtype=torch.float64, device=processes.device) for name in loss_names}
        graphs, kept[:] = kept[::-1], []  # if this try fails, the next one computes every chunk again
        for chunk in chunks:
            representations, losses = graphs.pop() if graphs else compute(chunk)
            assert set(losses) == set(loss_names), f"{sorted(losses)} is not {sorted(loss_names)}"
            rows = copy_to(chunk.rows, processes.device)
            share = gradients[chunk.group].index_select(0, rows).to(representations.dtype)
            own = list(losses.values())
            # equals the backward pass of (representations * share).sum() + scale * sum of own losses
            torch.autograd.backward(
                [representations, *own], [share, *(torch.full_like(value, scale) for value in own)]
            )
            for name, value in losses.items():
                sums[name] += value.detach()
        return sums

    sums = retried(back)
    totals = processes.sum_floats([float(sums[name]) for name in loss_names])
    return {"batch": float(contrastive.detach()), **dict(zip(loss_names, totals, strict=True))}


def _gathered(
    chunks: Sequence[Chunk[Inputs]],
    representations: Sequence[Tensor],
    *,
    num_rows: Mapping[str, int],
    width: int,
    processes: Processes,
) -> dict[str, Tensor]:
    """Each group's representations of the whole batch, as leaves that collect a gradient."""
    # a process without chunks needs the dtype of the others
    exact = processes.any(any(tensor.dtype == torch.float64 for tensor in representations))
    dtype = torch.float64 if exact else torch.float32
    whole = {}
    for group in sorted(num_rows):  # every process needs the same order of collectives
        rows = [torch.zeros(0, dtype=torch.int64)]
        values = [torch.zeros(0, width, dtype=dtype, device=processes.device)]
        for chunk, tensor in zip(chunks, representations, strict=True):
            if chunk.group == group:
                rows.append(chunk.rows)
                values.append(tensor.detach().to(dtype))
        places = copy_to(torch.cat(rows), processes.device)
        gathered = processes.gather_rows(torch.cat(values), places, num_rows=num_rows[group])
        whole[group] = gathered.requires_grad_(True)
    return whole
