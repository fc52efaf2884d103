"""Our search against one IndexFlatIP, and against a plain product in float64: by FAISS and by PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import faiss
import numpy as np
import pytest
import torch

from condenser.data.tokens import shard_bounds
from condenser.files import save_npy
from condenser.retrieve import device_search, exact, search
from condenser.retrieve.device_search import queries_at_once, top_passages_on
from condenser.retrieve.exact import top_passages
from condenser.retrieve.search import merged_run, search_device, search_shard

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="searches on a GPU: PyTorch finds none")
DEVICES = [None, "cpu", pytest.param("cuda", marks=[GPU, pytest.mark.weekly])]  # None: FAISS on the processor


@pytest.fixture(params=DEVICES, ids=lambda name: name or "faiss")
def device(request: pytest.FixtureRequest) -> torch.device | None:
    return request.param and torch.device(request.param)


@pytest.fixture
def top(device: torch.device | None) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """The search of arrays on a device."""
    return partial(top_passages, threads=1) if device is None else partial(top_passages_on, device)


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


def test_hits_equal_one_flat_index(top, monkeypatch):
    monkeypatch.setattr(exact, "QUERIES_PER_PRODUCT", 16)  # three products, the last one short
    monkeypatch.setattr(exact, "WINDOW", 24)
    passages, queries = made_up(1000, 37, copies=0)
    index = faiss.IndexFlatIP(24)
    index.add(passages)
    expected_scores, expected_rows = index.search(queries, 50)
    rows, scores = top(passages, queries, depth=50, block_rows=64)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("read_bytes", [1, 3 * 64 * 24 * 4, 1 << 30])
@pytest.mark.parametrize("depth", [100, 5])  # more than a block; fewer than the ties
def test_ties_go_to_the_lower_row_also_at_the_last_rank(top, monkeypatch, read_bytes, depth):
    monkeypatch.setattr(exact, "READ_BYTES", read_bytes)
    monkeypatch.setattr(exact, "SPARE_HITS", 1)
    monkeypatch.setattr(exact, "WINDOW", 24)  # a block in three, the last one short
    # more ties than ranks; of whole numbers, so that they tie by whatever kernel they are multiplied
    passages, queries = (np.round(4 * vectors) for vectors in made_up(1000, 20, copies=300))
    rows, scores = top(passages, queries, depth=depth, block_rows=64)
    sums = queries.astype(np.float64) @ passages.astype(np.float64).T
    for query in range(20):
        expected = np.lexsort((np.arange(1000), -sums[query]))[:depth]
        np.testing.assert_array_equal(rows[query], expected)
        np.testing.assert_array_equal(scores[query], sums[query, expected])


def test_a_block_seen_by_windows_gives_the_bits_of_the_whole_block(monkeypatch):
    monkeypatch.setattr(exact, "SPARE_HITS", 1)
    monkeypatch.setattr(exact, "WINDOW", 24)
    real, blocks = exact._top_of_block, []

    def counted(block, queries, *, depth):
        blocks.append(len(block))
        return real(block, queries, depth=depth)

    monkeypatch.setattr(exact, "_top_of_block", counted)
    passages, queries = made_up(100, 37, copies=60)
    passages[20] = 2 * passages[0]  # a better hit, late in its window, drives the first of a tie out
    found, everything = (
        top_passages(passages, queries, depth=depth, block_rows=128, threads=1) for depth in (5, 100)
    )
    assert blocks == [100]  # in the search for 5
    for few, all_of_them in zip(found, everything, strict=True):
        assert few.tobytes() == np.ascontiguousarray(all_of_them[:, :5]).tobytes()


def test_few_queries_are_multiplied_as_many_are(monkeypatch):
    """FAISS sums in another order where queries times dimension stay below its threshold."""
    passages, queries = made_up(60, 37, copies=0)
    of_threshold = {}
    for threshold in (0, 1 << 30):
        monkeypatch.setattr(faiss.cvar, "distance_compute_blas_threshold", threshold)
        scores, _ = faiss.knn(queries, passages, 60, metric=faiss.METRIC_INNER_PRODUCT)
        of_threshold[threshold] = scores.tobytes()
    assert of_threshold[0] != of_threshold[1 << 30]
    _, scores = top_passages(passages, queries, depth=60, block_rows=64, threads=1)
    assert scores.tobytes() == of_threshold[0]


def run_of(folder, passages, queries, *, num_shards, depth, block_rows=64, device=None):
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
            device=device,
            work_folder=folder / f"work-{number}",
        )
        parts.append((rows, scores))
    query_ids = [f"q{number}" for number in range(len(queries))]
    doc_ids = [f"d{row}" for row in range(len(passages))]
    return list(merged_run(parts, query_ids, doc_ids, depth=depth))


@pytest.mark.parametrize("num_passages", [1000, 70, 3])
def test_the_number_of_shards_changes_no_bit(top, device, tmp_path, monkeypatch, num_passages):
    monkeypatch.setattr(exact, "QUERIES_PER_PRODUCT", 16)  # three blocks, the last one short
    monkeypatch.setattr(exact, "WINDOW", 24)
    monkeypatch.setattr(device_search, "HELD_BYTES", 1)  # a block of queries at a time
    passages, queries = made_up(num_passages, 37, copies=num_passages // 4)
    searched = partial(run_of, passages=passages, queries=queries, depth=100, device=device)
    whole = searched(tmp_path / "1", num_shards=1)
    assert len(whole) == 37 * min(100, num_passages)
    in_memory, _ = top(passages, queries, depth=100, block_rows=64)
    assert [hit.doc_id for hit in whole] == [f"d{row}" for row in in_memory.ravel()]
    monkeypatch.setattr(exact, "READ_BYTES", 1)  # a block at a time
    assert searched(tmp_path / "blocks", num_shards=1) == whole
    monkeypatch.setattr(search, "HITS_AT_ONCE", 1000)  # merges five queries at a time, or fewer
    monkeypatch.setattr(device_search, "HELD_BYTES", 1 << 20)  # all queries at a time
    for num_shards in (2, 3):
        assert searched(tmp_path / str(num_shards), num_shards=num_shards) == whole


@pytest.mark.parametrize("ascending", [False, True])  # True: every passage is a hit when it comes
@pytest.mark.parametrize(("depth", "window"), [(7, 16), (40, 3), (5000, 1000)])
def test_pytorch_finds_the_bytes_of_faiss_where_products_are_exact(monkeypatch, depth, window, ascending):
    """Whole numbers: every sum is exact in float32, and there are ties at every rank."""
    monkeypatch.setattr(exact, "QUERIES_PER_PRODUCT", 10)
    monkeypatch.setattr(exact, "SPARE_HITS", 1)  # FAISS has to go through the windows too
    monkeypatch.setattr(exact, "WINDOW", window)
    rng = np.random.default_rng(3)
    passages, queries = (rng.integers(-3, 4, (rows, 12)).astype(np.float32) for rows in (1013, 33))
    if ascending:
        passages = passages[np.argsort(passages @ queries[0])]
    found = [
        top(passages, queries, depth=depth, block_rows=128)
        for top in (partial(top_passages, threads=1), partial(top_passages_on, torch.device("cpu")))
    ]
    for theirs, ours in zip(*found, strict=True):
        assert ours.dtype == theirs.dtype and ours.tobytes() == np.ascontiguousarray(theirs).tobytes()


def test_scores_of_pytorch_are_those_of_faiss_to_the_rounding_of_float32():
    rng = np.random.default_rng(5)
    passages, queries = (rng.standard_normal((rows, 384)).astype(np.float32) for rows in (3000, 20))
    rows, scores = top_passages(passages, queries, depth=100, block_rows=1024, threads=1)
    ours, our_scores = top_passages_on(torch.device("cpu"), passages, queries, depth=100, block_rows=1024)
    np.testing.assert_array_equal(ours, rows)
    np.testing.assert_allclose(our_scores, scores, rtol=4e-6, atol=1e-5)


def test_queries_are_held_in_whole_products_at_least_one():
    assert queries_at_once(dim=1 << 20, depth=10**6) == exact.QUERIES_PER_PRODUCT
    assert queries_at_once(dim=384, depth=200) % exact.QUERIES_PER_PRODUCT == 0


def test_only_a_gpu_that_is_asked_for_must_be_there(monkeypatch):
    assert search_device("cpu", threads=1, multiplications=1e15) is None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert search_device("auto", threads=1, multiplications=1e15) is None
    with pytest.raises(ValueError, match=r"compute\.device: expected a GPU, PyTorch finds none"):
        search_device("cuda", threads=1, multiplications=1.0)


def test_a_small_search_leaves_the_gpu_to_others(monkeypatch):
    gpu = torch.device("cuda", 0)
    monkeypatch.setattr("condenser.retrieve.device_search.free_gpu", lambda name, threads: gpu)
    monkeypatch.setattr(search.Path, "glob", lambda folder, pattern: iter([folder / "nvidia0"]))
    assert search_device("auto", threads=1, multiplications=search.SMALL_SEARCH) == gpu
    assert search_device("auto", threads=1, multiplications=search.SMALL_SEARCH - 1) is None
    assert search_device("cuda", threads=1, multiplications=1.0) == gpu
