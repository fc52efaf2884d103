"""What a training does when its device is full: it holds less at once and computes the same numbers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from condenser.program import is_out_of_memory

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class StepMemory:
    """How much of a step is held at once; from then on less, whenever the device is full.

    In turn the graphs of the whole batch, those of one chunk (the gradient cache), those of one layer
    (the other layers' are computed again on the way back). All compute the same products of the same
    chunks with the same dropout, so that no bit of the result tells one from another.
    """

    def __init__(self, model: Any, *, keeps_graphs: bool) -> None:
        """Begin with the whole batch's graphs, or, without `keeps_graphs`, with a chunk's."""
        self._model = model
        self.keeps_graphs = keeps_graphs
        model.recompute_layers = False  # every model that is trained has it

    def fitting(self, compute: Callable[[], Result]) -> Result:
        """What `compute` gives, tried again with less held at once each time the device is full.

        A try that failed leaves gradients of which nobody knows the rest: all gradients of the model
        are deleted before the next. So `compute` must bring all those of a step, and wait for no other
        process, which would not wait again.

        Raises:
            ValueError: the least that can be held is too much.
        """
        while True:
            try:
                return compute()
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                said = str(error).strip().partition("\n")[0]
            # not in the handler above, where the error still holds all that was computed
            self._hold_less(said)

    def _hold_less(self, said: str) -> None:
        if self.keeps_graphs:
            self.keeps_graphs = False
            log.info("memory is full: from here on with the gradient cache (%s)", said)
        elif not self._model.recompute_layers:
            self._model.recompute_layers = True
            log.info("memory is full: from here on layers are computed again on the way back (%s)", said)
        else:
            raise ValueError(
                f"rows_per_chunk: expected a chunk whose layers fit into memory one by one, got: {said}. "
                "Lower it, or let the device be this job's alone."
            )
        for weight in self._model.parameters():
            weight.grad = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
