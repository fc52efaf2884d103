from __future__ import annotations

import logging
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_models import full_rows, meant
from small_trainings import (
    COCONDENSER,
    CONDENSER,
    OPTIMISER,
    SHAPE,
    Files,
    contents,
    losses,
    prepare,
    run_of,
    settings_of,
    train,
)
from token_shards import hand_made_shards
from transformers import AutoModel, AutoTokenizer

from condenser import kinds
from condenser.data.batches import step_items
from condenser.data.blocks import pack_blocks
from condenser.data.randomness import stream_key
from condenser.data.spans import span_documents
from condenser.data.tokens import Tokenizer, TokenShards, write_token_shard
from condenser.files import read_json
from condenser.loss.contrastive import in_batch_loss, span_contrastive_loss
from condenser.model.pretraining import Condenser
from condenser.model.retriever import Retriever
from condenser.model.text_vector import TextVector, write_text_vector
from condenser.objectives.ict import Contexts
from condenser.train.checkpoint import load_newest_checkpoint
from condenser.train.distributed import Processes, alone
from condenser.train.loop import BAD_BATCH_NAME, train_to_folder
from condenser.train.masked_texts import MaskedTexts, Stretches, Texts, masked_texts
from condenser.train.memory import graph_bytes
from condenser.train.pretrain import Training, pretraining

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return prepare(tmp_path_factory.mktemp("pretrain"), dropout=0.1)


def masked(
    shards: TokenShards, groups: dict[str, Stretches], tokenizer: Tokenizer, **changes: Any
) -> MaskedTexts:
    """Texts of one step, masked."""
    settings = {"mask_probability": 0.15, "rows_per_chunk": 2, "seed": 1, "epoch": 0, "step": 3}
    processes = changes.pop("processes", alone(CPU))
    return masked_texts(shards, groups, tokenizer=tokenizer, processes=processes, **{**settings, **changes})


@pytest.mark.parametrize("kind", ["condenser", "cocondenser"])
def test_a_pretrained_folder_holds_backbone_heads_and_losses_and_loads_without_our_code(
    files: Files, tmp_path: Path, kind: str
) -> None:
    output = tmp_path / kind
    counts = train(kind, files, output)
    assert {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "mlm_head.safetensors",
        "condenser_head.safetensors",
        "losses.jsonl",
    } <= set(contents(output))
    model, loading = AutoModel.from_pretrained(output, output_loading_info=True)
    assert not loading["missing_keys"] and not loading["unexpected_keys"]
    assert AutoTokenizer.from_pretrained(output)("a word")["input_ids"]
    before = load_file(files.backbone / "model.safetensors")
    moved = {name for name, weight in model.state_dict().items() if not torch.equal(weight, before[name])}
    assert moved == {name for name in before if not name.startswith("pooler.")}
    assert counts["steps"] == len(losses(output))


@pytest.mark.ci  # its steps are those of the equations: tests/reference/test_training_steps.py
def test_the_losses_of_a_tiny_collection_fall(files: Files, tmp_path: Path) -> None:
    def fall(output: Path, name: str) -> tuple[float, float]:
        values = [record[name] for record in losses(output)]
        return float(np.mean(values[:3])), float(np.mean(values[-8:]))

    train("condenser", files, tmp_path / "condenser", epochs=4)
    for name in ("head_mlm", "late_mlm"):
        first, last = fall(tmp_path / "condenser", name)
        assert first == pytest.approx(math.log(SHAPE["vocab_size"]), abs=0.3)  # knows nothing yet
        assert last < first - 0.5, (name, first, last)


def test_the_logged_loss_is_the_weighted_sum_of_its_parts(files: Files, tmp_path: Path) -> None:
    train("condenser", files, tmp_path / "a", late_mlm_weight=0.25, epochs=0.2)
    for record in losses(tmp_path / "a"):
        assert record["loss"] == pytest.approx(record["head_mlm"] + 0.25 * record["late_mlm"])
    train("cocondenser", files, tmp_path / "b", mlm_weight=3.0, late_mlm_weight=0.5, contrastive_weight=2.0)
    for record in losses(tmp_path / "b"):
        mlm = record["head_mlm"] + 0.5 * record["late_mlm"]
        assert record["loss"] == pytest.approx(3 * mlm + 2 * record["contrastive"])


