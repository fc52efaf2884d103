"""Our losses, gradients and updates against numbers of the authors' own code of 2021.

`authors.safetensors` has tiny weights, batches, and what luyug/Condenser, luyug/GradCache and luyug/Dense
computed from them in float64, without dropout. benchmarks/parity/frozen.py makes the file and says what each
tensor is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from small_trainings import Files, compute_twice, prepare, training
from torch import Tensor, nn

from condenser.encoders import BertConfig
from condenser.model.bert import Bert
from condenser.model.mlm_head import MaskedLanguageHead
from condenser.model.pretraining import Condenser
from condenser.model.rows import Rows
from condenser.train import loop
from condenser.train.chunks import Chunk
from condenser.train.masked_texts import MaskedRows, MaskedTexts
from condenser.train.vectors import BatchTexts, TextRows

with safe_open(Path(__file__).with_name("authors.safetensors"), framework="pt") as file:
    AUTHORS: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    ORIGIN: dict[str, Any] = json.loads(file.metadata()["origin"])
HEAD: dict[str, int] = ORIGIN["head"]
NAMES = sorted(name.removeprefix("weight/") for name in AUTHORS if name.startswith("weight/"))

# Another order of summation (another processor or PyTorch) changes a gradient by some 1e-15. The sum in one
# direction can be a thousand times smaller than its terms. An update divides by the size of the gradient: the
# bias of a key, whose gradient is 0 but for rounding, moves by 1e-13.
ROUNDING = {"rel": 1e-10, "abs": 1e-11}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return prepare(tmp_path_factory.mktemp("authors"), dropout=0.0)


@pytest.fixture(scope="module")
def initial(files: Files) -> Path:
    """A folder with the frozen weights, from which a training starts."""
    config = BertConfig(**ORIGIN["config"])
    model = Condenser(Bert(config), MaskedLanguageHead(config), use_late_mlm=True, seed=0, **HEAD)
    with torch.no_grad():
        for name, weight in named_as_theirs(model):
            weight.copy_(AUTHORS[f"weight/{name}"])
    model.save(files.root / "initial", files.backbone)
    return files.root / "initial"


def named_as_theirs(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """The weights of a Condenser or a retriever under the names of the authors' Condenser."""
    parts = {"backbone": "lm.bert", "mlm_head": "lm.cls.predictions", "head": "c_head"}
    for name, weight in model.named_parameters():
        part, _, rest = name.partition(".")
        if f"{parts[part]}.{rest}" in NAMES:  # theirs has no pooler
            yield f"{parts[part]}.{rest}", weight


def assert_equal_in_one_direction(values: Mapping[str, Tensor | None], check: str) -> None:
    """Compare of each weight the sum of entry k times cos(k), as in frozen.py; 0 without a value."""
    sums = dict.fromkeys(NAMES, 0.0)
    for name, value in values.items():
        if value is not None:
            sums[name] = float(value.flatten() @ torch.arange(value.numel()).double().cos())
    theirs = zip(NAMES, AUTHORS[f"{check}/gradients"].tolist(), strict=True)
    assert sums == pytest.approx(dict(theirs), **ROUNDING)


def rows_in_chunks(batch: str, texts: slice = slice(None)) -> Iterator[tuple[Tensor, Rows]]:
    """Some texts of a frozen batch, five at a time: their places, and they without their padding."""
    ids = AUTHORS[f"{batch}/input_ids"][texts].long().numpy()
    for places in torch.arange(len(ids)).split(5):
        of_chunk = ids[places.numpy()]
        yield places, Rows.of(of_chunk, (of_chunk != 0).sum(axis=1))  # 0 is [PAD]


def masked_batch(batch: str, group: str, texts: slice = slice(None)) -> MaskedTexts:
    """Some texts of a frozen batch with their masked tokens, under the group's name of our objective."""
    labels, chunks = AUTHORS[f"{batch}/labels"][texts].long().numpy(), []
    for number, (places, rows) in enumerate(rows_in_chunks(batch, texts)):
        of_chunk = labels[places.numpy()]
        masked = np.nonzero(of_chunk >= 0)
        inputs = MaskedRows(rows, rows.chosen(*masked), torch.from_numpy(of_chunk[masked]))
        chunks.append(Chunk(group, places, inputs, number))
    return MaskedTexts(chunks, {group: len(labels)}, int((labels >= 0).sum()))


