"""What holds for every training: pre-training, retrievers, cross-encoders, term weights, sentences."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_trainings import (
    KINDS,
    OBJECTIVES,
    RETRIEVER,
    TERMS,
    Files,
    contents,
    example_rows,
    items_of,
    losses,
    prepare,
    train,
    training,
)
from torch import nn
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from condenser.data.batches import step_items
from condenser.data.blocks import pack_blocks
from condenser.data.spans import span_documents
from condenser.data.tokens import TokenShards
from condenser.model.bert import Embeddings
from condenser.model.mlm_head import MaskedLanguageHead
from condenser.model.retriever import query_encoder_folder
from condenser.objectives.ict import rows_with_sentences
from condenser.train.examples import draw_passages

CACHES = {"cocondenser": "auto", "ict": "never"}  # besides always; a step fits into memory
KEEP_GRAPHS = [*CACHES, "retriever", "untied", "late", "distilled", "crossencoder"]
QUICK = ("cocondenser", "untied", "terms", "similarity")  # the others share most of their code
EVERY = [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.ci) for kind in KINDS]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return prepare(tmp_path_factory.mktemp("every"), dropout=0.1)


@pytest.fixture(scope="module")
def trained(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Gives the folder of three updates of a training, made once for all tests."""
    folder = tmp_path_factory.mktemp("trained")

    @cache
    def of_kind(kind: str) -> Path:
        counts = train(kind, files, folder / kind, updates=3)
        assert counts["steps"] == len(losses(folder / kind)) == 3 and counts["updates_skipped"] == 0
        return folder / kind

    return of_kind


