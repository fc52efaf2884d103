from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from condenser.evaluate.columns import Column
from condenser.evaluate.comparisons import (
    Measured,
    interval_notes,
    make_comparisons,
    measure_columns,
    read_metrics,
    render_comparisons,
    row_names,
    written_p_value,
)
from condenser.files import write_json
from tests.unit.evaluate.test_tables import SIGNIFICANCE, columns_of, row

ROWS = [row("bm25"), row("condenser-round1"), row("ours", variants=["seed1", "seed2", "seed3"])]
PAIRS = [[1, 0], [2, 0], [2, 1]]


def scores(system: str, variant: str, *, num_queries: int = 40) -> list[float]:
    generator = np.random.default_rng([*system.encode(), *variant.encode()])
    gain = {"bm25": 0.0, "condenser-round1": 0.05, "ours": 0.6}[system]
    return np.clip(generator.random(num_queries) + gain, 0, 1).tolist()


def metrics_files(folder: Path, *, num_queries: int = 40) -> list[Path]:
    files = []
    for system, variant in ((one["system"], variant) for one in ROWS for variant in one["variants"]):
        values = scores(system, variant, num_queries=num_queries)
        files.append(folder / f"{system}.{variant}.json")
        write_json(files[-1], {"system": system, "per_query": {"MRR@10": values}})
    return files


def measured_of(files: Sequence[Path], **changes: Any) -> dict[str, Measured]:
    columns = columns_of(["MRR@10"])
    metrics = read_metrics(ROWS, columns, files)
    return measure_columns(ROWS, columns, PAIRS, metrics, significance=SIGNIFICANCE | changes)


@pytest.fixture(scope="module")
def by_column(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Measured]:
    return measured_of(metrics_files(tmp_path_factory.mktemp("metrics")))


def test_a_line_for_each_pair_says_who_is_compared_with_whom_and_what_came_out(
    by_column: dict[str, Measured],
) -> None:
    frame, comparisons = make_comparisons(ROWS, by_column), by_column["MRR@10"].comparisons
    assert frame.columns.tolist() == [
        *("row", "compared_with", "measure", "row_mean", "compared_with_mean"),
        *("difference", "difference_low", "difference_high", "p_value", "holm_p_value", "verdict"),
        *("smallest_detectable_difference", "test", "row_seeds", "compared_with_seeds", "queries"),
    ]
    named = list(zip(frame["row"], frame["compared_with"], frame["verdict"], strict=True))
    assert named == [
        ("Condenser w/o hard negatives", "BM25", "no difference shown"),
        ("Ours", "BM25", "better"),
        ("Ours", "Condenser w/o hard negatives", "better"),
    ]
    means = [np.mean([scores(one["system"], name) for name in one["variants"]]) for one in ROWS]
    assert frame["row_mean"].tolist() == pytest.approx([means[1], means[2], means[2]])
    assert frame["compared_with_mean"].tolist() == pytest.approx([means[0], means[0], means[1]])
    for line, comparison in zip(frame.to_dict("records"), comparisons.values(), strict=True):
        limits = line["difference"], line["difference_low"], line["difference_high"]
        assert limits == (comparison.difference, comparison.low, comparison.high)
        assert line["smallest_detectable_difference"] == comparison.detectable_difference
        assert line["p_value"] == written_p_value(comparison.p_value)
        assert line["holm_p_value"] == written_p_value(comparison.holm_p_value)
    assert frame["test"].tolist() == ["randomisation over queries", *["t test over seeds and queries"] * 2]
    assert frame["row_seeds"].tolist() == ["42", "1,2,3", "1,2,3"]
    assert pd.isna(frame["compared_with_seeds"][0]) and frame["compared_with_seeds"][2] == "42"
    assert set(frame["queries"]) == {40}


def test_level_and_seed_are_those_of_the_configuration(
    tmp_path: Path, by_column: dict[str, Measured]
) -> None:
    default = by_column["MRR@10"]
    files = metrics_files(tmp_path)
    changed = measured_of(files, confidence=0.8, seed=1)["MRR@10"]
    for cell, narrower in zip(default.cells, changed.cells, strict=True):
        assert cell.low < narrower.low < narrower.mean < narrower.high < cell.high
    assert changed.comparisons[1, 0].p_value != default.comparisons[1, 0].p_value
    more = measured_of(files, power=0.95)["MRR@10"].comparisons[1, 0]
    assert more.detectable_difference > default.comparisons[1, 0].detectable_difference