def retriever_batch(trainable: loop.Trainable[BatchTexts]) -> BatchTexts:
    """The frozen queries and passages, with the loss of a batch of the training's own."""
    num_rows = {group: len(AUTHORS[f"{group}/input_ids"]) for group in ("queries", "passages")}
    chunks = [
        Chunk(group, places, TextRows(rows, rows.first.tokens), 0)
        for group in num_rows
        for places, rows in rows_in_chunks(group)
    ]
    return replace(trainable.prepare(0).content, chunks=chunks, num_rows=num_rows)


SPANS = {"new_head": None, "mlm_weight": 1.0}  # with the head of the folder
CHECKS = [  # the frozen numbers, our training, and its settings
    ("condenser", "condenser", HEAD),
    ("cocondenser", "cocondenser", SPANS | {"gradient_cache": "never"}),
    # with the cache, theirs weighs the MLM losses 2
    ("cocondenser cached", "cocondenser", SPANS | {"gradient_cache": "always", "mlm_weight": 2.0}),
    ("contrast", "cocondenser", SPANS | {"gradient_cache": "always", "mlm_weight": 0.0}),
    ("retriever", "retriever", {}),
    ("retriever cached", "retriever", {}),
]


@pytest.mark.parametrize(("check", "kind", "settings"), CHECKS, ids=[check for check, *_ in CHECKS])
def test_losses_and_gradients_are_those_of_the_authors_code(
    check: str, kind: str, settings: dict[str, Any], files: Files, initial: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if check == "retriever cached":
        compute_twice(monkeypatch)
    trainable, _ = training(kind, files, tmp_path / "model", initial=initial, **settings)
    model = trainable.model.double()
    groups = {"condenser": "blocks", "cocondenser": "spans"}
    batch: Any = masked_batch(kind, groups[kind]) if kind in groups else retriever_batch(trainable)
    figures = dict(trainable.backward(batch, 1.0))
    figures["mlm"] = figures.get("head_mlm", 0.0) + figures.get("late_mlm", 0.0)
    frozen = {name.removeprefix(f"{check}/"): value for name, value in AUTHORS.items() if value.dim() == 0}
    theirs = {name: value.item() for name, value in frozen.items() if "/" not in name}
    assert {name: figures[name] for name in theirs} == pytest.approx(theirs, **ROUNDING)
    assert_equal_in_one_direction({name: weight.grad for name, weight in named_as_theirs(model)}, check)


def test_ten_updates_are_those_of_the_authors_trainer(files: Files, initial: Path, tmp_path: Path) -> None:
    records: list[loop.StepRecord] = []
    settings = {**HEAD, **ORIGIN["optimiser"], "batch_size": 6, "updates": 10}
    trainable, run = training(
        "condenser", files, tmp_path / "model", initial=initial, on_step=records.append, **settings
    )
    model = trainable.model.double()
    before = {name: weight.detach().clone() for name, weight in named_as_theirs(model)}

    def prepare_step(step: int) -> loop.Batch[MaskedTexts]:
        texts = masked_batch("steps", "blocks", slice(6 * step, 6 * step + 6))
        return loop.Batch(texts, epoch=0, num_items=6, num_tokens=0, ids=dict, num_in_epoch=6)

    loop.train(replace(trainable, prepare=prepare_step), run)
    figures = [(record.losses["loss"], record.grad_norm, record.learning_rate) for record in records]
    theirs = torch.stack([AUTHORS[f"steps/{name}"] for name in ("losses", "norms", "rates")], dim=1)
    np.testing.assert_allclose(figures, theirs, rtol=ROUNDING["rel"])
    moved = {name: weight.detach() - before[name] for name, weight in named_as_theirs(model)}
    assert_equal_in_one_direction(moved, "steps")
