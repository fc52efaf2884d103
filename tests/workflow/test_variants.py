"""Train sizes and seeds side by side: subsets lie in each other, and no file is made twice or overwritten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graphs import Graph, Load, rules
from made import make
from runs import TARGET, digests, finished, rows_of

from condenser.data.subsets import read_subset
from condenser.files import read_json

LOW_DATA = {
    "rows": ["cocondenser-round2", "bm25"],
    "measures": ["MRR@10"],
    "train_queries": [30, 90, "all"],
    "seeds": [42, 7],
}
TABLE, TESTS = "results/tiny/low_data.tsv", "results/tiny/low_data.tests.tsv"


@pytest.fixture(scope="module")
def graph(load: Load) -> Graph:
    return load({"tables": {"low_data": LOW_DATA}}, configfile="configs/tiny.yaml")


def test_no_two_jobs_of_a_table_of_variants_write_one_file(graph: Graph) -> None:
    files = Counter(file for job in graph.jobs(TABLE) for file in graph.outputs(job))
    assert len(files) > 250 and set(files.values()) == {1}


def test_a_variant_trains_and_ranks_and_shares_all_else(graph: Graph, load: Load) -> None:
    default = set(load(configfile="configs/tiny.yaml").jobs(TARGET))
    new = set(graph.jobs(TABLE)) - default
    assert rules(new) == {
        "subset", "held_out", "examples", "train", "encode", "encode_queries", "search", "merge", "metrics",
        "table",
    }  # fmt: skip
    variants = {f"{size}seed{seed}" for size in ("n30-", "n90-", "") for seed in (42, 7)}
    trained = {job.split()[-1] for job in graph.jobs(TABLE) if job.startswith("train ")}
    assert trained == variants
    assert not [
        job for job in graph.jobs(TABLE) if job.startswith(("pretrain", "bm25_run")) and "seed" in job
    ]


def test_the_tests_of_a_table_need_its_metrics_and_nothing_else(graph: Graph) -> None:
    table, tests = set(graph.jobs(TABLE)), set(graph.jobs(TESTS))
    assert tests - table == {"compare tiny low_data"}
    assert table - tests == {"table tiny low_data", "lengths tiny backbone"}


def test_a_variant_of_fewer_queries_reads_its_subset_wherever_it_reads_train_queries(graph: Graph) -> None:
    graph.jobs(TABLE)
    subset = "results/tiny/subsets/n30-seed7.txt"
    readers = {job for job in graph.jobs(TABLE) if subset in graph.inputs(job)}
    assert readers == {
        "examples tiny bm25 n30-seed7",
        "examples tiny cocondenser-round1 n30-seed7",
        "encode_queries tiny cocondenser-round1 n30-seed7 train",
        "merge tiny cocondenser-round1 n30-seed7 train",
        "held_out tiny n30-seed7",
    }
    for job in readers:
        assert any(key.startswith("subset") for key in graph.spec(job)["lineage"]), job


def test_train_size_and_seed_stand_in_the_spec_of_what_draws(graph: Graph) -> None:
    graph.jobs(TABLE)
    settings = graph.spec("subset tiny n30-seed7")["config"]
    assert settings == {"train_queries": 30, "seed": 7}
    assert graph.spec("train tiny cocondenser-round2 n30-seed7")["config"]["seed"] == 7
    assert graph.spec("examples tiny bm25 n30-seed42")["config"]["seed"] == 42
    assert graph.spec("pretrain tiny cocondenser")["config"]["seed"] == 42  # the configuration's


@pytest.mark.ci
def test_two_train_sizes_and_two_seeds_are_made_side_by_side(
    golden: Path, copy_of_golden: Callable[[], Path]
) -> None:
    folder = copy_of_golden()
    table: dict[str, Any] = {**LOW_DATA, "rows": ["cocondenser-round1", "bm25"], "train_queries": [30, 90]}
    (folder / "overlay.yaml").write_text(f"tables: {{low_data: {table}}}\n")
    made = make(folder, TESTS, TABLE, overlays=["overlay.yaml"])
    assert "train" in made and not {"tokens", "query_tokens", "pretrain"} & made
    after = digests(folder)
    assert {name: after.get(name) for name in digests(golden)} == digests(golden)  # nothing overwritten

    tiny = folder / "results" / "tiny"
    ids = (tiny / "data" / "queries.train.jsonl").read_text()
    subsets = {file.stem: read_subset(file) for file in (tiny / "subsets").glob("*.txt")}
    assert {name: len(subset) for name, subset in subsets.items()} == {
        "n30-seed42": 30, "n90-seed42": 90, "n30-seed7": 30, "n90-seed7": 90
    }  # fmt: skip
    for seed in (42, 7):
        assert subsets[f"n30-seed{seed}"] < subsets[f"n90-seed{seed}"]
    assert subsets["n30-seed42"] != subsets["n30-seed7"]
    assert all(f'"{one}"' in ids for subset in subsets.values() for one in subset)
    models = {
        read_json(file)["outputs"]["model/model.safetensors"]
        for file in tiny.glob("systems/cocondenser-round1/*/model.manifest.json")
    }
    assert len(models) == 5  # of four variants, and of all queries
    rows = [row for row in rows_of(folder / TABLE) if row["origin"] == "measured"]
    trained = [(row["train_queries"], row["seeds"]) for row in rows if row["seeds"]]
    assert trained == [("30", "42,7"), ("90", "42,7")]
    lines = rows_of(folder / TESTS)
    first = "coCondenser w/o hard negatives, 30 train queries"
    assert [(line["row"], line["compared_with"], line["row_seeds"]) for line in lines] == [
        ("coCondenser w/o hard negatives, 90 train queries", first, "42,7"),
        ("BM25", first, ""),
    ]
    assert 0 < float(lines[1]["p_value"]) <= 1
    assert "0 findings" in finished(folder, target="verify", overlays=["overlay.yaml"])