def test_the_terminal_explains_what_is_empty_and_an_interval_that_contradicts_its_verdict(
    by_column: dict[str, Measured],
) -> None:
    frame = make_comparisons(ROWS, by_column)
    assert not re.search("is empty|interval", render_comparisons(frame))
    frame.loc[1, "smallest_detectable_difference"] = pd.NA
    frame.loc[1, ["verdict", "difference_low", "difference_high"]] = ["worse", -0.2, 0.01]
    shown = render_comparisons(frame)
    assert "smallest_detectable_difference is empty where" in shown and "unlike those measured" in shown


def test_rows_of_several_sizes_are_told_apart() -> None:
    rows = [row("bm25"), row("ours", train_queries=250), row("ours")]
    assert row_names(rows) == ["BM25", "Ours, 250 train queries", "Ours, all train queries"]
    assert row_names([row("ours", train_queries=250)]) == ["Ours, 250 train queries"]


def test_a_small_p_value_is_not_written_as_nought() -> None:
    assert [written_p_value(one) for one in (1.0, 0.05, 0.0001, 2.5e-8, 0.0)] == [
        *("1.0000", "0.0500", "0.0001", "2.5e-08", "0.0000"),
    ]


def test_the_terminal_shows_a_block_for_each_reference_in_at_most_120_columns(
    by_column: dict[str, Measured],
) -> None:
    first, second = render_comparisons(make_comparisons(ROWS, by_column)).split("\n\n")
    assert [line.split("  ")[0] for line in first.splitlines()] == [
        *("MRR@10, compared with: BM25", "Condenser w/o hard negatives", "Ours"),
    ]
    assert second.startswith("MRR@10, compared with: Condenser w/o hard negatives  difference")
    assert second.endswith("better") and len(second.splitlines()) == 2
    long = [{**one, "train_queries": 1000} for one in ROWS]
    lines = render_comparisons(make_comparisons(long, by_column)).splitlines()
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize(
    ("verdict", "low", "high", "note"),
    [
        ("no difference shown", 0.01, 0.2, "corrected for all comparisons"),
        ("no difference shown", -0.2, -0.01, "corrected for all comparisons"),
        ("no difference shown", -0.1, 0.1, None),
        ("no difference shown", math.nan, math.nan, None),
        ("better", -0.01, 0.2, "unlike those measured"),
        ("worse", -0.2, 0.01, "unlike those measured"),
        ("worse", -0.2, -0.01, None),
    ],
)
def test_an_interval_that_contradicts_the_verdict_is_explained(
    verdict: str, low: float, high: float, note: str | None
) -> None:
    notes = interval_notes([("better", 0.1, 0.2), (verdict, low, high)])
    assert [note is not None and note in line for line in notes] == [True] * (note is not None)


def test_a_table_with_nothing_to_compare_has_a_header_alone(by_column: dict[str, Measured]) -> None:
    frame = make_comparisons(ROWS, {"MRR@10": replace(by_column["MRR@10"], comparisons={})})
    assert frame.empty and "verdict" in frame
    assert render_comparisons(frame) == "Nothing to compare."


def test_without_judged_queries_nothing_is_claimed(tmp_path: Path) -> None:
    column = measured_of(metrics_files(tmp_path, num_queries=0))["MRR@10"]
    assert column.comparisons == {} and column.num_queries == 0
    assert all(np.isnan([cell.mean, cell.low, cell.high]).all() for cell in column.cells)
    assert len(column.cells) == 3


def test_each_column_is_tested_on_its_own_queries_with_holm_over_the_table(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "test").mkdir()
    dev, test = metrics_files(tmp_path / "dev"), metrics_files(tmp_path / "test", num_queries=25)
    elsewhere = Column("nq/MRR@10", "nq", "test", "MRR@10", "beir", "train", 1000)
    columns = [*columns_of(["MRR@10"]), elsewhere]
    files = read_metrics(ROWS, columns, [*dev, *test])
    both = measure_columns(ROWS, columns, PAIRS, files, significance=SIGNIFICANCE)
    # By text: since Python 3.13 dataclasses with a NaN are not equal to themselves.
    assert repr(both["MRR@10"]) == repr(measured_of(dev)["MRR@10"])
    assert repr(both["nq/MRR@10"]) == repr(measured_of(test)["MRR@10"])
    frame = make_comparisons(ROWS, both)
    assert frame["measure"].tolist() == ["MRR@10"] * 3 + ["nq/MRR@10"] * 3
    assert frame["queries"].tolist() == [40] * 3 + [25] * 3
    assert render_comparisons(frame).count("nq/MRR@10, compared with: ") == 2
