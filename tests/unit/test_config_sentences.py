"""Data sets of sentences, their recipes, systems and tables, as the configuration has them."""

from __future__ import annotations

from typing import Any

import pytest

from condenser import config as real_config
from condenser import experiment as real_experiment
from condenser.config import positions
from condenser.experiment import tables as real_tables
from condenser.pipeline import specs
from condenser.settings import merged
from configs import OnPlainValues

experiment, tables = OnPlainValues(real_experiment), OnPlainValues(real_tables)
validated, job_settings = OnPlainValues(real_config).validated, OnPlainValues(specs).job_settings
check_longest_row, table_rows = OnPlainValues(positions).check_longest_row, tables.table_rows

Config = dict[str, Any]


LSTM = {"objective": "checkpoint", "source": "lstm", "path": "config.yaml", "vocab_size": 99,
        "hidden_size": 4, "pooling": "max"}  # fmt: skip


@pytest.fixture(scope="module")
def config(written: Config) -> Config:
    return validated(written)


def test_a_table_has_other_rows_and_measures_for_a_data_set_of_sentences(config: Config) -> None:
    assert tables.table_entry(config, "stsb", "low_data")["measures"] == ["spearman"]
    assert tables.table_entry(config, "msmarco", "low_data")["measures"][0] == "MRR@10"
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
    stsb, wiki = config["recipes"]["stsb"], config["recipes"]["wikisection"]
    for recipe in (stsb, wiki):
        assert (recipe["batch_size"], recipe["learning_rate"], recipe["warmup_ratio"]) == (16, 2e-5, 0.1)
    assert (stsb["epochs"], wiki["epochs"], wiki["margin"]) == (4, 1, 5)
    sizes = {
        name: tables.table_entry(config, name, "low_data")["train_queries"]
        for name in ("stsb", "wikisection")
    }
    assert sizes == {"stsb": [500, 1000, "all"], "wikisection": [1000, 10000, "all"]}


def test_a_job_of_sentences_sees_its_recipe_and_its_size(config: Config) -> None:
    entry = {**config["systems"]["backbone-sentences"], "recipe": {"epochs": 8}}
    config = {**config, "systems": {**config["systems"], "longer": entry}}
    names = {"dataset": "stsb", "system": "longer", "variant": "n500-seed3", "split": "test"}
    seen = job_settings(config, names)
    of_others = ("epochs_by_size", "similarities")
    recipe = {key: value for key, value in config["recipes"]["stsb"].items() if key not in of_others}
    assert seen["recipe"] == {**recipe, "epochs": 8} and seen["similarities"] is None
    assert (seen["seed"], seen["train_queries"], "depth" in seen) == (3, 500, False)
    assert seen["metrics"]["measures"] == ["spearman"]
    assert "tables" not in seen["dataset"] and "recipe" not in seen["dataset"]
    untrained = job_settings(
        config, {"dataset": "stsb", "system": "backbone-sentences-zeroshot", "split": "test"}
    )
    assert "negatives" not in untrained["recipe"]


def test_systems_are_for_queries_or_for_sentences(config: Config) -> None:
    assert experiment.ranks(config, "bm25") and not experiment.ranks(config, "backbone-sentences")
    assert experiment.fits(config, "backbone-sentences", "nli") and not experiment.fits(
        config, "bm25", "stsb"
    )
    assert not experiment.fits(config, "backbone-sentences", "msmarco")
    words = {**config, "systems": {"glove": {"kind": "word_vectors", "label": None, "path": "glove.txt"}}}
    assert experiment.fits(words, "glove", "wikisection") and not experiment.fits(words, "glove", "nli")


