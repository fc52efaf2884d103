from __future__ import annotations

import numpy as np
import pytest

from condenser.files import save_npy
from condenser.retrieve import exact, search
from condenser.retrieve.exact import best_of, top_of_shards, top_passages
from condenser.retrieve.search import search_shard


def embeddings(rows, dim=8, seed=1):
    return np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32)


def searched(folder, *, first_row=0, depth=5, work="work"):
    return search_shard(
        folder / "passages.npy",
        folder / "queries.npy",
        folder / "rows.npy",
        folder / "scores.npy",
        first_row=first_row,
        depth=depth,
        block_rows=8,
        threads=1,
        work_folder=folder / work,
    )


def test_an_interrupted_search_resumes_after_its_finished_blocks(tmp_path, monkeypatch, noted):
    monkeypatch.setattr(exact, "QUERIES_PER_PRODUCT", 4)
    save_npy(tmp_path / "passages.npy", embeddings(30))
    save_npy(tmp_path / "queries.npy", embeddings(10, seed=2))
    searched(tmp_path, first_row=16, work="another")
    whole = [(tmp_path / name).read_bytes() for name in ("rows.npy", "scores.npy")]
    done = noted(search, "top_passages", lambda passages, queries, **_: len(queries), breaks_at=2)
    with pytest.raises(KeyboardInterrupt):
        searched(tmp_path, first_row=16)
    for searches in ([4, 4, 4, 2], [4, 4, 4, 2, 2]):  # the last block goes straight into the results
        searched(tmp_path, first_row=16)
        assert done == searches  # the first block was not computed again
        assert [(tmp_path / name).read_bytes() for name in ("rows.npy", "scores.npy")] == whole


@pytest.mark.parametrize("part", ["rows-000000004.npy", "scores-000000004.npy"])
def test_a_block_of_which_a_file_is_missing_is_searched_again(tmp_path, monkeypatch, noted, part):
    monkeypatch.setattr(exact, "QUERIES_PER_PRODUCT", 4)
    save_npy(tmp_path / "passages.npy", embeddings(30))
    save_npy(tmp_path / "queries.npy", embeddings(10, seed=2))
    searched(tmp_path)
    whole = [(tmp_path / name).read_bytes() for name in ("rows.npy", "scores.npy")]
    (tmp_path / "work" / part).unlink()
    done = noted(search, "top_passages", lambda passages, queries, **_: len(queries))
    searched(tmp_path)
    assert done == [4, 2]  # the last block is never kept
    assert [(tmp_path / name).read_bytes() for name in ("rows.npy", "scores.npy")] == whole


def test_a_shard_without_passages_has_no_hits(tmp_path):
    save_npy(tmp_path / "passages.npy", embeddings(0))
    save_npy(tmp_path / "queries.npy", embeddings(3))
    assert searched(tmp_path, first_row=8) == {"queries": 3, "passages": 0, "depth": 0}
    assert np.load(tmp_path / "rows.npy").shape == (3, 0)


def test_the_best_keep_the_order_of_ties():
    hits = np.array([[4, 7, 1, 3]]), np.array([[1.0, 2.0, 2.0, 1.0]], np.float32)
    rows, scores = best_of([hits], depth=3)
    assert rows.tolist() == [[7, 1, 4]]
    assert scores.tolist() == [[2.0, 2.0, 1.0]]


def test_rows_of_shards_are_counted_over_all_of_them():
    whole, queries = embeddings(30), embeddings(4, seed=2)
    options = {"depth": 7, "block_rows": 8, "threads": 1}
    expected = top_passages(whole, queries, **options)
    for number in range(2):
        found = top_of_shards([whole[:8], whole[8:24], whole[24:]], queries, **options)[number]
        np.testing.assert_array_equal(found, expected[number])
