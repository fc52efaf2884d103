from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_trainings import (
    LATE,
    OPTIMISER,
    RETRIEVER,
    SHAPE,
    Files,
    contents,
    example_rows,
    losses,
    prepare,
    run_of,
    sharpen,
    train,
)
from transformers import AutoModel

from condenser.data.batches import step_items
from condenser.data.records import Query, TrainExample, read_examples, write_examples, write_queries
from condenser.data.tokens import Tokenizer, write_token_shard
from condenser.files import read_json
from condenser.model.retriever import query_encoder_folder
from condenser.model.rows import Rows
from condenser.model.text_vector import TextVector, write_text_vector
from condenser.train import crossencoder, finetune
from condenser.train.checkpoint import load_newest_checkpoint
from condenser.train.chunks import Chunk
from condenser.train.examples import (
    ExampleFile,
    ExampleRows,
    TrainingFiles,
    draw_passages,
    read_example_rows,
)
from condenser.train.late import late_training
from condenser.train.loop import BAD_BATCH_NAME


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return prepare(tmp_path_factory.mktemp("finetune"), dropout=0.1)


def _rows(files: list[Path]) -> ExampleRows:
    names = {f"q{number}": number for number in range(5)}
    doc_rows = {f"d{number}": number for number in range(30)}
    return read_example_rows(
        [ExampleFile(file, names, lambda query_id: True) for file in files], doc_rows=doc_rows
    )


def _one_example(path: Path, query_id: str, positives: tuple[str, ...], negatives: tuple[str, ...]) -> Path:
    good = TrainExample("q1", ("d1",), ("d2",))
    write_examples(path, [good, TrainExample(query_id, positives, negatives)])
    return path


@pytest.mark.parametrize(
    ("kind", "module"), [("retriever", finetune), ("late", finetune), ("crossencoder", crossencoder)]
)
def test_every_chunk_of_a_training_has_a_dropout_of_its_own(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, module: ModuleType
) -> None:
    real, seeds = module.contrastive_backward, list[int]()

    def noted(chunks: Sequence[Chunk[Rows]], *given: Any, **named: Any) -> dict[str, float]:
        seeds.extend(chunk.seed for chunk in chunks)
        return real(chunks, *given, **named)

    monkeypatch.setattr(module, "contrastive_backward", noted)
    train(kind, files, tmp_path / "out", updates=3)
    assert len(seeds) >= 3 * 3 and len(set(seeds)) == len(seeds)


def test_the_examples_of_all_files_stand_one_after_the_other_as_rows(tmp_path: Path) -> None:
    first = _one_example(tmp_path / "bm25.jsonl", "q4", ("d3", "d5"), ("d7", "d8", "d9"))
    second = _one_example(tmp_path / "round1.jsonl", "q0", ("d6",), ("d20",))
    examples = _rows([first, second])
    assert examples.queries.tolist() == [1, 4, 1, 0]
    assert examples.positives.tolist() == [1, 3, 5, 1, 6]
    assert examples.positive_starts.tolist() == [0, 1, 3, 4, 5]
    assert examples.negatives.tolist() == [2, 7, 8, 9, 2, 20]
    assert examples.negative_starts.tolist() == [0, 1, 4, 5, 6]
    assert {examples.queries.dtype, examples.positives.dtype, examples.negatives.dtype} == {
        np.dtype(np.int32)
    }


def test_the_positive_comes_first_and_the_negatives_move_on_each_epoch(tmp_path: Path) -> None:
    negatives = tuple(f"d{number}" for number in range(10, 16))
    examples = _rows([_one_example(tmp_path / "a.jsonl", "q2", ("d3", "d4", "d5"), negatives)])
    drawn = [
        draw_passages(examples, np.array([1]), passages_per_query=3, seed=7, epoch=epoch).tolist()
        for epoch in range(4)
    ]
    # positive (item + seed + epoch) mod 3 of rows 3, 4, 5, with item 1 and seed 7
    assert [passages[0] for passages in drawn] == [5, 3, 4, 5]
    assert sorted(row for passages in drawn[:3] for row in passages[1:]) == list(range(10, 16))
    assert drawn[3][1:] == drawn[0][1:]  # six negatives, two an epoch: round after three epochs


