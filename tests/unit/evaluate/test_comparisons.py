from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from condenser.evaluate.comparisons import make_comparisons
from condenser.evaluate.significance import randomisation_test, standard_error
from tests.unit.evaluate.test_tables import row

ROWS = [row("bm25"), row("condenser-round1"), row("ours", variants=["seed1", "seed2", "seed3"])]


def scores(system: str, variant: str, *, num_queries: int = 40) -> list[float]:
    generator = np.random.default_rng([*system.encode(), *variant.encode()])
    gain = {"bm25": 0.0, "condenser-round1": 0.3, "ours": 0.6}[system]
    return np.clip(generator.random(num_queries) + gain, 0, 1).tolist()


def metrics_files(folder: Path) -> dict[tuple[str, str], Path]:
    files = {}
    for one in ROWS:
        for variant in one["variants"]:
            values = scores(one["system"], variant)
            columns = {"query_id": [str(number) for number in range(len(values))], "MRR@10": values}
            file = folder / f"{one['system']}.{variant}.json"
            file.write_text(json.dumps({"system": one["system"], "per_query": columns}))
            files[one["system"], variant] = file
    return files


def edit(file: Path, **columns: list) -> None:
    content = json.loads(file.read_text())
    content["per_query"].update(columns)
    file.write_text(json.dumps(content))


def test_a_line_for_each_row_and_its_test_against_the_first(tmp_path: Path) -> None:
    frame = make_comparisons(ROWS, metrics_files(tmp_path), measures=["MRR@10"]).set_index("method")
    bm25, plain, ours = (frame.loc[name] for name in ("BM25", "Condenser w/o hard negatives", "Ours"))
    first, second = (
        np.array([scores(*key)]) for key in (("bm25", "untrained"), ("condenser-round1", "seed42"))
    )
    third = np.array([scores("ours", variant) for variant in ROWS[2]["variants"]])
    assert (bm25["mean"], bm25["num_seeds"]) == (pytest.approx(first.mean()), 1)
    assert math.isnan(bm25["p_value"]) and math.isnan(bm25["difference"]) and pd.isna(bm25["against"])
    assert plain["difference"] == pytest.approx(second.mean() - first.mean())
    assert plain["p_value"] == randomisation_test(second - first, num_permutations=10_000, seed=42)[0]
    assert ours["num_seeds"] == 3
    assert ours["sd"] == pytest.approx(third.mean(axis=1).std(ddof=1))
    assert ours["detectable_difference"] > 2.8 * standard_error(third, first)[0]
    for one in (bm25, plain, ours):
        assert one["low"] < one["mean"] < one["high"]
        assert not one["holm_p_value"] < one["p_value"]


def test_queries_in_another_order_are_refused(tmp_path: Path) -> None:
    files = metrics_files(tmp_path)
    edit(files["ours", "seed2"], query_id=[str(number) for number in reversed(range(40))])
    with pytest.raises(ValueError, match=r"ours.seed2.json: expected the judged queries of .*bm25"):
        make_comparisons(ROWS, files, measures=["MRR@10"])


def test_a_missing_measure_is_named_with_its_file(tmp_path: Path) -> None:
    files = metrics_files(tmp_path)
    with pytest.raises(ValueError, match=r"bm25.untrained.json: expected R@1000, got none"):
        make_comparisons(ROWS, files, measures=["R@1000"])
