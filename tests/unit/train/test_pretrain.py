from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_trainings import OBJECTIVES, SHAPE, Files, losses, prepare, settings_of, train, training
from token_shards import hand_made_shards

from condenser import kinds
from condenser.data.randomness import stream_key
from condenser.data.tokens import Tokenizer, TokenShards, write_token_shard
from condenser.loss.contrastive import in_batch_loss, span_contrastive_loss
from condenser.model.pretraining import Condenser
from condenser.model.text_vector import TextVector, write_text_vector
from condenser.train.distributed import Processes, alone
from condenser.train.masked_texts import MaskedTexts, Stretches, masked_texts
from condenser.train.memory import graph_bytes
from condenser.train.pretrain import Training

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return prepare(tmp_path_factory.mktemp("pretrain"), dropout=0.1)


def objective(
    files: Files, kind: str, *, initial: Path | None = None, seed: int = 1, **changes: Any
) -> Training:
    """What an objective gives."""
    initial = initial or files.backbone
    settings = settings_of(kind, {**OBJECTIVES[kind], **changes})
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(initial)
    return kinds.load("objectives", kind).training(initial, shards, tokenizer, settings, seed=seed)


def masked(
    shards: TokenShards, groups: dict[str, Stretches], tokenizer: Tokenizer, **changes: Any
) -> MaskedTexts:
    """Texts of one step, masked."""
    settings = {"mask_probability": 0.15, "rows_per_chunk": 2, "seed": 1, "epoch": 0, "step": 3}
    processes = changes.pop("processes", alone(CPU))
    return masked_texts(shards, groups, tokenizer=tokenizer, processes=processes, **{**settings, **changes})


def test_the_logged_loss_is_the_weighted_sum_of_its_parts(files: Files, tmp_path: Path) -> None:
    train("condenser", files, tmp_path / "a", late_mlm_weight=0.25, updates=1)
    (record,) = losses(tmp_path / "a")
    assert record["loss"] == pytest.approx(record["head_mlm"] + 0.25 * record["late_mlm"])
    weights = {"mlm_weight": 3.0, "late_mlm_weight": 0.5, "contrastive_weight": 2.0}
    train("cocondenser", files, tmp_path / "b", **weights, updates=1)
    (record,) = losses(tmp_path / "b")
    mlm = record["head_mlm"] + 0.5 * record["late_mlm"]
    assert record["loss"] == pytest.approx(3 * mlm + 2 * record["contrastive"])


def new_head(files: Files) -> Condenser:
    return Condenser.load(
        files.backbone, num_head_layers=1, skip_from=1, use_late_mlm=True, missing_head="random", seed=42,
        dropout=None,
    )  # fmt: skip


def test_a_part_of_weight_zero_is_left_out(files: Files, tmp_path: Path) -> None:
    train("condenser", files, tmp_path / "a", late_mlm_weight=0.0, updates=1)
    assert "late_mlm" not in losses(tmp_path / "a")[0]
    train("cocondenser", files, tmp_path / "b", mlm_weight=0.0, updates=2)
    assert all(record["loss"] == record["contrastive"] for record in losses(tmp_path / "b"))
    untrained = new_head(files).head.state_dict()
    for name, weight in load_file(tmp_path / "b" / "condenser_head.safetensors").items():
        assert torch.equal(weight, untrained[name])


def test_head_and_contrast_are_left_out_one_by_one(files: Files, tmp_path: Path) -> None:
    no_head = {"new_head": {"skip_from": None, "num_head_layers": 0}}
    forms: list[tuple[dict[str, Any], list[str]]] = [
        ({**no_head, "contrastive_weight": 0.0}, ["late_mlm"]),
        (no_head, ["contrastive", "late_mlm"]),
        ({"contrastive_weight": 0.0}, ["head_mlm", "late_mlm"]),
        ({}, ["contrastive", "head_mlm", "late_mlm"]),
    ]
    parts = []
    for number, (settings, expected) in enumerate(forms):
        output = tmp_path / str(number)
        train("cocondenser", files, output, updates=1, **settings)
        parts.append(losses(output)[0])
        assert sorted({*parts[-1]} & {"head_mlm", "late_mlm", "contrastive"}) == expected
        assert (output / "condenser_head.safetensors").exists() == ("head_mlm" in expected)
        assert (output / "mlm_head.safetensors").exists()
    # the same spans, masks and first weights in all four
    first = [part["late_mlm"] for part in parts]
    assert first == pytest.approx([first[0]] * 4, rel=1e-6)
    assert parts[1]["contrastive"] == pytest.approx(parts[3]["contrastive"], rel=1e-6)


