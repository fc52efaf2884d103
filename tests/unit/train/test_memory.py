from __future__ import annotations

import pytest
import torch
from small_models import full_rows, small_condenser

from condenser.model.retriever import Retriever
from condenser.train.memory import StepMemory


def test_gradients_of_a_failed_try_are_deleted_before_the_next() -> None:
    model = small_condenser()
    weight = model.mlm_head.bias
    tries = []

    def add_twice() -> str:
        assert weight.grad is None
        weight.sum().backward()
        tries.append(model.recompute_layers)
        if len(tries) < 3:
            raise torch.OutOfMemoryError("full")
        return "done"

    assert StepMemory(model, keeps_graphs=True).retried_with_less_memory(add_twice) == "done"
    assert tries == [False, False, True]
    assert weight.grad is not None and bool((weight.grad == 1).all())


def test_activation_checkpointing_keeps_less_for_the_backward_pass() -> None:
    def held(model: Retriever) -> int:
        sizes: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda tensor: sizes.append(tensor.numel()) or tensor, lambda t: t
        ):
            model(full_rows(torch.randint(5, 40, (4, 16))))
        return sum(sizes)

    model = Retriever(small_condenser(dropout=0.1).backbone).train()
    all_layers = held(model)
    model.recompute_layers = True
    assert held(model) < all_layers / 2


def test_other_errors_are_not_taken_for_a_lack_of_memory() -> None:
    def fail() -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        StepMemory(small_condenser(), keeps_graphs=True).retried_with_less_memory(fail)
