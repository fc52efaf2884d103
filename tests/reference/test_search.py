"""Our search against one IndexFlatIP, and against a plain product in float64."""

from __future__ import annotations

import faiss
import numpy as np
import pytest

from condenser.data.tokens import shard_bounds
from condenser.files import save_npy
from condenser.retrieve import search
from condenser.retrieve.search import merged_run, search_shard, top_passages


def made_up(num_passages: int, num_queries: int, *, copies: int) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings with `copies` of the first passage spread over the collection, and near queries."""
    rng = np.random.default_rng(7)
    passages = rng.standard_normal((num_passages, 24)).astype(np.float32)
    queries = rng.standard_normal((num_queries, 24)).astype(np.float32)
    if copies:
        where = rng.choice(num_passages, copies, replace=False)
        passages[where] = passages[0]
        queries[: num_queries // 2] += 4 * passages[0]  # the copies are the best hits of half the queries
    return passages, queries


def test_hits_equal_one_flat_index():
    passages, queries = made_up(1000, 37, copies=0)
    index = faiss.IndexFlatIP(24)
    index.add(passages)
    expected_scores, expected_rows = index.search(queries, 50)
    rows, scores = top_passages(passages, queries, depth=50, block_rows=64, threads=1)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("read_bytes", [1, 3 * 64 * 24 * 4, 1 << 30])
@pytest.mark.parametrize("depth", [100, 5])  # more than a block; fewer than the ties
def test_ties_go_to_the_lower_row_also_at_the_last_rank(monkeypatch, read_bytes, depth):
    monkeypatch.setattr(search, "READ_BYTES", read_bytes)
    monkeypatch.setattr(search, "SPARE_HITS", 1)
    monkeypatch.setattr(search, "WINDOW", 24)  # a block in three, the last one short
    # more ties than ranks; of whole numbers, so that they tie by whatever kernel they are multiplied
    passages, queries = (np.round(4 * vectors) for vectors in made_up(1000, 20, copies=300))
    rows, scores = top_passages(passages, queries, depth=depth, block_rows=64, threads=1)
    exact = queries.astype(np.float64) @ passages.astype(np.float64).T
    for query in range(20):
        expected = np.lexsort((np.arange(1000), -exact[query]))[:depth]
        np.testing.assert_array_equal(rows[query], expected)
        np.testing.assert_array_equal(scores[query], exact[query, expected])


def test_a_block_seen_by_windows_gives_the_bits_of_the_whole_block(monkeypatch):
    monkeypatch.setattr(search, "SPARE_HITS", 1)
    monkeypatch.setattr(search, "WINDOW", 24)
    real, blocks = search._top_of_block, []

    def counted(block, queries, *, depth):
        blocks.append(len(block))
        return real(block, queries, depth=depth)

    monkeypatch.setattr(search, "_top_of_block", counted)
    passages, queries = made_up(100, 37, copies=30)
    found, everything = (
        top_passages(passages, queries, depth=depth, block_rows=128, threads=1) for depth in (5, 100)
    )
    assert blocks == [100]  # in the search for 5
    for few, all_of_them in zip(found, everything, strict=True):
        assert few.tobytes() == np.ascontiguousarray(all_of_them[:, :5]).tobytes()


def run_of(folder, passages, queries, *, num_shards, depth, block_rows=64):
    """The merged hits, after searching each shard from its file."""
    folder.mkdir()
    save_npy(folder / "queries.npy", queries)
    parts = []
    bounds = shard_bounds(len(passages), num_shards=num_shards, multiple_of=block_rows)
    for number, (begin, end) in enumerate(bounds):
        save_npy(folder / f"{number}.npy", passages[begin:end])
        rows, scores = folder / f"{number}.rows.npy", folder / f"{number}.scores.npy"
        search_shard(
            folder / f"{number}.npy",
            folder / "queries.npy",
            rows,
            scores,
            first_row=begin,
            depth=depth,
            block_rows=block_rows,
            threads=1,
            work_folder=folder / f"work-{number}",
        )
        parts.append((rows, scores))
    query_ids = [f"q{number}" for number in range(len(queries))]
    doc_ids = [f"d{row}" for row in range(len(passages))]
    return list(merged_run(parts, query_ids, doc_ids, depth=depth))


@pytest.mark.parametrize("num_passages", [1000, 70, 3])
def test_the_number_of_shards_changes_no_bit(tmp_path, monkeypatch, num_passages):
    monkeypatch.setattr(search, "QUERIES_PER_PRODUCT", 16)  # three blocks, the last one short
    passages, queries = made_up(num_passages, 37, copies=num_passages // 4)
    whole = run_of(tmp_path / "1", passages, queries, num_shards=1, depth=100)
    assert len(whole) == 37 * min(100, num_passages)
    in_memory, _ = top_passages(passages, queries, depth=100, block_rows=64, threads=1)
    assert [hit.doc_id for hit in whole] == [f"d{row}" for row in in_memory.ravel()]
    monkeypatch.setattr(search, "READ_BYTES", 1)  # a block at a time
    assert run_of(tmp_path / "blocks", passages, queries, num_shards=1, depth=100) == whole
    for num_shards in (2, 3):
        assert (
            run_of(tmp_path / str(num_shards), passages, queries, num_shards=num_shards, depth=100) == whole
        )


def test_depth_beyond_the_collection_gives_every_passage_once(tmp_path):
    passages, queries = made_up(5, 3, copies=0)
    hits = run_of(tmp_path / "x", passages, queries, num_shards=2, depth=1000)
    assert [hit.query_id for hit in hits] == ["q0"] * 5 + ["q1"] * 5 + ["q2"] * 5
    for query in range(3):
        of_query = hits[5 * query : 5 * query + 5]
        assert {hit.doc_id for hit in of_query} == {f"d{row}" for row in range(5)}
        exact = queries[query] @ passages.T
        assert [hit.doc_id for hit in of_query] == [f"d{row}" for row in np.argsort(-exact)]