@pytest.mark.parametrize(
    ("kind", "groups"), [("cocondenser", {"spans": 6}), ("ict", {"queries": 3, "passages": 3})]
)
def test_similarities_are_scaled_as_the_vector_says_unless_a_setting_says_otherwise(
    files: Files, tmp_path: Path, kind: str, groups: dict[str, int]
) -> None:
    backbone = shutil.copytree(files.backbone, tmp_path / "backbone")
    write_text_vector(TextVector("mean", normalised=True), backbone, dim=SHAPE["hidden_size"])
    generator = torch.Generator().manual_seed(1)
    vectors = {name: torch.randn(count, 8, generator=generator) for name, count in groups.items()}
    loss = span_contrastive_loss if kind == "cocondenser" else in_batch_loss
    cosines = {"initial": backbone}
    for given, scale, expected in ((cosines, None, 20.0), (cosines, 3.0, 3.0), ({}, None, 1.0)):
        made = objective(files, kind, scale=scale, **given)
        assert made.contrast is not None
        assert made.contrast(**vectors) == loss(*vectors.values(), scale=expected)


def test_each_span_has_a_mask_of_its_own_and_other_places_in_another_epoch(files: Files) -> None:
    made = objective(files, "cocondenser")
    first, second = (made.texts(np.array([3, 0]), epoch)["spans"] for epoch in (0, 1))
    assert first.positions.tolist() == second.positions.tolist() == [6, 7, 0, 1]
    assert first.starts.tolist() != second.starts.tolist()