def test_the_encoder_that_is_written_is_a_mean_of_trained_and_first_weights(
    files: Files, tmp_path: Path
) -> None:
    train("condenser", files, tmp_path / "trained", epochs=0.2)
    train("condenser", files, tmp_path / "mean", epochs=0.2, initial_share=0.25)
    first, trained, mean = (
        load_file(folder / "model.safetensors")
        for folder in (files.backbone, tmp_path / "trained", tmp_path / "mean")
    )
    assert mean.keys() == trained.keys()
    for name, weight in trained.items():
        torch.testing.assert_close(mean[name], 0.75 * weight + 0.25 * first[name])
    moved = [name for name, weight in trained.items() if not torch.equal(mean[name], weight)]
    assert len(moved) > 20
    head, other = (tmp_path / folder / "condenser_head.safetensors" for folder in ("trained", "mean"))
    assert head.read_bytes() == other.read_bytes()  # it was new: there is nothing to keep


def test_a_part_of_weight_zero_is_left_out(files: Files, tmp_path: Path) -> None:
    train("condenser", files, tmp_path / "a", late_mlm_weight=0.0, epochs=0.2)
    assert "late_mlm" not in losses(tmp_path / "a")[0]
    train("cocondenser", files, tmp_path / "b", mlm_weight=0.0)
    assert all(record["loss"] == record["contrastive"] for record in losses(tmp_path / "b"))
    head = load_file(tmp_path / "b" / "condenser_head.safetensors")
    untrained = Condenser.load(
        files.backbone,
        num_head_layers=1,
        skip_from=1,
        use_late_mlm=True,
        missing_head="random",
        seed=42,
        dropout=None,
    ).head.state_dict()
    assert all(torch.equal(weight, untrained[name]) for name, weight in head.items())


def test_head_and_contrast_are_left_out_one_by_one(files: Files, tmp_path: Path) -> None:
    no_head = {"new_head": {"skip_from": None, "num_head_layers": 0}}
    forms = {
        "mlm": {**no_head, "contrastive_weight": 0.0},
        "contrast": no_head,
        "condenser": {"contrastive_weight": 0.0},
        "cocondenser": {},
    }
    parts = {}
    for name, settings in forms.items():
        train("cocondenser", files, tmp_path / name, epochs=0.4, **settings)
        parts[name] = losses(tmp_path / name)[0]
        assert (tmp_path / name / "condenser_head.safetensors").exists() == (
            name in ("condenser", "cocondenser")
        )
        assert (tmp_path / name / "mlm_head.safetensors").exists()
    assert {
        name: sorted({*part} & {"head_mlm", "late_mlm", "contrastive"}) for name, part in parts.items()
    } == {
        "mlm": ["late_mlm"],
        "contrast": ["contrastive", "late_mlm"],
        "condenser": ["head_mlm", "late_mlm"],
        "cocondenser": ["contrastive", "head_mlm", "late_mlm"],
    }
    # the same spans, masks and first weights in all four
    first = [part["late_mlm"] for part in parts.values()]
    assert first == pytest.approx([first[0]] * 4, rel=1e-6)
    assert parts["contrast"]["contrastive"] == pytest.approx(parts["cocondenser"]["contrastive"], rel=1e-6)


