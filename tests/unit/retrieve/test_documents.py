"""Documents are ranked by their best passages, exactly, whatever the depth and the shards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from condenser.data.records import ScoredDoc, document_of, read_run, write_run
from condenser.evaluate.answers import answering_pairs
from condenser.files import save_npy
from condenser.retrieve import documents as documents_module
from condenser.retrieve.documents import documents_of_rows
from condenser.retrieve.search import merged_run, search_shard

BLOCK_ROWS = 8


def collection(random: np.random.Generator, *, num_documents: int) -> list[str]:
    """Ids of passages, of 1 to 9 for each document; every fourth document has 40."""
    sizes = random.integers(1, 10, num_documents)
    sizes[::4] = 40
    return [f"d{document}#{one + 1}" for document, size in enumerate(sizes.tolist()) for one in range(size)]


def slow_max_p(
    queries: np.ndarray, passages: np.ndarray, ids: Sequence[str], *, depth: int
) -> list[list[tuple[str, str]]]:
    """Document and best passage, from the scores of all passages, sorted by score and then by row."""
    rankings = []
    for query in queries:
        best: dict[str, tuple[float, int]] = {}
        for row, vector in enumerate(passages):
            score = -float(query @ vector), row
            document = ids[row].split("#")[0]
            best[document] = min(best.get(document, score), score)
        ranked = sorted(best, key=lambda document: best[document])[:depth]
        rankings.append([(document, ids[best[document][1]]) for document in ranked])
    return rankings


def searched(
    folder: Path,
    queries: np.ndarray,
    passages: np.ndarray,
    ids: Sequence[str],
    *,
    depth: int,
    bounds: list[int],
    device: torch.device | None = None,
) -> list[list[ScoredDoc]]:
    """The run by the search of shards that end at `bounds`."""
    save_npy(folder / "queries.npy", queries)
    parts = []
    for number, (start, end) in enumerate(zip([0, *bounds], [*bounds, len(ids)], strict=True)):
        save_npy(folder / f"{number}.npy", passages[start:end])
        parts.append((folder / f"{number}.rows.npy", folder / f"{number}.scores.npy"))
        search_shard(
            folder / f"{number}.npy",
            folder / "queries.npy",
            *parts[-1],
            first_row=start,
            depth=depth,
            block_rows=BLOCK_ROWS,
            threads=1,
            work_folder=folder / f"work-{number}",
            device=device,
            documents=documents_of_rows(ids[start:end]),
        )
    query_ids = [f"q{row}" for row in range(len(queries))]
    run = list(merged_run(parts, query_ids, ids, depth=depth, is_split=True))
    return [[hit for hit in run if hit.query_id == query_id] for query_id in query_ids]


def whole_numbers(random: np.random.Generator, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of small whole numbers, whose products are exact and often tie; two documents crowd the top."""
    queries = random.integers(-3, 4, (11, 6)).astype(np.float32)
    passages = random.integers(-3, 4, (len(ids), 6)).astype(np.float32)
    of_first = [row for row, one in enumerate(ids) if document_of(one) in ("d0", "d4")]
    passages[of_first] = 3 * np.sign(queries[0])
    return queries, passages


@pytest.mark.parametrize("is_split", [True, False])
def test_a_run_has_its_depth_without_the_own_text_of_a_query(tmp_path: Path, is_split: bool) -> None:
    ids = ["d0#1", "d0#2", "d1#1", "d2#1", "d3#1"] if is_split else ["d0", "d1", "d2", "d3"]
    rows, scores = np.arange(len(ids))[None].repeat(2, 0), -np.arange(len(ids), dtype=np.float32)[None]
    save_npy(tmp_path / "rows.npy", rows)
    save_npy(tmp_path / "scores.npy", scores.repeat(2, 0))
    parts = [(tmp_path / "rows.npy", tmp_path / "scores.npy")]
    run = merged_run(parts, ["d0", "q"], ids, depth=2, in_collection={"d0"}, is_split=is_split)
    hits = [(hit.query_id, hit.doc_id) for hit in run]
    assert hits == [("d0", "d1"), ("d0", "d2"), ("q", "d0"), ("q", "d1")]