@pytest.mark.parametrize("kind", ["condenser", "cocondenser"])
def test_a_missing_head_is_reported_and_drawn_by_the_seed_in_the_shape_that_is_asked_for(
    files: Files, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What the head reads: tests/reference/test_condenser.py."""
    shape = {"skip_from": 2, "num_head_layers": 3}
    changes = shape if kind == "condenser" else {"new_head": shape}
    with caplog.at_level(logging.INFO):
        models = [objective(files, kind, seed=seed, **changes).model for seed in (1, 1, 2)]
    assert "has no Condenser head" in caplog.text
    assert {(model.skip_from, len(model.head)) for model in models} == {(2, 3)}
    first, again, other = (model.head[0].state_dict()["attention.output.dense.weight"] for model in models)
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_the_graphs_of_a_batch_need_more_memory_the_longer_and_the_more_its_rows_are(files: Files) -> None:
    model, shards, tokenizer = new_head(files), TokenShards(files.tokens), Tokenizer(files.backbone)

    def needed(num_rows: int, num_tokens: int) -> int:
        rows = np.arange(num_rows)
        groups = {"spans": Stretches(rows * 5, np.full(num_rows, num_tokens), positions=rows)}
        texts = masked(shards, groups, tokenizer, rows_per_chunk=16)
        return graph_bytes(texts.chunks, model)

    assert needed(32, 14) == pytest.approx(2 * needed(16, 14), rel=0.2)
    assert needed(32, 30) > 2 * needed(32, 14)


def test_further_pretraining_without_a_condenser_head_is_refused(files: Files, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="condenser_head"):
        train("cocondenser", files, tmp_path / "out", new_head=None)
    assert not (tmp_path / "out").exists()


def test_further_pretraining_begins_with_the_head_of_the_first_rule(files: Files, tmp_path: Path) -> None:
    train("condenser", files, tmp_path / "first", updates=2)
    # one step, all of it warm-up: its learning rate is 0, so nothing moves
    settings = {"updates": 1, "warmup_ratio": 1.0, "new_head": None}
    train("cocondenser", files, tmp_path / "second", initial=tmp_path / "first", **settings)
    for name in ("model.safetensors", "mlm_head.safetensors", "condenser_head.safetensors"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_chunks_of_several_groups_are_numbered_on_and_dealt_in_turn(files: Files, world_size: int) -> None:
    """The numbers decide on dropout, so no chunk of a step shares one with another."""
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(files.backbone)
    groups = {
        "queries": Stretches(shards.row_starts[:5], np.array([6, 3, 5, 2, 4]), positions=np.arange(5)),
        "passages": Stretches(shards.row_starts[20:27], np.arange(10, 3, -1), positions=np.arange(20, 27)),
    }
    # three chunks of queries, four of passages, the longest rows first
    expected = [
        *(("queries", rows) for rows in ([0, 2], [4, 1], [3])),
        *(("passages", rows) for rows in ([0, 1], [2, 3], [4, 5], [6])),
    ]
    seeds = [stream_key(1, "dropout of step 3", number) for number in range(7)]
    num_masked = sum(len(chunk.inputs.labels) for chunk in masked(shards, groups, tokenizer).chunks)
    assert num_masked > 0
    for rank in range(world_size):
        texts = masked(shards, groups, tokenizer, processes=Processes(rank, world_size, CPU))
        assert texts.num_masked == num_masked
        assert texts.num_rows == {"queries": 5, "passages": 7}
        assert [(chunk.group, chunk.rows.tolist()) for chunk in texts.chunks] == expected[rank::world_size]
        assert [chunk.seed for chunk in texts.chunks] == seeds[rank::world_size]


def test_a_mask_depends_on_seed_and_epoch_and_not_on_step_or_group(files: Files) -> None:
    """Nor on the chunk: tests/reference/test_training_steps.py masks whole batches."""
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(files.backbone)
    texts = Stretches(shards.row_starts[:7], np.full(7, 10), positions=np.arange(7))

    def ids(group: str = "spans", **changes: int) -> list[int]:
        (chunk,) = masked(shards, {group: texts}, tokenizer, rows_per_chunk=7, **changes).chunks
        return chunk.inputs.rows.ids.tolist()

    assert ids() == ids("blocks", step=9)
    assert ids() != ids(seed=2) and ids() != ids(epoch=1)


def test_a_long_text_has_more_masks_than_the_twenty_of_bert(files: Files, tmp_path: Path) -> None:
    tokenizer = Tokenizer(files.backbone)
    word = next(word for word in tokenizer.random_ids.tolist() if not tokenizer.is_continuation[word])
    shards = hand_made_shards(tmp_path, [[[], [word] * 200]])
    stretch = Stretches(np.array([0]), np.array([200]), positions=np.array([0]))
    assert masked(shards, {"blocks": stretch}, tokenizer).num_masked == 0.15 * 200


def _collection_of(texts: list[str], folder: Path, files: Files) -> dict[str, Any]:
    """A few texts for `train`; their first token shard is empty."""
    prefixes = [folder / "collection.0-of-2", folder / "collection.1-of-2"]
    for prefix, part in zip(prefixes, ([], texts), strict=True):
        rows = [("title", text) for text in part]
        write_token_shard(rows, prefix, Tokenizer(files.backbone), batch_size=8, split=True)
    (folder / "doc_ids.txt").write_text("".join(f"d{number}\n" for number in range(len(texts))))
    return {"token_prefixes": prefixes, "doc_ids": folder / "doc_ids.txt"}


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("condenser", "", r"got none in 1 rows \(rows_without_text 1, blocks 0, .*\)\. Name longer"),
        ("cocondenser", "salt", r"Lower min_span_tokens, name longer texts by the key documents of the data"),
        ("cocondenser", "salt " * 9, "expected at least 2 documents of 8 tokens or more, got 1 among 1"),
    ],
)
def test_a_collection_with_too_little_text_is_refused_with_a_way_on(
    files: Files, tmp_path: Path, kind: str, text: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        training(kind, files, tmp_path / "out", **_collection_of([text], tmp_path, files))


def test_the_smallest_collections_are_trained_on(files: Files, tmp_path: Path) -> None:
    """Of three documents the last batch has one, without negatives: its contrastive loss is zero."""
    texts = [passage.text for passage in files.passages][:3]
    for name in ("one", "three"):
        (tmp_path / name).mkdir()
    one = _collection_of(texts[:1], tmp_path / "one", files)
    assert train("condenser", files, tmp_path / "condenser", **one)["rows"] == 1
    three = _collection_of(texts, tmp_path / "three", files)
    train("cocondenser", files, tmp_path / "cocondenser", **three, batch_size=2)
    first, last = losses(tmp_path / "cocondenser")
    assert (first["items"], last["items"]) == (2, 1)
    assert first["contrastive"] > 0 and last["contrastive"] == 0
    assert last["outcome"] == "updated"
