"""The term that holds similarities near the start's: equal to a loop, its gradient that of the slow way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_trainings import OBJECTIVES, Files, prepare

from condenser import kinds
from condenser.data.batches import step_items
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.loss.contrastive import span_contrastive_loss
from condenser.loss.distillation import similarity_divergence
from condenser.model.retriever import Retriever
from condenser.train.distributed import alone
from condenser.train.pretrain import _backward, masked_texts

CPU = torch.device("cpu")


def slowly(own: torch.Tensor, start: torch.Tensor, *, scale: float) -> torch.Tensor:
    """Row by row: the divergence of the distribution over all other rows."""
    total = torch.zeros((), dtype=own.dtype)
    for row in range(len(own)):
        others = [other for other in range(len(own)) if other != row]
        ours, told = (scale * (vectors[others] @ vectors[row]) for vectors in (own, start))
        p, q = told.softmax(0), ours.softmax(0)
        total = total + (p * (p.log() - q.log())).sum()
    return total / len(own)


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_the_divergence_is_that_of_a_loop_over_the_rows(scale: float) -> None:
    rows = torch.nn.functional.normalize(torch.randn(7, 2, 5, dtype=torch.float64), dim=2).flatten(1)
    own, start = rows.chunk(2, dim=1)
    found = similarity_divergence(rows, None, scale=scale)
    torch.testing.assert_close(found, slowly(own, start, scale=scale), rtol=1e-10, atol=1e-14)
    pairs = similarity_divergence(rows[:3], rows[3:], scale=scale)
    ours = (scale * own[:3] @ own[3:].T).softmax(1)
    told = (scale * start[:3] @ start[3:].T).softmax(1)
    torch.testing.assert_close(pairs, (told * (told / ours).log()).sum(1).mean(), rtol=1e-10, atol=1e-14)


def test_a_model_at_its_start_is_held_by_nothing() -> None:
    start = torch.randn(6, 4, dtype=torch.float64)
    rows = torch.cat([start.clone().requires_grad_(), start], dim=1).detach().requires_grad_()
    loss = similarity_divergence(rows, None, scale=3.0)
    (gradient,) = torch.autograd.grad(loss, rows)
    assert loss.item() == pytest.approx(0.0, abs=1e-14) and gradient.abs().max() < 1e-14


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return prepare(tmp_path_factory.mktemp("hold"), dropout=0.0)


@pytest.mark.parametrize("gradient_cache", ["always", "never"])
@pytest.mark.parametrize("name", ["condenser", "cocondenser"])
def test_its_gradient_is_that_of_the_whole_batch_at_once(
    files: Files, name: str, gradient_cache: str
) -> None:
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(files.backbone)
    settings = {**OBJECTIVES[name], "gradient_cache": gradient_cache, "hold_weight": 0.7}
    training = kinds.load("objectives", name).training(files.backbone, shards, tokenizer, settings, seed=1)
    model = training.model.double().train()
    with torch.no_grad():  # else the model is its start, and nothing is held
        generator = torch.Generator().manual_seed(2)
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator, dtype=torch.float64)
    epoch, _, items = step_items(training.num_items, batch_size=6, step=0, seed=1, stream=name)
    groups = training.texts(items, epoch)
    texts = masked_texts(
        shards, groups, tokenizer=tokenizer, mask_probability=0.15, rows_per_chunk=4, seed=1,
        epoch=epoch, step=0, processes=alone(CPU),
    )  # fmt: skip
    figures = _backward(training, alone(CPU), precision="fp32")(texts, 0, 1.0)
    cached = gradients(model)

    start = Retriever.load(files.backbone, dropout=None).eval()
    (group,) = texts.num_rows
    own: dict[int, torch.Tensor] = {}
    told: dict[int, torch.Tensor] = {}
    total = torch.zeros((), dtype=torch.float64)
    for chunk in texts.chunks:
        inputs = chunk.inputs
        vectors, losses = training.losses(inputs)
        assert vectors is not None
        with torch.no_grad():
            starts = start(inputs.input_ids, inputs.attention_mask).double()
        for place, row in enumerate(chunk.rows.tolist()):
            own[row], told[row] = vectors[place], starts[place]
        for part, weight in training.loss_weights.items():
            total = total + weight * losses[part] / texts.num_masked
    order = range(texts.num_rows[group])
    ours, theirs = (torch.stack([vectors[row] for row in order]) for vectors in (own, told))
    held = slowly(ours, theirs, scale=1.0)
    contrast = span_contrastive_loss(ours) if name == "cocondenser" else torch.zeros(())
    total = total + contrast + 0.7 * held
    model.zero_grad(set_to_none=True)
    total.backward()
    assert figures["hold"] == pytest.approx(held.item(), rel=1e-6) and held.item() > 1e-6
    assert figures["loss"] == pytest.approx(total.item(), rel=1e-9)
    expected = gradients(model)
    assert cached.keys() == expected.keys() and len(cached) > 20
    for parameter, gradient in expected.items():
        torch.testing.assert_close(cached[parameter], gradient, rtol=1e-6, atol=1e-9, msg=parameter)


def gradients(model: Any) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def test_the_start_is_not_trained_and_not_read_without_a_weight(files: Files, tmp_path: Path) -> None:
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(files.backbone)
    make = kinds.load("objectives", "condenser").training
    settings = {**OBJECTIVES["condenser"], "hold_weight": 0.0}
    assert make(files.backbone, shards, tokenizer, settings, seed=1).start is None
    training = make(files.backbone, shards, tokenizer, {**settings, "hold_weight": 1.0}, seed=1)
    names = {name for name, _ in training.model.named_parameters()}
    assert not any("start" in name for name in names) and np.isfinite(training.hold_weight)