@pytest.mark.parametrize("device", [None, torch.device("cpu")], ids=["FAISS", "PyTorch"])
@pytest.mark.parametrize("depth", [1, 3, 10, 1000])
def test_a_run_is_max_p_over_all_passages(tmp_path: Path, depth: int, device: torch.device | None) -> None:
    random = np.random.default_rng(0)
    ids = collection(random, num_documents=30)
    queries, passages = whole_numbers(random, ids)
    found = searched(tmp_path, queries, passages, ids, depth=depth, bounds=[], device=device)
    expected = slow_max_p(queries, passages, ids, depth=depth)
    assert [[(hit.doc_id, hit.passage_id) for hit in hits] for hits in found] == expected
    assert all(len(hits) == min(depth, 30) for hits in found)
    for query, hits in zip(queries, found, strict=True):
        scores = [float(query @ passages[ids.index(hit.passage_id)]) for hit in hits]
        assert [hit.score for hit in hits] == scores


def test_three_shards_give_the_run_of_one_although_they_cut_documents(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    ids = collection(random, num_documents=25)
    queries, passages = whole_numbers(random, ids)
    bounds = [2 * BLOCK_ROWS, 9 * BLOCK_ROWS]
    assert any(document_of(ids[end - 1]) == document_of(ids[end]) for end in bounds), "a document is cut"
    (tmp_path / "one").mkdir()
    whole = searched(tmp_path / "one", queries, passages, ids, depth=7, bounds=[])
    (tmp_path / "three").mkdir()
    assert searched(tmp_path / "three", queries, passages, ids, depth=7, bounds=bounds) == whole


def test_a_search_goes_on_until_there_are_enough_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One document has so many of the best passages that the first search finds no other one."""
    monkeypatch.setattr(documents_module, "OVERSAMPLING", 2)
    ids = [f"long#{number}" for number in range(1, 101)] + ["a#1", "b#1", "c#1"]
    passages = np.array([[9.0]] * 100 + [[1.0], [3.0], [2.0]], np.float32)
    (hits,) = searched(tmp_path, np.ones((1, 1), np.float32), passages, ids, depth=3, bounds=[])
    assert [(hit.doc_id, hit.passage_id, hit.score) for hit in hits] == [
        ("long", "long#1", 9.0),
        ("b", "b#1", 3.0),
        ("c", "c#1", 2.0),
    ]


def test_the_passage_of_a_hit_stands_where_evaluation_tools_read_nothing(tmp_path: Path) -> None:
    hits = [ScoredDoc("q", "d#2", 2.5, "d#2#7"), ScoredDoc("q", "e", 1.5)]
    write_run(tmp_path / "run", hits, system="s")
    assert (tmp_path / "run").read_text() == "q d#2#7 d#2 1 2.5 s\nq Q0 e 2 1.5 s\n"
    assert list(read_run(tmp_path / "run")) == hits
    assert [hit.text_id for hit in hits] == ["d#2#7", "e"]
    pytrec_eval = pytest.importorskip("pytrec_eval")
    with (tmp_path / "run").open() as file:
        assert pytrec_eval.parse_run(file) == {"q": {"d#2": 2.5, "e": 1.5}}


def test_the_passage_that_was_found_decides_whether_a_document_has_the_answer(tmp_path: Path) -> None:
    texts = {"d#1": "nothing", "d#2": "the answer is Paris", "e#1": "Paris it is", "e#2": "nothing"}
    (tmp_path / "collection.jsonl").write_text(
        "".join(f'{{"doc_id": "{one}", "title": "", "text": "{text}"}}\n' for one, text in texts.items())
    )
    (tmp_path / "queries.jsonl").write_text('{"query_id": "q", "text": "?", "answers": ["Paris"]}\n')
    write_run(
        tmp_path / "run", [ScoredDoc("q", "d", 2.0, "d#2"), ScoredDoc("q", "e", 1.0, "e#2")], system="s"
    )
    pairs = answering_pairs(
        tmp_path / "run", tmp_path / "collection.jsonl", tmp_path / "queries.jsonl", depth=None
    )
    assert pairs == {("q", "d")}
