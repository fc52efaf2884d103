"""Masked language modelling alone: its loss and gradient against transformers' own model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from small_models import meant, padded, transformers_config
from small_trainings import MLM, Files, prepare, settings_of
from transformers import BertForMaskedLM

from condenser.data.batches import step_items
from condenser.data.blocks import block_windows, pack_blocks
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.objectives import mlm
from condenser.train.distributed import alone
from condenser.train.masked_texts import masked_texts
from condenser.train.pretrain import _backward

READ: Any = settings_of("mlm", MLM)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return prepare(tmp_path_factory.mktemp("mlm"), dropout=0.0)


def reference(model: mlm.MaskedLanguageModel) -> BertForMaskedLM:  # type: ignore[name-defined]
    """transformers' masked language model with the same weights."""
    theirs = BertForMaskedLM(transformers_config(model.backbone.config))
    theirs.bert.load_state_dict(
        {name: value for name, value in model.backbone.state_dict().items() if not name.startswith("pooler")}
    )
    theirs.cls.predictions.transform.load_state_dict(model.mlm_head.transform.state_dict())
    with torch.no_grad():
        theirs.cls.predictions.bias.copy_(model.mlm_head.bias)
        theirs.cls.predictions.decoder.bias.copy_(model.mlm_head.bias)
    return theirs.double().train()


def test_loss_and_gradient_are_those_of_transformers_model(files: Files) -> None:
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(files.backbone)
    training = mlm.training(files.backbone, shards, tokenizer, READ, seed=1)
    model = training.model.double().train()
    theirs = reference(model)
    processes = alone(torch.device("cpu"))
    epoch, _, items = step_items(training.num_items, batch_size=8, step=0, seed=1, stream="mlm")
    common = {"tokenizer": tokenizer, "mask_probability": 0.15, "seed": 1, "epoch": epoch, "step": 0}
    texts = masked_texts(
        shards, training.texts(items, epoch), rows_per_chunk=3, processes=processes, **common
    )
    figures = _backward(training, processes, precision="fp32")(texts, 1.0)

    whole = masked_texts(
        shards, training.texts(items, epoch), rows_per_chunk=8, processes=processes, **common
    )
    (chunk,) = whole.chunks
    rows = chunk.inputs.rows
    ids, mask = padded(rows)
    of_tokens = torch.full(rows.ids.shape, -100)
    of_tokens[meant(chunk.inputs.masked.tokens, chunk.inputs.masked.layout)] = chunk.inputs.labels
    labels = torch.full(ids.shape, -100)
    labels[mask] = meant(of_tokens, rows.layout)
    loss = theirs(input_ids=ids, attention_mask=mask.long(), labels=labels).loss
    loss.backward()
    assert figures["loss"] == figures["mlm"] == pytest.approx(loss.item(), rel=1e-10)
    ours = dict(model.backbone.named_parameters())
    compared = 0
    for name, weight in theirs.bert.named_parameters():
        if weight.grad is not None:
            torch.testing.assert_close(ours[name].grad, weight.grad, rtol=1e-8, atol=1e-12)
            compared += 1
    assert compared > 20
    np.testing.assert_allclose(
        model.mlm_head.bias.grad, theirs.cls.predictions.bias.grad, rtol=1e-8, atol=1e-12
    )


def test_a_block_has_a_mask_of_its_own_and_if_it_is_too_long_a_window_of_each_epoch(files: Files) -> None:
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(files.backbone)
    settings = settings_of("mlm", {**MLM, "max_tokens": 5})
    training = mlm.training(files.backbone, shards, tokenizer, settings, seed=3)
    blocks = pack_blocks(shards, max_tokens=5, short_probability=0.1, seed=3)
    assert training.counts["blocks_cut_to_a_window"] > 10
    items, windows = np.arange(training.num_items), []
    for epoch in range(2):
        texts = training.texts(items, epoch)["blocks"]
        assert (texts.positions == items).all()  # the mask of a block is drawn by them
        windows.append(texts.starts)
        expected, _ = block_windows(blocks, items, max_tokens=5, seed=3, epoch=epoch)
        assert (windows[-1] == expected).all()
    assert (windows[0] != windows[1]).any()
