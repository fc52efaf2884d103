"""A fine-tuned model beside its start, on train queries that no training saw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_trainings import Files, prepare, sharpen, train
from test_late_training import DIM, EXACT, FIRST, Plain

from condenser.blocks import Validation
from condenser.data.records import read_examples
from condenser.files import read_json
from condenser.settings import partly
from condenser.train.examples import ExampleRows
from condenser.train.validation import VALIDATION_FILE, held_out_queries, keep_better, reciprocal_ranks


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return prepare(tmp_path_factory.mktemp("validation"), dropout=0.1)


def test_the_best_positive_has_the_rank_that_sorting_by_hand_gives() -> None:
    generator = torch.Generator().manual_seed(3)
    queries, passages = (torch.randn(count, 8, generator=generator) for count in (40, 30))
    positives = [np.array([number % 30, (7 * number + 1) % 30]) for number in range(40)]
    expected = []
    for query, places in zip(queries, positives, strict=True):
        order = sorted(range(30), key=lambda place: -float(passages[place] @ query))
        rank = next(rank for rank, place in enumerate(order, start=1) if place in places)
        expected.append(1 / rank if rank <= 10 else 0.0)
    assert 0.0 in expected and 1.0 in expected
    assert reciprocal_ranks((passages @ query for query in queries), positives).tolist() == expected


@pytest.mark.parametrize(
    ("scores", "positives", "expected"),
    [([1, 1, 0], [1], 0.5), ([1, 1, 0], [0, 1], 1.0), ([1, 1, 1, 0], [0, 1], 0.5)],
)
def test_a_passage_of_the_same_score_stands_above_a_positive_unless_it_is_one(
    scores: list[float], positives: list[int], expected: float
) -> None:
    ranks = reciprocal_ranks(torch.tensor([scores], dtype=torch.float32), [np.array(positives)])
    assert ranks.tolist() == [expected]


def test_each_held_out_query_ranks_the_first_negatives_of_all_its_examples() -> None:
    examples = ExampleRows(  # query 5 stands in two files
        queries=np.array([5, 7, 5]),
        positives=np.array([40, 10, 11, 40]),
        positive_starts=np.array([0, 1, 3, 4]),
        negatives=np.array([20, 21, 22, 30, 23, 24, 25]),
        negative_starts=np.array([0, 3, 4, 7]),
    )
    ranked = held_out_queries(examples, num_negatives=2)
    assert ranked.queries.tolist() == [5, 7]
    assert ranked.passages.tolist() == [10, 11, 20, 21, 23, 24, 30, 40]
    assert [places.tolist() for places in ranked.positives] == [[7], [0, 1]]


@pytest.mark.parametrize(
    ("trained", "mean", "keep", "kept", "shares"),
    [
        ([1.0, 0.5], [0.0, 0.0], "better", "trained", []),
        ([0.5, 0.25], [1.0, 0.25], "better", "mean", [0.3]),
        ([0.5, 0.25], [0.5, 0.5], "better", "mean", [0.3]),
        ([0.5, 0.25], [0.3, 0.5], "better", "mean", [0.3]),  # worse by .1, 1.41 standard errors
        ([0.5, 0.25], [0.4, 0.45], "better", "start", [0.3, 1.0]),
        ([0.5, 0.25], [0.1, 0.4], "better", "start", [0.3, 1.0]),  # by .25, 2.36 errors (1.67 with n - 1)
        ([0.5, 0.5], [0.0, 0.0], "better", "start", [0.3, 1.0]),
        ([0.0, 0.25], [1.0, 1.0], "trained", "trained", []),
    ],
)
def test_what_is_not_better_than_the_start_is_replaced(
    trained: list[float], mean: list[float], keep: Any, kept: str, shares: list[float]
) -> None:
    mixed: list[float] = []
    compared = keep_better(
        np.array([0.5, 0.5]),
        lambda: np.array(mean if mixed else trained),
        mixed.append,
        num_passages=9,
        keep=keep,
        initial_share=0.3,
        standard_errors=2.0,
    )
    assert (compared.kept, mixed) == (kept, shares)
    assert (compared.won, compared.lost) == (sum(x > 0.5 for x in trained), sum(x < 0.5 for x in trained))


def _validated(
    files: Files, output: Path, ids: list[str], *, kind: str = "retriever", **changes: Any
) -> dict[str, Any]:
    (files.root / "held_out.txt").write_text("".join(f"{query_id}\n" for query_id in ids))
    block = {"negatives": 2, "keep": "better", "initial_share": 0.5, "standard_errors": 2.0}
    changes["validation"] = partly(Validation, block | changes.pop("v", {}))
    return train(kind, files, output, held_out=files.root / "held_out.txt", **changes)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        *(("retriever", {}), ("late", EXACT)),
        *(pytest.param("late", changes, marks=pytest.mark.ci) for changes in ({"dim": DIM}, FIRST)),
    ],
    ids=str,
)
def test_no_held_out_query_is_trained_on_and_all_are_ranked_as_by_transformers(
    tmp_path: Path, kind: str, changes: dict[str, Any]
) -> None:
    """Without dropout: with the smallest rate what is trained has the ranks of its start."""
    files = prepare(tmp_path, dropout=0.1)
    sharpen(files.backbone)
    examples = list(read_examples(files.examples))
    held_out = examples[::2]
    ids = [example.query_id for example in held_out]
    counts = _validated(files, tmp_path / "out", ids, kind=kind, learning_rate=1e-30, updates=1, **changes)
    assert counts["examples_held_out"] == len(held_out) == len(examples) - counts["examples"]
    texts = {passage.doc_id: passage for passage in files.passages}
    queries = {query.query_id: query.text for query in files.queries}
    pool = {one for each in held_out for one in (*each.positive_doc_ids, *each.negative_doc_ids[:2])}
    match = {key: value for key, value in changes.items() if key != "dim"}
    of_retriever = {"match": "first", "first_states": 1}  # the products of [CLS]
    plain, ranks = Plain(tmp_path / "out", **(match if kind == "late" else of_retriever)), []
    for example in held_out:
        scores = {doc_id: plain.score(queries[example.query_id], texts[doc_id]).item() for doc_id in pool}
        best = max(scores[doc_id] for doc_id in example.positive_doc_ids)
        rank = 1 + sum(score > best for score in scores.values())
        ranks.append(1 / rank if rank <= 10 else 0.0)
    compared = read_json(tmp_path / "out" / VALIDATION_FILE)
    assert (compared["queries"], compared["passages"]) == (len(held_out), len(pool))
    assert compared["kept"] == "mean" and compared["start"] == compared["mean"] == compared["trained"]
    assert compared["start"] == pytest.approx(np.mean(ranks), abs=1e-6)


def test_a_comparison_with_the_start_changes_nothing_of_what_is_trained(files: Files, tmp_path: Path) -> None:
    """With dropout, which the ranking of the held-out queries turns off meanwhile."""
    ids = [example.query_id for example in read_examples(files.examples)][::3]
    _validated(files, tmp_path / "compared", ids, v={"keep": "trained"})
    train("retriever", files, tmp_path / "alone", held_out=files.root / "held_out.txt")
    for name in ("losses.jsonl", "model.safetensors"):
        assert (tmp_path / "compared" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


def test_a_training_that_does_harm_leaves_the_weights_of_the_start(files: Files, tmp_path: Path) -> None:
    ids = [example.query_id for example in read_examples(files.examples)][::2]
    few = {"standard_errors": 1.0}  # nine queries show no more
    _validated(files, tmp_path / "model", ids, learning_rate=100.0, v=few)
    compared = read_json(tmp_path / "model" / VALIDATION_FILE)
    assert compared["kept"] == "start" and compared["trained"] < compared["start"]
    start = load_file(files.backbone / "model.safetensors")
    for name, weight in load_file(tmp_path / "model" / "model.safetensors").items():
        assert torch.equal(weight, start[name]), name

    _validated(files, tmp_path / "kept", ids, learning_rate=30.0, v={"keep": "trained"})
    assert read_json(tmp_path / "kept" / VALIDATION_FILE)["kept"] == "trained"
    kept = load_file(tmp_path / "kept" / "model.safetensors")
    assert not all(torch.equal(weight, start[name]) for name, weight in kept.items())