def names_of(kind: str, files: Files, *, step: int) -> dict[str, list[str]]:
    """The ids of the texts of a step, drawn anew."""
    shards, seed, doc_ids = TokenShards(files.tokens), 42, [passage.doc_id for passage in files.passages]

    def drawn(num_items: int, settings: Any, stream: str = kind) -> tuple[int, np.ndarray]:
        size = settings["batch_size"]
        epoch, _, items = step_items(num_items, batch_size=size, step=step, seed=seed, stream=stream)
        return epoch, items

    if kind in OBJECTIVES:
        starts = {
            "cocondenser": lambda: span_documents(shards, min_tokens=4).starts,
            "ict": lambda: shards.row_starts[rows_with_sentences(shards)],
        }.get(kind, lambda: pack_blocks(shards, max_tokens=30, short_probability=0.1, seed=seed).starts)()
        _, items = drawn(len(starts), OBJECTIVES[kind])
        rows = np.searchsorted(shards.row_starts, starts[items], side="right") - 1
        return {"documents": list(dict.fromkeys(doc_ids[row] for row in rows))}
    if kind == "terms":
        return {"passages": [doc_ids[item] for item in drawn(21, TERMS, "term weights")[1]]}
    if kind == "similarity":
        items = items_of(files, kind)
        return {"items": [items[item].item_id for item in drawn(10, {"batch_size": 4}, "sentences")[1]]}
    examples = example_rows(files)
    stream = "crossencoder" if kind == "crossencoder" else "retriever"
    epoch, items = drawn(20 if kind == "distilled" else len(examples), RETRIEVER, stream)
    if kind == "distilled":  # `small_trainings` says whom its teacher ranks
        passages = [(item + 7 * place) % len(doc_ids) for item in items for place in range(3)]
        queries = items
    else:
        passages = draw_passages(
            examples, items, passages_per_query=3, seed=seed, epoch=epoch, num_passages=30
        )
        queries = examples.queries[items]
    return {
        "queries": [files.queries[row].query_id for row in queries],
        "passages": [doc_ids[row] for row in passages],
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_names_its_texts_and_each_of_its_chunks_has_a_dropout_of_its_own(
    files: Files, tmp_path: Path, kind: str
) -> None:
    trainable, _ = training(kind, files, tmp_path / "out")
    steps = (0, 1, 20)  # the last is of a later epoch
    batches = [trainable.prepare(step) for step in steps]
    assert [batch.ids() for batch in batches] == [names_of(kind, files, step=step) for step in steps]
    chunks = [chunk for batch in batches for chunk in getattr(batch.content, "chunks", [batch.content])]
    assert len({chunk.seed for chunk in chunks}) == len(chunks) >= 3 * (1 if kind == "similarity" else 2)
    if kind != "similarity":  # its rows are the library's
        lengths = [getattr(chunk.inputs, "rows", chunk.inputs).lengths for chunk in chunks]
        assert sum(batch.num_tokens for batch in batches) == np.concatenate(lengths).sum()


@pytest.mark.parametrize("kind", KINDS)
def test_items_fewer_than_a_batch_are_one_step_an_epoch(files: Files, tmp_path: Path, kind: str) -> None:
    trainable, run = training(kind, files, tmp_path / "out", batch_size=1000, epochs=2)
    assert run.num_steps(trainable.num_items, title=kind) == 2
    batch = trainable.prepare(1)
    assert (batch.epoch, batch.num_items, batch.num_in_epoch) == (1, *[trainable.num_items] * 2)


@pytest.mark.parametrize("kind", EVERY)
def test_the_seed_alone_decides_the_bytes_also_if_chunks_are_computed_once(
    files: Files, trained: Callable[[str], Path], tmp_path: Path, kind: str
) -> None:
    expected = contents(trained(kind))
    torch.rand(17)
    changes = {"gradient_cache": CACHES[kind]} if kind in CACHES else {}
    train(kind, files, tmp_path / "again", updates=3, **changes)
    assert contents(tmp_path / "again") == expected


def test_another_seed_gives_another_model(
    files: Files, trained: Callable[[str], Path], tmp_path: Path
) -> None:
    train("similarity", files, tmp_path / "out", updates=3, seed=43)
    model = "model.safetensors"
    assert (tmp_path / "out" / model).read_bytes() != (trained("similarity") / model).read_bytes()


@pytest.mark.parametrize("kind", [kind for kind in EVERY if kind != "terms"])  # it leaves no model
def test_what_is_written_loads_without_our_code_and_all_that_is_used_has_moved(
    files: Files, trained: Callable[[str], Path], kind: str
) -> None:
    library = AutoModelForSequenceClassification if kind == "crossencoder" else AutoModel
    model, loading = library.from_pretrained(trained(kind), output_loading_info=True)
    assert not loading["missing_keys"] and not loading["unexpected_keys"]
    assert AutoTokenizer.from_pretrained(trained(kind))("a word")["input_ids"]
    before, after = load_file(files.backbone / "model.safetensors"), model.base_model.state_dict()
    moved = {name for name, weight in after.items() if not torch.equal(weight, before[name])}
    assert moved == {name for name in before if kind == "crossencoder" or not name.startswith("pooler.")}


@pytest.mark.parametrize("kind", ["cocondenser", "ict", "retriever", "untied"])
def test_heads_and_a_second_encoder_are_files_of_their_own(trained: Callable[[str], Path], kind: str) -> None:
    beside = {
        "cocondenser": {"condenser_head.safetensors", "mlm_head.safetensors"},
        "ict": {"mlm_head.safetensors"},
        "untied": {"query/model.safetensors"},
    }
    names = {name for name in contents(trained(kind)) if name.endswith(".safetensors")}
    assert names == {"model.safetensors"} | beside.get(kind, set())


def test_an_objective_without_mlm_passes_the_head_of_its_initial_model_on(
    files: Files, trained: Callable[[str], Path]
) -> None:
    head = "mlm_head.safetensors"
    assert (trained("ict") / head).read_bytes() == (files.backbone / head).read_bytes()
    assert (trained("cocondenser") / head).read_bytes() != (files.backbone / head).read_bytes()


def test_two_encoders_start_alike_and_are_trained_apart(files: Files, trained: Callable[[str], Path]) -> None:
    """They draw the dropout of one; the first update has the rate zero."""
    one, two = ([record["loss"] for record in losses(trained(kind))] for kind in ("retriever", "untied"))
    assert one[:2] == two[:2] and one[2] != two[2]
    folders = (files.backbone, trained("untied"), query_encoder_folder(trained("untied")))
    before, passages, queries = (load_file(folder / "model.safetensors") for folder in folders)
    same = {name for name, weight in queries.items() if torch.equal(weight, passages[name])}
    assert same == {name for name in before if name.startswith("pooler.")}
    assert {name for name, weight in queries.items() if torch.equal(weight, before[name])} == same


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


@pytest.mark.parametrize("kind", [kind for kind in EVERY if kind != "similarity"])  # its steps are whole
def test_a_full_device_changes_no_byte_of_what_is_trained(
    files: Files,
    trained: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    """It is full at the second chunk and, if graphs were kept until then, again at the second."""
    expected, keeps_graphs = contents(trained(kind)), kind in KEEP_GRAPHS
    fill_memory(monkeypatch, Embeddings, {2, 4} if keeps_graphs else {2})
    changes = {"gradient_cache": "never"} if kind in CACHES else {}
    with caplog.at_level(logging.INFO):
        train(kind, files, tmp_path / "full", updates=3, **changes)
    messages = [record.getMessage() for record in caplog.records if "memory is full" in record.getMessage()]
    assert messages == [
        f"memory is full: switching to {switch} (CUDA out of memory. Tried to allocate 20.00 MiB.)"
        for switch in ["the gradient cache"] * keeps_graphs + ["activation checkpointing"]
    ]
    assert contents(tmp_path / "full") == expected


def test_if_not_even_one_layer_fits_the_error_names_the_setting_to_lower(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_memory(monkeypatch, MaskedLanguageHead, set(range(2, 100)))
    with pytest.raises(ValueError, match=r"^rows_per_chunk: .*Tried to allocate 20.00 MiB.*Lower it"):
        train("condenser", files, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_part_of_the_first_weights_is_kept_in_the_encoder_and_not_in_its_heads(
    files: Files, trained: Callable[[str], Path], tmp_path: Path
) -> None:
    train("cocondenser", files, tmp_path / "mean", updates=3, initial_share=0.25)
    first, whole, mean = (
        load_file(folder / "model.safetensors")
        for folder in (files.backbone, trained("cocondenser"), tmp_path / "mean")
    )
    assert mean.keys() == whole.keys()
    for name, weight in whole.items():
        torch.testing.assert_close(mean[name], 0.75 * weight + 0.25 * first[name])
        assert torch.equal(mean[name], weight) == name.startswith("pooler.")
    head = "condenser_head.safetensors"  # it was new: there is nothing to keep
    assert (tmp_path / "mean" / head).read_bytes() == (trained("cocondenser") / head).read_bytes()