def test_one_passage_a_query_is_its_positive_alone(tmp_path: Path) -> None:
    examples = _rows([_one_example(tmp_path / "a.jsonl", "q2", ("d3", "d4"), ("d1",))])
    drawn = [
        draw_passages(examples, np.array([0, 1]), passages_per_query=1, seed=0, epoch=epoch).tolist()
        for epoch in range(2)
    ]
    assert [len(passages) for passages in drawn] == [2, 2]
    assert [passages[1] for passages in drawn] == [4, 3]


def test_a_retriever_learns_to_tell_the_positives_of_a_tiny_collection(tmp_path: Path) -> None:
    files = prepare(tmp_path, dropout=0.0)
    sharpen(files.backbone)
    counts = train("retriever", files, tmp_path / "out", epochs=8)
    values = [record["loss"] for record in losses(tmp_path / "out")]
    assert np.mean(values[:5]) == pytest.approx(math.log(12), abs=0.4)  # one of 12 passages, by a guess
    assert np.mean(values[-5:]) < 1.0, values
    assert counts["examples"] == 18
    assert counts["steps"] == 8 * 5


@pytest.mark.parametrize(
    ("kind", "scale", "factor"),
    [("retriever", None, 20.0), ("retriever", 3.0, 3.0), ("late", None, 1.0), ("late", 3.0, 3.0)],
)
def test_similarities_are_scaled_as_the_vector_says_unless_the_recipe_says_otherwise(
    files: Files, tmp_path: Path, kind: str, scale: float | None, factor: float
) -> None:
    """Of a model of cosines; for late interaction each text has one state here."""
    backbone, dim = shutil.copytree(files.backbone, tmp_path / "backbone"), SHAPE["hidden_size"]
    write_text_vector(TextVector("cls", normalised=True), backbone, dim=dim)
    run = run_of(kind, tmp_path / "out", {**OPTIMISER, **RETRIEVER, "tied": True}, scale=scale)
    examples = TrainingFiles([files.examples], files.texts)
    if kind == "late":
        training = late_training(examples, backbone, run, **LATE | {"match": "first", "first_states": 1})
    else:
        training = finetune.retriever_training(examples, backbone, run)
    generator, group = torch.Generator().manual_seed(1), RETRIEVER["passages_per_query"]
    queries, passages = (torch.randn(count, dim, generator=generator) for count in (4, 4 * group))
    shares = (factor * queries @ passages.T).log_softmax(dim=1)
    expected = -shares[range(4), range(0, 4 * group, group)].mean()
    loss = training.prepare(0).content.loss(queries=queries, passages=passages)
    torch.testing.assert_close(loss, expected)


def test_the_short_last_batch_is_kept_and_few_negatives_are_counted(files: Files, tmp_path: Path) -> None:
    counts = train("retriever", files, tmp_path / "out", epochs=2)
    assert [record["items"] for record in losses(tmp_path / "out")] == [4, 4, 4, 4, 2] * 2
    assert counts["items_seen"] == 36
    few = sum(len(example.negative_doc_ids) < 2 for example in read_examples(files.examples))
    assert counts["examples_with_fewer_negatives_than_a_batch_takes"] == few > 0


def test_two_files_of_examples_are_trained_on_together(files: Files, tmp_path: Path) -> None:
    counts = train("retriever", files, tmp_path / "out", example_files=[files.examples, files.examples])
    assert counts["examples"] == counts["items_seen"] == 36


