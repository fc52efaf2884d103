"""Use less memory when the device is full, without changing a number."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from condenser.program import is_out_of_memory

if TYPE_CHECKING:
    from condenser.train.chunks import Chunk
    from condenser.train.masked_texts import MaskedRows

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class StepMemory:
    """How much of a step is kept in memory, and less of it each time the device is full.

    First the graphs of the whole batch; then those of one chunk (the gradient cache); then those of one
    layer of a chunk (activation checkpointing). All compute the same products of the same chunks with
    the same dropout, so the result is the same to the bit.
    """

    def __init__(self, model: Any, *, keeps_graphs: bool) -> None:
        """Begin with the graphs of the whole batch, or of one chunk if `keeps_graphs` is False."""
        self._model = model
        self.keeps_graphs = keeps_graphs
        model.recompute_layers = False  # every model that is trained has it

    def retried_with_less_memory(self, compute: Callable[[], Result]) -> Result:
        """What `compute` gives. If the device is full, it is tried again with less in memory.

        A failed try leaves incomplete gradients, so all gradients of the model are deleted before the
        next one. Therefore `compute` must compute all gradients of a step. It must not wait for other
        processes either: they do not repeat their part.

        Raises:
            ValueError: not even one layer of a chunk fits.
        """
        while True:
            try:
                return compute()
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                message = str(error).strip().partition("\n")[0]
            # outside the handler, because the error there keeps all tensors of the failed try in memory
            self._use_less(message)

    def _use_less(self, message: str) -> None:
        if self.keeps_graphs:
            self.keeps_graphs = False
            log.info("memory is full: switching to the gradient cache (%s)", message)
        elif not self._model.recompute_layers:
            self._model.recompute_layers = True
            log.info("memory is full: switching to activation checkpointing (%s)", message)
        else:
            raise ValueError(
                f"rows_per_chunk: expected a chunk of which one layer fits into memory, got: {message}. "
                "Lower it, or run no other job on this device."
            )
        for weight in self._model.parameters():
            weight.grad = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def graph_bytes(chunks: Sequence[Chunk[MaskedRows]], model: Any) -> int:
    """An estimate, in bytes, of the memory for the graphs of all these chunks at once, in float32.

    Per token and layer: 20 vectors of the hidden size (inputs, queries, keys, values, context, both
    dropout masks, LayerNorms, the four-fold feed-forward before and after its activation). Per row, layer
    and head: three squares of attention, with padding. Per masked token: three times the vocabulary
    (logits, their softmax, the gradient) for each of the two heads.
    """
    config = model.backbone.config
    num_layers = config.num_hidden_layers + len(getattr(model, "head", []))
    vectors = 12 * config.hidden_size + 2 * config.intermediate_size
    numbers = 0
    for chunk in chunks:
        rows = chunk.inputs.rows
        squares = sum(group.num_rows * group.width**2 for group in rows.layout.groups)
        numbers += num_layers * len(rows.ids) * vectors
        numbers += num_layers * squares * 3 * config.num_attention_heads
        numbers += len(chunk.inputs.masked.tokens) * 3 * 2 * config.vocab_size
    return 4 * numbers


def memory_for_graphs(model: Any, device: torch.device, *, memory_gb: float) -> int:
    """Bytes that the graphs of a step may take: `memory_gb`, on a GPU what is free."""
    if device.type != "cuda":
        return int(memory_gb * 1e9)
    free, _ = torch.cuda.mem_get_info(device)
    to_come = 3 * 4 * sum(weight.numel() for weight in model.parameters())  # gradients, two moments
    return int(0.8 * (free - to_come))
