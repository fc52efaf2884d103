"""What counts as the same vectors and the same ranking, by hand; and a small model that is checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_retrievers import random_retriever

from condenser.data.records import Passage, Query, write_passages, write_queries
from condenser.export import agreement, export
from condenser.export.agreement import (
    _own_vectors,
    _stored_vectors,
    check_agreement,
    largest_difference,
    refuse_disagreement,
    same_rankings,
)
from condenser.export.folders import write_model
from condenser.files import save_npy
from condenser.model.devices import set_up

SCORES = np.array([[0.9, 0.5, 0.5, 0.1], [1.8, 1.0, 1.0, 20.0]], np.float32)


def test_passages_of_one_score_may_change_places_and_no_others() -> None:
    nearly = SCORES + np.array([0.0, 1e-7, 2e-7, 0.0], np.float32)
    assert same_rankings(SCORES, nearly).all()
    assert same_rankings(SCORES, SCORES[:, [0, 2, 1, 3]]).all()
    assert same_rankings(SCORES, SCORES[:, [1, 0, 2, 3]]).tolist() == [False, False]
    assert same_rankings(SCORES, np.where(SCORES == 20.0, 1.7, SCORES)).tolist() == [True, False]


def test_a_difference_is_a_part_of_the_length() -> None:
    expected = np.array([[3.0, 4.0], [0.6, 0.8]], np.float32)
    assert largest_difference(expected, expected) == 0.0
    found = expected + np.array([[0.0, 1.0], [0.1, 0.0]], np.float32)
    assert largest_difference(expected, found) == pytest.approx(0.2)


def test_vectors_of_shards_are_those_of_the_whole() -> None:
    whole = np.arange(10, dtype=np.float32).reshape(5, 2)
    rows = np.array([0, 2, 3, 4])
    assert np.array_equal(_stored_vectors([whole[:3], whole[:0], whole[3:]], rows), whole[rows])


@pytest.mark.parametrize(
    ("same", "difference", "passes"),
    [(50, 1e-5, True), (50, 1e-4, True), (49, 0.0, False), (50, 2e-4, False), (50, np.nan, False)],
)
def test_a_library_that_ranks_otherwise_is_refused_in_one_line(
    same: int, difference: float, passes: bool
) -> None:
    result = {"library": "sentence-transformers", "version": "6.2.0", "queries": 50, "passages": 50,
              "same_rankings": same, "largest_difference": difference}  # fmt: skip
    if passes:
        refuse_disagreement(result)
        return
    with pytest.raises(ValueError, match=r"transformers 6\.2\.0: expected this workflow's vectors") as said:
        refuse_disagreement(result)
    assert "\n" not in str(said.value)


ENCODE = {"separator": "titled", "batch_tokens": 256}
LENGTHS = {"query": 6, "passage": 12}


def checked(folder: Path, *, num_passages: int, has_queries: bool = True) -> dict[str, Any]:
    """The check of a small model with a title before every third passage; its vectors lie in two shards."""
    source = random_retriever(folder, pooling="mean", normalised=False, tied=False)
    write_model(source, folder / "model", query_length=6, passage_length=12)
    words = ["abc", "abd", "bcd"]
    passages = [
        Passage(
            f"d{row}", "abd" if row % 3 == 0 else "", " ".join(words[(row // 3**n) % 3] for n in range(5))
        )
        for row in range(num_passages)
    ]
    write_passages(folder / "collection.jsonl", passages)
    write_queries(folder / "queries.jsonl", [Query(f"q{n}", f"bcd {words[n % 3]}") for n in range(70)])
    compute = set_up(device="cpu", precision="fp32", threads=1)
    texts = [(passage.title, passage.text) for passage in passages]
    vectors = _own_vectors(source, texts, "passage", LENGTHS, ENCODE, compute)
    shards = [folder / "0.npy", folder / "1.npy"]
    if not (folder / "0.npy").exists():
        save_npy(shards[0], vectors[:2])
        save_npy(shards[1], vectors[2:])
    return check_agreement(
        source, folder / "model", shards, folder / "collection.jsonl",
        folder / "queries.jsonl" if has_queries else None,
        lengths=LENGTHS, encode=ENCODE, threads=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("num_passages", "has_queries", "counts"),
    [(120, True, (50, 50, "queries.jsonl")), (3, False, (3, 3, "passages"))],
)
def test_at_most_a_hundred_texts_are_compared(
    tmp_path: Path, num_passages: int, has_queries: bool, counts: tuple[int, int, str]
) -> None:
    result = checked(tmp_path, num_passages=num_passages, has_queries=has_queries)
    assert (result["queries"], result["passages"], result["query_texts"]) == counts
    assert result["passages_of_collection"] == num_passages
    assert result["same_rankings"] == result["queries"]
    assert 0 < result["largest_difference"] < 1e-5
    assert result["stored_vectors"]["largest_deviation"] < 1e-5


def test_stored_vectors_of_other_passages_are_refused(tmp_path: Path) -> None:
    save_npy(tmp_path / "0.npy", np.ones((2, 12), np.float32))
    save_npy(tmp_path / "1.npy", np.ones((118, 12), np.float32))
    with pytest.raises(ValueError, match=r"0\.npy: expected the vectors that .* deviate by \d+%") as said:
        checked(tmp_path, num_passages=120)
    assert "\n" not in str(said.value)


def test_an_export_that_is_refused_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked(tmp_path, num_passages=4)
    (tmp_path / "doc_ids.txt").write_text("d0\nd1\nd2\nd3\n")
    save_npy(tmp_path / "1.npy", np.ones((2, 12), np.float32))
    monkeypatch.setattr(export, "write_onnx", lambda encoder: None)
    empty: dict[str, Any] = {"spec": {}, "counts": {}, "metrics": None, "texts": None}
    with pytest.raises(ValueError, match=r"0\.npy: expected the vectors that"):
        export.export_retriever(
            tmp_path / "untied", tmp_path / "out/export", embeddings=[tmp_path / "0.npy", tmp_path / "1.npy"],
            collection=tmp_path / "collection.jsonl", doc_ids=tmp_path / "doc_ids.txt", queries=None,
            lengths=LENGTHS, encode=ENCODE, threads=1, **empty,
        )  # fmt: skip
    assert list((tmp_path / "out").iterdir()) == []


def test_a_model_that_is_pooled_otherwise_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pooled_otherwise(*arguments: Any, **options: Any) -> Any:
        for file in (tmp_path / "model").rglob("1_Pooling/config.json"):
            settings = json.loads(file.read_text())
            file.write_text(json.dumps(settings | {"pooling_mode": "cls"}))
        return vectors(*arguments, **options)

    vectors = agreement._stored_vectors
    monkeypatch.setattr(agreement, "_stored_vectors", pooled_otherwise)
    with pytest.raises(ValueError, match="Nothing was exported"):
        checked(tmp_path, num_passages=12)
