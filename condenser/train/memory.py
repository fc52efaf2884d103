"""Use less memory when the device is full, without changing a number."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from condenser.program import is_out_of_memory

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

    def fitting(self, compute: Callable[[], Result]) -> Result:
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
                said = str(error).strip().partition("\n")[0]
            # outside the handler, because the error there keeps all tensors of the failed try in memory
            self._use_less(said)

    def _use_less(self, said: str) -> None:
        if self.keeps_graphs:
            self.keeps_graphs = False
            log.info("memory is full: switching to the gradient cache (%s)", said)
        elif not self._model.recompute_layers:
            self._model.recompute_layers = True
            log.info("memory is full: switching to activation checkpointing (%s)", said)
        else:
            raise ValueError(
                f"rows_per_chunk: expected a chunk of which one layer fits into memory, got: {said}. "
                "Lower it, or run no other job on this device."
            )
        for weight in self._model.parameters():
            weight.grad = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