@pytest.mark.parametrize(
    ("kind", "settings", "groups"),
    [
        ("cocondenser", COCONDENSER, {"spans": 6}),
        (
            "ict",
            {
                **{"max_sentence_tokens": 6, "max_tokens": 12, "remove_probability": 0.9, "scale": None},
                **{"gradient_cache": "always", "memory_gb": 1.0},
            },
            {"queries": 3, "passages": 3},
        ),
    ],
)
def test_similarities_are_scaled_as_the_vector_says_unless_a_setting_says_otherwise(
    files: Files, tmp_path: Path, kind: str, settings: dict[str, Any], groups: dict[str, int]
) -> None:
    backbone = shutil.copytree(files.backbone, tmp_path / "backbone")
    write_text_vector(TextVector("mean", normalised=True), backbone, dim=SHAPE["hidden_size"])
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(backbone)
    training = kinds.load("objectives", kind).training
    generator = torch.Generator().manual_seed(1)
    vectors = {name: torch.randn(count, 8, generator=generator) for name, count in groups.items()}
    loss = span_contrastive_loss if kind == "cocondenser" else in_batch_loss
    for scale, expected in ((None, 20.0), (3.0, 3.0)):
        made = training(backbone, shards, tokenizer, settings_of(kind, {**settings, "scale": scale}), seed=1)
        assert made.contrast(**vectors) == loss(*vectors.values(), scale=expected)
    plain = training(files.backbone, shards, tokenizer, settings_of(kind, settings), seed=1)
    assert plain.contrast(**vectors) == loss(*vectors.values(), scale=1.0)


def test_each_span_has_a_mask_of_its_own_and_other_places_in_another_epoch(files: Files) -> None:
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(files.backbone)
    training = kinds.load("objectives", "cocondenser").training
    made = training(files.backbone, shards, tokenizer, settings_of("cocondenser", COCONDENSER), seed=1)
    first, second = (made.texts(np.array([3, 0]), epoch)["spans"] for epoch in (0, 1))
    assert first.positions.tolist() == second.positions.tolist() == [6, 7, 0, 1]
    assert first.starts.tolist() != second.starts.tolist()


@pytest.mark.parametrize(("asked", "layer"), [(0, 0), (1, 1), (2, 2), (None, 1)])
@pytest.mark.parametrize("kind", ["condenser", "cocondenser"])
def test_the_head_reads_the_layer_that_skip_from_names(
    files: Files, kind: str, asked: int | None, layer: int
) -> None:
    head = {"skip_from": asked, "num_head_layers": 1}
    settings = CONDENSER | head if kind == "condenser" else COCONDENSER | {"new_head": head}
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(files.backbone)
    training = kinds.load("objectives", kind).training
    model = training(files.backbone, shards, tokenizer, settings_of(kind, settings), seed=1).model.eval()
    read: list[torch.Tensor] = []
    model.head[0].register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    ids = torch.tensor([[tokenizer.cls_id, 30, 40, 50, 60, 70, 80, tokenizer.sep_id]])
    rows = full_rows(ids)
    model(rows, rows.chosen(np.array([0]), np.array([2])))
    states = AutoModel.from_pretrained(files.backbone).eval()(ids, output_hidden_states=True).hidden_states
    torch.testing.assert_close(meant(read[0], rows.layout)[1:], states[layer][0, 1:], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("kind", "settings"), [("condenser", CONDENSER), ("cocondenser", COCONDENSER)])
def test_a_new_head_is_drawn_by_the_seed(files: Files, kind: str, settings: dict[str, Any]) -> None:
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(files.backbone)
    training = kinds.load("objectives", kind).training
    heads = [
        training(files.backbone, shards, tokenizer, settings_of(kind, settings), seed=seed).model.head
        for seed in (1, 1, 2)
    ]
    first, again, other = (head[0].state_dict()["attention.output.dense.weight"] for head in heads)
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_the_gradient_cache_changes_no_byte(files: Files, tmp_path: Path) -> None:
    for choice in ("always", "never", "auto"):
        train("cocondenser", files, tmp_path / choice, gradient_cache=choice, rows_per_chunk=3, epochs=0.4)
    assert contents(tmp_path / "always") == contents(tmp_path / "never") == contents(tmp_path / "auto")


