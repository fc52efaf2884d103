from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from small_trainings import RETRIEVER, SHAPE, Files, contents, prepare, train, training

from condenser.data.records import Query, TrainExample, read_examples, write_examples, write_queries
from condenser.data.tokens import Tokenizer, write_token_shard
from condenser.model.text_vector import TextVector, write_text_vector
from condenser.train.examples import (
    ExampleFile,
    ExampleRows,
    TrainingFiles,
    draw_passages,
    read_example_rows,
)


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
    draw = partial(draw_passages, examples, np.array([1]), passages_per_query=3, seed=7, num_passages=30)
    drawn = [draw(epoch=epoch).tolist() for epoch in range(4)]
    # positive (item + seed + epoch) mod 3 of rows 3, 4, 5, with item 1 and seed 7
    assert [passages[0] for passages in drawn] == [5, 3, 4, 5]
    assert sorted(row for passages in drawn[:3] for row in passages[1:]) == list(range(10, 16))
    assert drawn[3][1:] == drawn[0][1:]  # six negatives, two an epoch: round after three epochs


def test_an_example_without_negatives_draws_them_from_all_passages_but_its_positives(tmp_path: Path) -> None:
    examples = _rows([_one_example(tmp_path / "a.jsonl", "q2", ("d0", "d2", "d4"), ())])
    draw = partial(draw_passages, examples, np.array([1]), passages_per_query=4, seed=7, num_passages=6)
    drawn = [draw(epoch=epoch).tolist() for epoch in range(60)]
    assert {positive for positive, *_ in drawn} == {0, 2, 4}
    counts = np.bincount([row for _, *negatives in drawn for row in negatives], minlength=6)
    assert counts[[0, 2, 4]].sum() == 0 and counts[[1, 3, 5]].min() > 40  # of 180, in three equal shares


def test_one_passage_a_query_is_its_positive_alone(tmp_path: Path) -> None:
    examples = _rows([_one_example(tmp_path / "a.jsonl", "q2", ("d3", "d4"), ("d1",))])
    draw = partial(draw_passages, examples, np.array([0, 1]), passages_per_query=1, seed=0, num_passages=30)
    assert [draw(epoch=epoch).tolist() for epoch in range(2)] == [[1, 4], [1, 3]]


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
    of_late = {"match": "first", "first_states": 1} if kind == "late" else {}
    made, _ = training(kind, files, tmp_path / "out", initial=backbone, scale=scale, **of_late)
    generator, group = torch.Generator().manual_seed(1), RETRIEVER["passages_per_query"]
    queries, passages = (torch.randn(count, dim, generator=generator) for count in (4, 4 * group))
    shares = (factor * queries @ passages.T).log_softmax(dim=1)
    expected = -shares[range(4), range(0, 4 * group, group)].mean()
    loss = made.prepare(0).content.loss(queries=queries, passages=passages)
    torch.testing.assert_close(loss, expected)


def test_the_short_last_batch_is_kept_and_few_negatives_are_counted(files: Files, tmp_path: Path) -> None:
    made, _ = training("retriever", files, tmp_path / "out")
    assert [made.prepare(step).num_items for step in range(6)] == [4, 4, 4, 4, 2, 4]
    few = sum(len(example.negative_doc_ids) < 2 for example in read_examples(files.examples))
    assert made.counts["examples_with_fewer_negatives_than_a_batch_takes"] == few > 0


def write_query_files(files: Files, folder: Path, parts: dict[str, list[Query]]) -> dict[str, list[Path]]:
    """Files of queries and their tokens, by the names that `TextFiles` has for them."""
    for name, part in parts.items():
        write_queries(folder / f"{name}.jsonl", part)
        texts = [("", query.text) for query in part]
        write_token_shard(texts, folder / name, Tokenizer(files.backbone), batch_size=16, split=False)
    return {
        "query_tokens": [folder / name for name in parts],
        "queries": [folder / f"{name}.jsonl" for name in parts],
    }


def test_queries_of_two_files_are_trained_on_as_those_of_one(files: Files, tmp_path: Path) -> None:
    """The second file repeats an id with another text, whose examples are those of the first."""
    queries = files.queries
    more = [*queries[12:], Query(queries[0].query_id, "another text")]
    of_two = write_query_files(files, tmp_path, {"first": queries[:12], "more": more})
    train("retriever", files, tmp_path / "one")
    train("retriever", files, tmp_path / "two", **of_two)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def test_a_made_query_with_the_id_of_a_train_query_keeps_its_own_text(files: Files, tmp_path: Path) -> None:
    """A made query has the id of its passage, which a held-out train query may have, too."""
    queries, held_out = files.queries, files.queries[0].query_id
    (tmp_path / "held.txt").write_text(f"{held_out}\n")
    made = [Query(held_out, "made of a passage"), Query("own", "another one")]
    of_both = write_query_files(files, tmp_path, {"judged": queries, "made": made})
    doc_ids = [passage.doc_id for passage in files.passages[:3]]
    labels = [TrainExample(query.query_id, (doc_ids[0],), tuple(doc_ids[1:])) for query in made]
    write_examples(tmp_path / "labels.jsonl", labels)
    texts_of_both = replace(files.texts, **of_both)
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
    alone = replace(files.texts, **{name: paths[1:] for name, paths in of_both.items()})
    _, _, examples, kept = TrainingFiles([tmp_path / "labels.jsonl"], alone, has_pseudo_labels=True).read()
    assert examples.queries.tolist() == [0, 1] and len(kept) == 0
    write_examples(tmp_path / "labels.jsonl", [])  # of a teacher that is not used
    with pytest.raises(ValueError, match=r"labels\.jsonl: expected examples to train on, got none\. Their"):
        TrainingFiles([tmp_path / "labels.jsonl"], alone, has_pseudo_labels=True).read()


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