@pytest.mark.parametrize(
    ("overlay", "said"),
    [
        ({"datasets": {"stsb": {"recipe": "marco"}}},
         "datasets.stsb.recipe: expected a recipe for sentences (stsb, wikisection, nli), got marco."),
        ({"datasets": {"stsb": {"recipe": None}}},
         "datasets.stsb.recipe: expected a recipe for sentences (stsb, wikisection, nli), got marco."),
        ({"datasets": {"wikisection": {"recipe": "stsb"}}},
         "datasets.wikisection.recipe: expected a recipe for sentences with a margin (wikisection), got st"),
        ({"datasets": {"msmarco": {"recipe": "stsb"}}},
         "datasets.msmarco.recipe: expected a recipe for retrievers (marco, dpr), got stsb."),
        ({"datasets": {"stsb": {"measures": ["MRR@10"]}}},
         "datasets.stsb.measures: expected measures of similarity, got MRR@10, which is one of rankings."),
        ({"datasets": {"stsb": {"measures": ["accuracy"]}}},
         "datasets.stsb.measures: expected measures of similarity, got accuracy, which is one of triplets."),
        ({"metrics": {"measures": ["spearman"]}},
         "metrics.measures: expected measures of rankings, got spearman, which is one of similarity."),
        ({"tables": {"low_data": {"by_dataset": {"stsb": {"rows": ["bm25"]}}}}},
         "tables.low_data.by_dataset.stsb.rows: expected systems for the sentences of stsb, got bm25, a "),
        ({"tables": {"low_data": {"by_dataset": {"stsb": {"measures": ["MRR@10"]}}}}},
         "tables.low_data.by_dataset.stsb.measures: expected measures of similarity, got MRR@10, "),
        ({"tables": {"low_data": {"by_dataset": {"stsb": {"sizes": [1]}}}}},
         "tables.low_data.by_dataset.stsb.sizes: unknown key."),
        ({"datasets": {"stsb": {"train_split": "test"}}},
         "datasets.stsb: train_split and eval_split are both"),
        ({"datasets": {"stsb": {"eval_split": "validation"}}},
         "datasets.stsb.eval_split: expected 'train', 'dev'"),
        ({"datasets": {"stsb": {"path": "no/such/folder"}}},
         "datasets.stsb.path: expected a folder, found none"),
        ({"sources": {"wikisection": {"test_share": 0.95}}},
         "datasets.wikisection: validation_share and test_share: expected less than 1 together."),
        ({"systems": {"backbone-nli-sentences": {"first_on": "msmarco"}}},
         "systems.backbone-nli-sentences.first_on: expected a data set of sentences, got msmarco."),
        ({"systems": {"backbone-nli-sentences": {"first_on": "nly"}}},
         "systems.backbone-nli-sentences.first_on: expected one of "),
        ({"systems": {"backbone-nli-sentences": {"train": False}}},
         "systems.backbone-nli-sentences: first_on: expected none with train: false."),
        ({"systems": {"backbone-sentences": {"recipe": {"passages_per_query": 2}}}},
         "systems.backbone-sentences.recipe.passages_per_query: unknown key."),
        ({"systems": {"condenser-round1": {"recipe": {"max_tokens": 20}}}},
         "systems.condenser-round1.recipe.max_tokens: unknown key."),
        ({"models": {"l": LSTM}, "systems": {"condenser-round1": {"initial": "l"}}},
         "systems.condenser-round1.initial: expected a Transformer, got l, an LSTM, from which only systems"),
        ({"models": {"l": LSTM, "condenser-ct": {"initial": "l"}}},
         "models.condenser-ct.initial: expected a Transformer, got l, an LSTM, from which only systems of"),
        ({"models": {"l": LSTM, "o": {"objective": "checkpoint", "source": "system", "dataset": "stsb",
                                      "system": "backbone-sentences"}},
          "systems": {"backbone-sentences": {"initial": "l"}, "late": {"initial": "o"}}},
         "systems.late.initial: expected a Transformer, got o, an LSTM, from which only systems of kind"),
        ({"models": {"l": {**LSTM, "pooling": "cls"}}},
         "models.l: source lstm needs pooling max or mean, got cls."),
        ({"models": {"l": {**LSTM, "normalised": True}}}, "models.l: source lstm takes no normalised."),
        ({"models": {"l": {**LSTM, "path": None}}}, "models.l: source lstm needs path."),
        ({"recipes": {"stsb": {"margin": -1.0}}}, "recipes.stsb.margin: expected greater than 0, got -1.0."),
        ({"recipes": {"stsb": {"epoch": 3}}}, "recipes.stsb.epoch: unknown key. Did you mean epochs?"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_with_sentences_is_one_line(written: Config, overlay: Config, said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is what the test looks at
        validated(merged(written, overlay))
    assert str(caught.value).startswith(said) and "\n" not in str(caught.value)


def test_sentences_need_as_many_positions_as_their_recipe_says(written: Config) -> None:
    scratch = {"source": "scratch", "vocab_size": 600, "hidden_size": 32, "num_layers": 4, "num_heads": 2,
               "intermediate_size": 64, "max_positions": 136}  # fmt: skip
    small = merged(written, {"models": {"backbone": scratch}})
    check_longest_row(validated(small), "stsb", "backbone-sentences")
    longer = validated(merged(small, {"recipes": {"stsb": {"max_tokens": 256}}}))  # may serve other systems
    with pytest.raises(
        ValueError, match=r"expected at least 256 positions for recipes.stsb, the longest row"
    ):
        check_longest_row(longer, "stsb", "backbone-sentences")
