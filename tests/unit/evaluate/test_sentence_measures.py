"""Spearman's correlation and accuracy on triplets, with intervals and tests held to SciPy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from condenser.data.records import Item, read_similarities, write_items, write_similarities
from condenser.evaluate import published
from condenser.evaluate.columns import Column
from condenser.evaluate.measures import parse
from condenser.evaluate.metrics import evaluate_sentences
from condenser.evaluate.significance import interval, paired_tests
from condenser.evaluate.tables import render_table
from condenser.papers.measures import accuracy, spearman
from tests.unit.evaluate.test_tables import made, row


def scores(num_items: int, noise: float, *, seed: int, decimals: int = 6) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = np.round(generator.uniform(0, 5, size=num_items), 1)
    return np.round(labels + generator.normal(scale=noise, size=num_items), decimals), labels


@pytest.mark.parametrize("decimals", [6, 0])  # without and with many ties
def test_the_correlation_is_scipys_also_without_each_item(decimals: int) -> None:
    first, second = scores(40, 1.0, seed=1, decimals=decimals)
    assert spearman.correlation(first, second) == pytest.approx(stats.spearmanr(first, second).statistic)
    without = [
        stats.spearmanr(np.delete(first, item), np.delete(second, item)).statistic for item in range(40)
    ]
    np.testing.assert_allclose(spearman.correlations_without_each(first, second), without, rtol=1e-12)


def test_pseudo_values_have_the_correlation_as_their_mean_and_its_jackknife_error_as_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = scores(50, 1.0, seed=2)
    values = spearman.values(first[:, None], second)
    assert values.mean() == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-12)
    without = spearman.correlations_without_each(first, second)
    jackknife = np.sqrt(49 / 50 * ((without - without.mean()) ** 2).sum())
    assert values.std(ddof=1) / np.sqrt(50) == pytest.approx(jackknife)
    monkeypatch.setattr(spearman, "_CELLS_AT_ONCE", 120)  # two items at a time
    np.testing.assert_array_equal(spearman.values(first[:, None], second), values)


def test_similarities_that_are_all_equal_order_nothing() -> None:
    labels = np.array([1.0, 2.0, 3.0])
    assert spearman.correlation(np.ones(3), labels) == 0
    np.testing.assert_array_equal(spearman.values(np.ones((3, 1)), labels), np.zeros(3))


@pytest.mark.parametrize("noise", [0.5, 2.0])  # correlations of about .9 and .55
def test_the_interval_of_a_correlation_is_that_of_scipys_bootstrap_over_pairs(noise: float) -> None:
    first, second = scores(300, noise, seed=3)
    ours = interval(spearman.values(first[:, None], second)[None], confidence=0.95, ends=(-1.0, 1.0))
    theirs = stats.bootstrap(
        (first, second), lambda a, b: stats.spearmanr(a, b).statistic, paired=True, vectorized=False,
        n_resamples=1000, method="percentile", rng=np.random.default_rng(4),
    )  # fmt: skip
    low, high = theirs.confidence_interval
    assert ours == pytest.approx((low, high), abs=0.16 * (high - low))  # ours allows for two more pairs


def test_two_systems_of_one_quality_differ_significantly_about_as_often_as_the_level_says() -> None:
    """The paired test on pseudo-values, of two correlations with the same scores; 300 pairs of systems."""
    p_values = []
    for seed in range(300):
        first, labels = scores(120, 1.5, seed=2 * seed)
        other = labels + np.random.default_rng(2 * seed + 1).normal(scale=1.5, size=120)
        values = [spearman.values(one[:, None], labels)[None] for one in (first, other)]
        p_values += paired_tests([(values[0], values[1])], num_permutations=1000, seed=1)
    share = np.mean(np.array(p_values) <= 0.05)
    assert 0.02 <= share <= 0.085  # 95 % of binomials of 300 with .05 lie within .027 and .077


def test_accuracy_counts_triplets_whose_positive_is_nearer() -> None:
    similarities = np.array([[-1.0, -2.0], [-3.0, -2.0], [-2.0, -2.0], [-0.5, -0.6]])
    assert accuracy.values(similarities, np.full(4, np.nan)).tolist() == [1, 0, 0, 1]


def test_measures_of_sentences_have_no_depth() -> None:
    assert (parse("spearman").task, parse("spearman").least) == ("similarity", -1)
    assert parse("accuracy").task == "triplets"
    assert parse("MRR@10").task is None and parse("MRR@10").least == 0


def written(folder: Path, similarities: dict[str, float]) -> tuple[Path, Path]:
    pairs = [Item(name, ("a", "b"), label) for name, label in zip("wxyz", (1.0, 2.0, 4.0, 5.0), strict=True)]
    write_items(folder / "items.test.jsonl", pairs)
    write_similarities(folder / "similarities.tsv", [(name, [value]) for name, value in similarities.items()])
    return folder / "similarities.tsv", folder / "items.test.jsonl"


def test_the_metrics_of_sentences_hold_the_measure_and_every_items_values(tmp_path: Path) -> None:
    files = written(tmp_path, {"w": 0.1, "x": 0.3, "y": 0.2, "z": 0.9})
    counts = evaluate_sentences(*files, tmp_path / "metrics.json", system="ours", measures=["spearman"])
    content = json.loads((tmp_path / "metrics.json").read_text())
    assert counts == content["counts"] == {"queries": 4} and content["system"] == "ours"
    assert content["measures"]["spearman"] == pytest.approx(0.8)  # ranks 1 3 2 4: 1 - 6 * 2 / (4 * 15)
    assert content["per_query"]["query_id"] == ["w", "x", "y", "z"]
    assert np.mean(content["per_query"]["spearman"]) == pytest.approx(0.8)


def test_similarities_keep_every_float32(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=20).astype(np.float32)
    write_similarities(tmp_path / "s.tsv", [(str(row), [float(value)]) for row, value in enumerate(values)])
    read = np.array([value for _, (value,) in read_similarities(tmp_path / "s.tsv")], dtype=np.float32)
    np.testing.assert_array_equal(read, values)


def test_published_correlations_stand_beside_the_official_data_by_method_and_train_size() -> None:
    rows = [
        row("start", method="Start", variants=["untrained"]),
        row("bert", method="BERT", variants=["n500-seed1", "n500-seed2"], train_queries=500),
        row("ours", method="Condenser"),
    ]
    results = {"start": [0.3], ("bert", "n500-seed1"): [0.64], ("bert", "n500-seed2"): [0.66], "ours": [0.8]}
    # as a source of sentences writes it
    counts = {"passages": 100, "queries": {}, "qrels": {}, "items": {"train": 50, "test": 60}}
    table = made(
        rows,
        columns=[Column("spearman", "stsb", "test", "spearman", "stsb", "train", 0)],
        counts={"stsb": {**counts, "official": "STS benchmark"}},
        results=results,
        comparisons=[[1, 0], [2, 0]],
        starts=[None, 0, 0],
        published=published.rows_of([published.file("condenser_table1")]),
    )
    ours = table[table["origin"] == "measured"].set_index("method")
    assert set(table["collection"]) == {"STS benchmark"}
    assert len(table) == 10 + 3  # two of the published twelve stand beside ours
    assert set(table["train_queries"]) >= {500, 1000, "all"}
    assert ours["spearman_published"].astype(object).tolist() == [pd.NA, 0.686, 0.856]
    assert ours["compared_with_start"].tolist()[1:] == ["better", "better"]
    said = render_table(table, confidence=0.95)
    assert "60 test items" in said and "do not compare" not in said