def test_queries_of_two_files_are_trained_on_as_those_of_one(files: Files, tmp_path: Path) -> None:
    """The second file repeats an id with another text, whose examples are those of the first."""
    queries, tokenizer = files.queries, Tokenizer(files.backbone)
    parts = {"first": queries[:12], "more": [*queries[12:], Query(queries[0].query_id, "another text")]}
    for name, part in parts.items():
        write_queries(tmp_path / f"{name}.jsonl", part)
        texts = [("", query.text) for query in part]
        write_token_shard(texts, tmp_path / name, tokenizer, batch_size=16, split=False)
    train("retriever", files, tmp_path / "one")
    train(
        *("retriever", files, tmp_path / "two"),
        **{"query_tokens": [tmp_path / name for name in parts]},
        **{"queries": [tmp_path / f"{name}.jsonl" for name in parts]},
    )
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def test_a_made_query_with_the_id_of_a_train_query_keeps_its_own_text(files: Files, tmp_path: Path) -> None:
    """A made query has the id of its passage, which a held-out train query may have, too."""
    queries, tokenizer = files.queries, Tokenizer(files.backbone)
    held_out = queries[0].query_id
    (tmp_path / "held.txt").write_text(f"{held_out}\n")
    made = [Query(held_out, "made of a passage"), Query("own", "another one")]
    for name, part in (("judged", queries), ("made", made)):
        write_queries(tmp_path / f"{name}.jsonl", part)
        texts = [("", query.text) for query in part]
        write_token_shard(texts, tmp_path / name, tokenizer, batch_size=16, split=False)
    doc_ids = [passage.doc_id for passage in files.passages[:3]]
    labels = [TrainExample(query.query_id, (doc_ids[0],), tuple(doc_ids[1:])) for query in made]
    write_examples(tmp_path / "labels.jsonl", labels)
    shards, names = [tmp_path / "judged", tmp_path / "made"], ("judged.jsonl", "made.jsonl")
    texts_of_both = replace(files.texts, query_tokens=shards, queries=[tmp_path / name for name in names])
    both = TrainingFiles(
        [files.examples, tmp_path / "labels.jsonl"],
        texts_of_both,
        tmp_path / "held.txt",
        has_pseudo_labels=True,
    )
    _, _, examples, kept = both.read()
    of_judged = [example for example in read_examples(files.examples) if example.query_id != held_out]
    assert examples.queries[-2:].tolist() == [len(queries), len(queries) + 1]
    assert len(examples) == len(of_judged) + 2 and set(kept.queries.tolist()) == {0}
    alone = replace(texts_of_both, query_tokens=shards[1:], queries=[tmp_path / "made.jsonl"])
    _, _, examples, kept = TrainingFiles([tmp_path / "labels.jsonl"], alone, has_pseudo_labels=True).read()
    assert examples.queries.tolist() == [0, 1] and len(kept) == 0
    write_examples(tmp_path / "labels.jsonl", [])  # of a teacher that is not used
    with pytest.raises(ValueError, match=r"labels\.jsonl: expected examples to train on, got none\. Their"):
        TrainingFiles([tmp_path / "labels.jsonl"], alone, has_pseudo_labels=True).read()


def test_the_retriever_loads_without_our_code_and_keeps_its_pooler(files: Files, tmp_path: Path) -> None:
    train("retriever", files, tmp_path / "out")
    assert {"config.json", "model.safetensors", "tokenizer.json", "losses.jsonl"} <= set(
        contents(tmp_path / "out")
    )
    model, loading = AutoModel.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not loading["missing_keys"] and not loading["unexpected_keys"]
    before = load_file(files.backbone / "model.safetensors")
    unmoved = {name for name, weight in model.state_dict().items() if torch.equal(weight, before[name])}
    assert {"pooler.dense.weight", "pooler.dense.bias"} <= unmoved
    assert "encoder.layer.2.output.dense.weight" not in unmoved


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        *[("retriever", {}), ("untied", {}), ("late", {}), ("late", {"match": "exact"})],
        ("late", {"match": "first", "first_states": 3}),
    ],
)
def test_keeping_graphs_or_computing_twice_changes_no_byte(
    files: Files, tmp_path: Path, kind: str, changes: dict[str, Any]
) -> None:
    for keep in (True, False):
        train(kind, files, tmp_path / str(keep), keep_graphs=keep, **changes)
    assert contents(tmp_path / "True") == contents(tmp_path / "False")


def test_two_encoders_are_trained_apart_and_each_is_a_folder_of_its_own(files: Files, tmp_path: Path) -> None:
    counts = train("untied", files, tmp_path / "untied")
    tied = train("retriever", files, tmp_path / "tied")
    assert counts == tied
    before = load_file(files.backbone / "model.safetensors")
    passages, queries = (
        load_file(folder / "model.safetensors")
        for folder in (tmp_path / "untied", query_encoder_folder(tmp_path / "untied"))
    )
    frozen = {name for name in before if name.startswith("pooler.")}
    for one, other in ((passages, queries), (passages, before), (queries, before)):
        assert {name for name, weight in one.items() if torch.equal(weight, other[name])} == frozen
    assert not (tmp_path / "tied" / "query").exists()
    assert "query/tokenizer.json" in contents(tmp_path / "untied")


