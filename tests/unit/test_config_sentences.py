"""Data sets of sentences, their recipes, systems and tables, as the configuration has them."""

from __future__ import annotations

from typing import Any

import pytest

from condenser.config import validated
from condenser.nouns import Config
from condenser.pipeline.specs import job_settings
from condenser.settings import merged, plain
from condenser.shown import table_entry, table_rows


@pytest.fixture(scope="module")
def config(written: dict[str, Any]) -> Config:
    longer = {"kind": "sentence_encoder", "initial": "backbone", "recipe": {"epochs": 8}}
    words = {"kind": "word_vectors", "path": "glove.txt"}
    return validated(merged(written, {"systems": {"longer": longer, "glove": words}}))


def test_a_table_has_other_rows_and_measures_for_a_data_set_of_sentences(config: Config) -> None:
    assert table_entry(config, "stsb", "low_data").measures == ["spearman"]
    assert table_entry(config, "msmarco", "low_data").measures[0] == "MRR@10"
    rows = table_rows(config, "stsb", "low_data")
    assert [(row["system"], row["train_queries"], row["variants"][0]) for row in rows] == [
        ("backbone-sentences-zeroshot", "all", "untrained"),
        *(("backbone-sentences", size, f"n{size}-seed1") for size in (500, 1000)),
        ("backbone-sentences", "all", "seed1"),
        *(("condenser-sentences", size, f"n{size}-seed1") for size in (500, 1000)),
        ("condenser-sentences", "all", "seed1"),
    ]
    assert {row["batch_size"] for row in rows[1:]} == {16} and rows[0]["batch_size"] is None


def test_the_papers_numbers_of_sentences_are_those_of_the_configuration(config: Config) -> None:
    stsb, wiki = config.recipes["stsb"], config.recipes["wikisection"]
    for recipe in (stsb, wiki):
        assert (recipe.batch_size, recipe.learning_rate, recipe.warmup_ratio) == (16, 2e-5, 0.1)
    assert (stsb.epochs, wiki.epochs, wiki.margin) == (4, 1, 5)
    assert table_entry(config, "stsb", "low_data").train_queries == [500, 1000, "all"]
    assert table_entry(config, "wikisection", "low_data").train_queries == [1000, 10000, "all"]


def test_a_job_of_sentences_sees_its_recipe_and_its_size(config: Config) -> None:
    names = {"dataset": "stsb", "system": "longer", "variant": "n500-seed3", "split": "test"}
    seen = plain(job_settings(config, names))
    recipe = plain(config.recipes["stsb"])
    of_others = {"epochs_by_size", "similarities"}
    expected = {key: value for key, value in recipe.items() if key not in of_others}
    assert seen["recipe"] == {**expected, "epochs": 8} and seen["similarities"] is None
    assert (seen["seed"], seen["train_queries"], "depth" in seen) == (3, 500, False)
    assert seen["metrics"]["measures"] == ["spearman"]
    assert not {"tables", "recipe"} & seen["dataset"].keys()


@pytest.mark.parametrize(
    ("system", "dataset", "does"),
    [
        ("bm25", "stsb", False),
        ("backbone-sentences", "msmarco", False),
        ("backbone-sentences", "nli", True),
        ("glove", "wikisection", True),
        ("glove", "nli", False),
    ],
)
def test_systems_are_for_queries_or_for_sentences(
    config: Config, system: str, dataset: str, does: bool
) -> None:
    assert config.systems[system].supports_task_of(config.datasets[dataset]) is does
    assert config.systems[system].ranks is (system == "bm25")
