from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import full_rows, small_condenser
from small_trainings import Files, contents, prepare, train
from torch import nn

from condenser.model.bert import Embeddings
from condenser.model.mlm_head import MaskedLanguageHead
from condenser.model.retriever import Retriever
from condenser.train.memory import StepMemory

NOT_KEPT, RECOMPUTED = "switching to the gradient cache", "switching to activation checkpointing"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return prepare(tmp_path_factory.mktemp("memory"), dropout=0.1)


def fill_memory(monkeypatch: pytest.MonkeyPatch, kind: type[nn.Module], calls: set[int]) -> None:
    """Let these calls of a module's forward, counted from 1 on and only with gradients, find no memory."""
    real: Callable[..., Any] = kind.forward
    count = 0

    def forward(module: nn.Module, *arguments: Any) -> Any:
        nonlocal count
        count += torch.is_grad_enabled()
        if torch.is_grad_enabled() and count in calls:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.\nA hint.")
        return real(module, *arguments)

    monkeypatch.setattr(kind, "forward", forward)


@pytest.mark.parametrize(
    ("kind", "module", "full_at", "said"),
    [
        ("condenser", MaskedLanguageHead, {3}, [RECOMPUTED]),
        ("cocondenser", MaskedLanguageHead, {3}, [NOT_KEPT]),
        ("cocondenser", MaskedLanguageHead, {3, 5}, [NOT_KEPT, RECOMPUTED]),
        ("retriever", Retriever, {2}, [NOT_KEPT]),
        ("retriever", Retriever, {2, 4}, [NOT_KEPT, RECOMPUTED]),
        ("untied", Retriever, {2, 4}, [NOT_KEPT, RECOMPUTED]),
        ("late", Embeddings, {2, 4}, [NOT_KEPT, RECOMPUTED]),
    ],
)
def test_a_full_device_changes_no_byte_of_what_is_trained(
    files: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: str,
    module: type[nn.Module],
    full_at: set[int],
    said: list[str],
) -> None:
    changes: dict[str, Any] = {"gradient_cache": "never"} if kind == "cocondenser" else {}
    changes["epochs"] = 0.3
    train(kind, files, tmp_path / "calm", **changes)
    fill_memory(monkeypatch, module, full_at)
    with caplog.at_level(logging.INFO):
        train(kind, files, tmp_path / "full", **changes)
    messages = [record.getMessage() for record in caplog.records if "memory is full" in record.getMessage()]
    assert len(messages) == len(said)
    for message, words in zip(messages, said, strict=True):
        assert words in message and message.endswith("(CUDA out of memory. Tried to allocate 20.00 MiB.)")
    assert contents(tmp_path / "full") == contents(tmp_path / "calm")


def test_if_not_even_one_layer_fits_the_error_names_the_setting_to_lower(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_memory(monkeypatch, MaskedLanguageHead, set(range(2, 100)))
    with pytest.raises(ValueError, match=r"^rows_per_chunk: .*Tried to allocate 20.00 MiB.*Lower it"):
        train("condenser", files, tmp_path / "out")
    assert not (tmp_path / "out").exists()


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

    assert StepMemory(model, keeps_graphs=True).fitting(add_twice) == "done"
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
        StepMemory(small_condenser(), keeps_graphs=True).fitting(fail)