def test_two_encoders_have_the_first_loss_of_one_and_later_others(files: Files, tmp_path: Path) -> None:
    """They start from the same weights and draw the same dropout."""
    logs = []
    for kind in ("retriever", "untied"):
        train(kind, files, tmp_path / kind, learning_rate=1e-2, warmup_ratio=0.0)
        logs.append([record["loss"] for record in losses(tmp_path / kind)])
    (first, *later), (same, *others) = logs
    assert first == same
    assert all(one != other for one, other in zip(later, others, strict=True))


def test_texts_longer_than_the_limit_are_cut(files: Files, tmp_path: Path) -> None:
    train("retriever", files, tmp_path / "out", lengths={"query": 5, "passage": 9})
    per_query = 5 + RETRIEVER["passages_per_query"] * 9
    for record in losses(tmp_path / "out"):
        assert record["tokens"] <= record["items"] * per_query
    assert any(record["tokens"] > 0.9 * record["items"] * per_query for record in losses(tmp_path / "out"))


def test_fewer_examples_than_a_batch_are_one_step_an_epoch(files: Files, tmp_path: Path) -> None:
    counts = train("retriever", files, tmp_path / "out", batch_size=1000, epochs=2)
    assert counts["steps"] == 2 and counts["items_seen"] == 36
    assert counts["updates_skipped"] == 0


def test_one_example_of_a_collection_of_two_is_trained_on(files: Files, tmp_path: Path) -> None:
    small = Files(tmp_path)
    (tmp_path / "doc_ids.txt").write_text("yes\nno\n")
    write_queries(tmp_path / "queries.jsonl", [Query("q", "what is this")])
    write_examples(small.examples, [TrainExample("q", ("yes",), ("no",))])
    tokenizer = Tokenizer(files.backbone)
    for prefix, texts in zip(small.tokens, ([], ["this", "that"]), strict=True):
        rows = [("", text) for text in texts]
        write_token_shard(rows, prefix, tokenizer, batch_size=8, split=True)
    rows = [("", "what is this")]
    write_token_shard(rows, tmp_path / "queries", tokenizer, batch_size=8, split=False)
    counts = train("retriever", small, tmp_path / "out", initial=files.backbone)
    assert counts["examples_with_fewer_negatives_than_a_batch_takes"] == counts["steps"] == 1


def test_a_loss_that_is_no_number_names_queries_and_passages_and_keeps_the_checkpoint(
    files: Files, tmp_path: Path
) -> None:
    diverging = {"learning_rate": 1e30, "max_grad_norm": 0.0, "warmup_ratio": 0.0}
    with pytest.raises(ValueError, match=r"log.jsonl:\d+: .* on queries .* with passages ") as caught:
        train("retriever", files, tmp_path / "out", **diverging, checkpoint_every_s=0, bad_loss_patience=1)
    message = str(caught.value)
    assert "(2 in a row)" in message and "\n" not in message
    step = int(message.split(" at step ")[1].split()[0])
    epoch, _, items = step_items(18, batch_size=4, step=step, seed=42, stream="retriever")
    asked = [list(read_examples(files.examples))[item].query_id for item in items]
    examples = example_rows(files)
    drawn = [
        files.passages[row].doc_id
        for row in draw_passages(examples, items, passages_per_query=3, seed=42, epoch=epoch)
    ]
    assert f"on queries {', '.join(asked)} with passages {', '.join(drawn)} (all: " in message
    named = read_json(tmp_path / "out-work" / BAD_BATCH_NAME)
    assert named == {"step": step, "queries": asked, "passages": drawn}
    assert not (tmp_path / "out").exists()
    checkpoint = load_newest_checkpoint(tmp_path / "out-work", fingerprint="retriever", device="cpu")
    assert checkpoint is not None and checkpoint.step == step
    assert all(torch.isfinite(weight).all() for weight in checkpoint.weights.values())