def test_the_graphs_of_a_batch_need_more_memory_the_longer_and_the_more_its_rows_are(files: Files) -> None:
    model = Condenser.load(
        files.backbone,
        num_head_layers=1,
        skip_from=1,
        use_late_mlm=True,
        missing_head="random",
        seed=1,
        dropout=None,
    )
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(files.backbone)

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
    train("condenser", files, tmp_path / "first", epochs=0.2)
    # one epoch of one step, all of it warm-up: its learning rate is 0, so nothing moves
    settings = {"batch_size": 1000, "warmup_ratio": 1.0, "new_head": None}
    train("cocondenser", files, tmp_path / "second", initial=tmp_path / "first", **settings)
    for name in ("model.safetensors", "mlm_head.safetensors", "condenser_head.safetensors"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_every_block_is_seen_once_an_epoch_and_short_documents_are_counted(
    files: Files, tmp_path: Path
) -> None:
    counts = train("condenser", files, tmp_path / "a", epochs=2, batch_size=7)
    assert counts["items_seen"] == 2 * counts["blocks"]
    assert counts["steps"] == 2 * math.ceil(counts["blocks"] / 7)
    assert counts["rows"] == 60

    shards = TokenShards(files.tokens)
    lengths = np.diff(shards.row_starts) - shards.title_lengths
    least = int(np.median(lengths)) // 2
    counts = train("cocondenser", files, tmp_path / "b", min_span_tokens=least, span_tokens=[least, least])
    assert counts["documents_left_out"] == int((lengths < 2 * least).sum()) > 0
    assert counts["documents"] + counts["documents_left_out"] == 60


@pytest.mark.parametrize("kind", ["condenser", "cocondenser"])
def test_updates_are_those_of_the_epochs_that_they_come_to(
    files: Files, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Order, masks, spans, schedule and log follow the number of updates, whatever it was asked by."""
    caplog.set_level(logging.INFO)
    size = 1000 if kind == "condenser" else 30  # a collection of one batch, or two
    steps = train(kind, files, tmp_path / "epochs", epochs=3, batch_size=size)["steps"]
    asked = f"{kind}: {steps} updates, 3.00 epochs of "
    assert asked in caplog.text and " asked" not in caplog.text
    for name, length, reason in (
        ("number", {"epochs": None, "updates": steps}, ""),
        ("least", {"epochs": 0.1, "updates": {"least": steps, "most": None}}, "least"),
        ("most", {"epochs": 5, "updates": {"least": None, "most": steps}}, "most"),
    ):
        caplog.clear()
        counts = train(kind, files, tmp_path / name, batch_size=size, **length)
        assert contents(tmp_path / name) == contents(tmp_path / "epochs")
        assert counts["steps"] == len(losses(tmp_path / name)) == steps
        assert asked in caplog.text and (f"; at {reason} {steps} asked, epochs " in caplog.text) == bool(
            reason
        )
    assert [record["epoch"] for record in losses(tmp_path / "most")] == sorted([0, 1, 2] * (steps // 3))


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (
            "condenser",
            "",
            r"got none in 1 rows \(rows_without_text 1, blocks 0, .*\)\. Name longer texts by the",
        ),
        ("cocondenser", "salt", r"Lower min_span_tokens, name longer texts by the key documents of the data"),
    ],
)
def test_a_collection_without_text_is_refused_with_a_way_on(
    files: Files, tmp_path: Path, kind: str, text: str, said: str
) -> None:
    prefix = tmp_path / "empty"
    write_token_shard([("title", text)], prefix, Tokenizer(files.backbone), batch_size=1, split=True)
    with pytest.raises(ValueError, match=said):
        train(kind, files, tmp_path / "out", **_collection(tmp_path, [prefix], ["d1"]))


def test_the_seed_and_nothing_else_decides_the_result(files: Files, tmp_path: Path) -> None:
    torch.manual_seed(1)
    train("condenser", files, tmp_path / "a", epochs=0.2)
    torch.manual_seed(2)
    torch.rand(17)
    train("condenser", files, tmp_path / "b", epochs=0.2)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    train("condenser", files, tmp_path / "c", epochs=0.2, seed=43)
    assert contents(tmp_path / "a")["model.safetensors"] != contents(tmp_path / "c")["model.safetensors"]


def test_a_stretch_is_packed_between_cls_and_sep_and_padded_with_its_neighbours(files: Files) -> None:
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(files.backbone)
    starts, lengths = shards.row_starts[[3, 40, 7]] + 1, np.array([4, 9, 2])
    ids, whole = Stretches(starts, lengths, positions=np.arange(3)).pack(shards, np.array([2, 0]), tokenizer)
    assert whole.tolist() == [4, 6] and ids.shape == (2, 8)
    for row, stretch in enumerate((2, 0)):
        text = shards.read(starts[[stretch]], lengths[[stretch]], width=lengths[stretch], fill=-1)[0]
        expected = [tokenizer.cls_id, *text, tokenizer.sep_id]
        assert ids[row].tolist() == expected + [tokenizer.pad_id] * (8 - len(expected))


def _two_groups(shards: TokenShards) -> dict[str, Stretches]:
    """The first tokens of five rows, and the next ones of seven others, under other positions."""
    rows = {"queries": np.arange(5), "passages": np.arange(20, 27)}
    starts = {
        "queries": shards.row_starts[rows["queries"]],
        "passages": shards.row_starts[rows["passages"]] + 6,
    }
    lengths = {"queries": np.array([6, 3, 5, 2, 4]), "passages": np.arange(10, 3, -1)}
    return {name: Stretches(starts[name], lengths[name], positions=7 + rows[name]) for name in rows}


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_chunks_of_several_groups_are_numbered_on_and_dealt_in_turn(files: Files, world_size: int) -> None:
    """The numbers decide on dropout, so no chunk of a step shares one with another."""
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(files.backbone)
    groups = _two_groups(shards)
    # three chunks of queries, four of passages, the longest rows first
    expected = [
        *(("queries", rows) for rows in ([0, 2], [4, 1], [3])),
        *(("passages", rows) for rows in ([0, 1], [2, 3], [4, 5], [6])),
    ]
    seeds = [stream_key(1, "dropout of step 3", number) for number in range(7)]
    for rank in range(world_size):
        texts = masked(shards, groups, tokenizer, processes=Processes(rank, world_size, rank, CPU))
        assert texts.num_rows == {"queries": 5, "passages": 7}
        assert [(chunk.group, chunk.rows.tolist()) for chunk in texts.chunks] == expected[rank::world_size]
        assert [chunk.seed for chunk in texts.chunks] == seeds[rank::world_size]


def test_a_mask_depends_on_seed_epoch_and_position_and_not_on_group_or_chunk(files: Files) -> None:
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(files.backbone)
    groups = _two_groups(shards)
    alike = {"mask_probability": 0.4}

    def rows(texts: MaskedTexts, group: str) -> dict[int, list[int]]:
        return {
            row: ids.tolist()
            for chunk in texts.chunks
            if chunk.group == group
            for row, ids in zip(
                chunk.rows.tolist(),
                meant(chunk.inputs.rows.ids, chunk.inputs.rows.layout).split(
                    chunk.inputs.rows.lengths.tolist()
                ),
                strict=True,
            )
        }

    whole = masked(shards, groups, tokenizer, **alike)
    alone_in_large_chunks = masked(
        shards, {"other": groups["passages"]}, tokenizer, rows_per_chunk=7, step=9, **alike
    )
    groups["other"] = groups["passages"]
    assert rows(alone_in_large_chunks, "other") == rows(whole, "passages")
    for other in ({"seed": 2}, {"epoch": 1}):
        assert rows(masked(shards, groups, tokenizer, **alike, **other), "passages") != rows(
            whole, "passages"
        )
    elsewhere = replace(groups["passages"], positions=1 + groups["passages"].positions)
    assert rows(masked(shards, {"passages": elsewhere}, tokenizer, **alike), "passages") != rows(
        whole, "passages"
    )


def test_a_long_text_has_more_masks_than_the_twenty_of_bert(files: Files, tmp_path: Path) -> None:
    tokenizer = Tokenizer(files.backbone)
    word = next(word for word in tokenizer.random_ids.tolist() if not tokenizer.is_continuation[word])
    shards = hand_made_shards(tmp_path, [[[], [word] * 200]])
    stretch = Stretches(np.array([0]), np.array([200]), positions=np.array([0]))
    assert masked(shards, {"blocks": stretch}, tokenizer).num_masked == 0.15 * 200


def test_without_a_mask_probability_the_texts_stay_as_they_are(files: Files) -> None:
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(files.backbone)
    groups = _two_groups(shards)
    texts = masked(shards, groups, tokenizer, mask_probability=0.0)
    assert texts.num_masked == 0
    for chunk in texts.chunks:
        ids, whole = groups[chunk.group].pack(shards, chunk.rows.numpy(), tokenizer)
        rows = chunk.inputs.rows
        told = ids[np.arange(ids.shape[1]) < whole[:, None]]
        assert meant(rows.ids, rows.layout).tolist() == told.tolist()
        assert rows.lengths.tolist() == whole.tolist()
        assert len(chunk.inputs.masked.tokens) == len(chunk.inputs.labels) == 0


def _halves(
    initial: Path, shards: TokenShards, tokenizer: Tokenizer, settings: Any, *, seed: int
) -> Training:
    """An objective of two groups and no masks: find a document by four tokens of it, without a head."""
    model = Retriever.load(initial, dropout=None)
    starts = shards.row_starts[:-1] + shards.title_lengths

    def texts(items: np.ndarray, epoch: int) -> dict[str, Stretches]:
        four = np.full(len(items), 4)
        return {
            "queries": Stretches(starts[items], four, positions=items),
            "passages": Stretches(starts[(items + 1) % len(starts)] + 4, 2 * four, positions=items),
        }

    return Training(
        model=model,
        num_items=shards.num_rows,
        counts={"pairs": shards.num_rows},
        texts=texts,
        mask_probability=0.0,
        loss_weights={},
        losses=lambda texts: (model(texts.rows), {}),
        represent=model,
        contrast=in_batch_loss,
        contrastive_weight=settings.contrastive_weight,
        gradient_cache=settings.gradient_cache,
        memory_gb=1.0,
    )


def _pretrain_halves(files: Files, output: Path, **changes: Any) -> dict[str, int]:
    settings = {
        **OPTIMISER,
        **{"initial_share": 0.0, "batch_size": 16, "rows_per_chunk": 5, "epochs": 1},
        **{"contrastive_weight": 1.0, "gradient_cache": "always"},
    }
    run = run_of("halves", output, settings, **changes)
    trainable = pretraining(_halves, files.tokens, files.backbone, run, title="halves", doc_ids=files.doc_ids)
    return train_to_folder(trainable, run, output)


def test_texts_that_an_objective_makes_itself_have_what_a_batch_needs() -> None:
    rows = np.arange(3)
    assert isinstance(Stretches(rows, rows, rows), Texts)
    assert isinstance(Contexts(rows, rows, rows, rows, rows), Texts)


def test_an_objective_of_two_groups_is_trained_with_and_without_the_cache(
    files: Files, tmp_path: Path
) -> None:
    counts = _pretrain_halves(files, tmp_path / "always")
    _pretrain_halves(files, tmp_path / "never", gradient_cache="never")
    assert contents(tmp_path / "always") == contents(tmp_path / "never")
    assert counts["pairs"] == counts["items_seen"] == 60 and counts["steps"] == 4
    assert all(record["loss"] == record["contrastive"] for record in losses(tmp_path / "always"))
    # items, and for each 4 + 8 tokens with specials
    assert [record["tokens"] for record in losses(tmp_path / "always")] == [16 * 16] * 3 + [12 * 16]
    _pretrain_halves(files, tmp_path / "weighted", contrastive_weight=3.0, learning_rate=0.0)
    for record in losses(tmp_path / "weighted"):
        assert record["loss"] == pytest.approx(3 * record["contrastive"])


def test_an_objective_without_mlm_passes_the_head_of_its_initial_model_on(
    files: Files, tmp_path: Path
) -> None:
    _pretrain_halves(files, tmp_path / "out")
    head = "mlm_head.safetensors"
    assert (tmp_path / "out" / head).read_bytes() == (files.backbone / head).read_bytes()
    assert "condenser_head.safetensors" not in contents(tmp_path / "out")


def test_a_bad_batch_of_two_groups_names_the_documents_of_both_once(files: Files, tmp_path: Path) -> None:
    diverging = {"learning_rate": 1e30, "max_grad_norm": 0.0, "warmup_ratio": 0.0}
    with pytest.raises(ValueError, match="on documents "):
        _pretrain_halves(files, tmp_path / "out", **diverging)
    named = read_json(tmp_path / "out-work" / BAD_BATCH_NAME)
    _, _, items = step_items(60, batch_size=16, step=named["step"], seed=42, stream="halves")
    rows = dict.fromkeys([*items.tolist(), *((items + 1) % 60).tolist()])
    assert len(rows) > 16
    assert named["documents"] == [files.passages[row].doc_id for row in rows]


def test_processes_share_the_chunks_and_agree_on_the_count_of_masked_tokens(files: Files) -> None:
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(files.backbone)
    lengths = np.minimum(np.diff(shards.row_starts)[:11], 30)
    groups = {"spans": Stretches(shards.row_starts[:11], lengths, positions=np.arange(11))}

    def texts(rank: int, world_size: int) -> MaskedTexts:
        return masked(shards, groups, tokenizer, processes=Processes(rank, world_size, rank, CPU))

    whole, parts = texts(0, 1), [texts(rank, 4) for rank in range(4)]
    assert {part.num_masked for part in parts} == {whole.num_masked}
    assert whole.num_masked == sum(len(chunk.inputs.labels) for chunk in whole.chunks)
    assert [len(part.chunks) for part in parts] == [2, 2, 1, 1]
    dealt = sorted((chunk.seed, chunk.rows.tolist()) for part in parts for chunk in part.chunks)
    assert dealt == sorted((chunk.seed, chunk.rows.tolist()) for chunk in whole.chunks)
    assert sorted(row for _, rows in dealt for row in rows) == list(range(11))
    assert len({chunk.seed for chunk in whole.chunks}) == 6


@pytest.mark.parametrize("kind", ["condenser", "cocondenser"])
def test_a_loss_that_is_no_number_names_the_documents_and_keeps_the_checkpoint(
    files: Files, tmp_path: Path, kind: str
) -> None:
    diverging = {"learning_rate": 1e30, "max_grad_norm": 0.0, "warmup_ratio": 0.0}
    with pytest.raises(ValueError, match=r"log.jsonl:\d+: .*, on documents ") as caught:
        train(kind, files, tmp_path / "out", **diverging, checkpoint_every_s=0, bad_loss_patience=1)
    message = str(caught.value)
    assert "(2 in a row)" in message and "\n" not in message
    assert not (tmp_path / "out").exists()

    step = int(message.split(" at step ")[1].split()[0])
    shards = TokenShards(files.tokens)
    if kind == "condenser":
        starts = pack_blocks(shards, max_tokens=30, short_probability=0.1, seed=42).starts
    else:
        starts = span_documents(shards, min_tokens=4).starts
    batch_size = {"condenser": CONDENSER, "cocondenser": COCONDENSER}[kind]["batch_size"]
    _, _, chosen = step_items(len(starts), batch_size=batch_size, step=step, seed=42, stream=kind)
    rows = [int(np.searchsorted(shards.row_starts, start, side="right")) - 1 for start in starts[chosen]]
    ids = list(dict.fromkeys(files.passages[row].doc_id for row in rows))
    assert f"on documents {', '.join(ids)} (all: bad_batch.json beside the log). " in message
    assert read_json(tmp_path / "out-work" / BAD_BATCH_NAME) == {"step": step, "documents": ids}

    checkpoint = load_newest_checkpoint(tmp_path / "out-work", fingerprint=kind, device="cpu")
    assert checkpoint is not None and checkpoint.step == step
    assert all(torch.isfinite(weight).all() for weight in checkpoint.weights.values())


@pytest.mark.parametrize(("kind", "items"), [("condenser", "blocks"), ("cocondenser", "documents")])
def test_a_collection_smaller_than_a_batch_is_one_step_an_epoch(
    files: Files, tmp_path: Path, kind: str, items: str
) -> None:
    counts = train(kind, files, tmp_path / "out", batch_size=1000, rows_per_chunk=100, epochs=2)
    assert counts["steps"] == 2 and counts["items_seen"] == 2 * counts[items]
    assert counts["updates_skipped"] == 0


def _collection_of(texts: list[str], folder: Path, files: Files) -> dict[str, Any]:
    """A few texts for `train`; their first token shard is empty."""
    prefixes = [folder / "collection.0-of-2", folder / "collection.1-of-2"]
    for prefix, part in zip(prefixes, ([], texts), strict=True):
        rows = [("", text) for text in part]
        write_token_shard(rows, prefix, Tokenizer(files.backbone), batch_size=8, split=True)
    return _collection(folder, prefixes, [f"d{number}" for number in range(len(texts))])


def _collection(folder: Path, prefixes: list[Path], ids: list[str]) -> dict[str, Any]:
    (folder / "doc_ids.txt").write_text("".join(f"{doc_id}\n" for doc_id in ids))
    return {"token_prefixes": prefixes, "doc_ids": folder / "doc_ids.txt"}


def test_the_smallest_collections_are_trained_on_or_refused(files: Files, tmp_path: Path) -> None:
    texts = [passage.text for passage in files.passages]
    one = _collection_of(texts[:1], tmp_path / "one", files)
    assert train("condenser", files, tmp_path / "condenser", **one)["rows"] == 1
    with pytest.raises(ValueError, match="expected at least 2 documents of 8 tokens or more, got 1 among 1"):
        train("cocondenser", files, tmp_path / "refused", **one)
    two = _collection_of(texts[:2], tmp_path / "two", files)
    assert train("cocondenser", files, tmp_path / "cocondenser", **two)["documents"] == 2


def test_a_last_batch_of_one_document_has_no_negatives_and_a_contrastive_loss_of_zero(
    files: Files, tmp_path: Path
) -> None:
    texts = [passage.text for passage in files.passages][:3]
    three = _collection_of(texts, tmp_path, files)
    train("cocondenser", files, tmp_path / "out", **three, batch_size=2)
    first, last = losses(tmp_path / "out")
    assert (first["items"], last["items"]) == (2, 1)
    assert first["contrastive"] > 0 and last["contrastive"] == 0
    assert last["outcome"] == "updated"


def test_a_missing_head_is_reported_when_a_random_one_was_asked_for(
    files: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        train("cocondenser", files, tmp_path / "out", epochs=0.1)
    assert "has no Condenser head" in caplog.text


def test_rows_per_chunk_changes_the_sums_order_only(files: Files, tmp_path: Path) -> None:
    still = prepare(tmp_path, dropout=0.0)
    for rows in (3, 16):
        train("condenser", still, tmp_path / f"by {rows}", rows_per_chunk=rows, epochs=0.3)
    one, other = (load_file(tmp_path / f"by {rows}" / "model.safetensors") for rows in (3, 16))
    for name, weight in one.items():
        torch.testing.assert_close(weight, other[name], rtol=1e-3, atol=1e-5)
