"""What the four nouns mean together: chains, variants, rows of tables, and the settings of a job."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from condenser.blocks import Extracted
from condenser.nouns import Config
from condenser.objectives.checkpoint import display_name, local_files, needs_network
from condenser.pipeline.specs import job_settings
from condenser.settings import Settings, merged, plain
from condenser.shown import table_columns, table_comparisons, table_entry, table_rows
from condenser.variants import VARIANT, parse_variant
from configs import config_of

RECIPE = {"lengths": {"query": 32, "passage": 128}, "negatives": {"margin": None}, "soup": 1}
MODEL = {"corpus": "collection", "seed": None}
BIENCODER = {"kind": "biencoder", "label": None, "train": True, "negatives": [], "recipe": {}}
DATASET = {"source": "beir", "bad_rows": "strict", "train_split": "train"}
WRITTEN: dict[str, Any] = {
    **{"seed": 42, "shards": 2, "recipe": "marco"},
    "datasets": {
        "mine": {
            **{**DATASET, "path": "mine", "recipe": "marco", "eval_split": "dev"},
            **{"measures": None, "relevant_grade": None},
        },
        "graded": {
            **{**DATASET, "path": "graded", "recipe": "short", "eval_split": "test"},
            **{"measures": ["nDCG@10"], "relevant_grade": 2},
        },
        "wiki": {"source": "hub_text", "parts": [], "bad_rows": "skip"},
    },
    "recipes": {
        "marco": {"batch_size": 8, "passages_per_query": 8, "depth": {"train": 200, "eval": 1000}, **RECIPE},
        "short": {"batch_size": 4, "passages_per_query": 2, "depth": {"train": 20, "eval": 50}, **RECIPE},
    },
    "models": {
        "backbone": {"objective": "checkpoint", "source": "hub", "id": "bert-base-uncased", **MODEL},
        "own": {"objective": "checkpoint", "source": "folder", "path": "../models/small", **MODEL},
        "condenser": {"objective": "condenser", "initial": "backbone", **MODEL, "corpus": "wiki"},
        "cocondenser": {"objective": "cocondenser", "initial": "condenser", **MODEL, "seed": 7},
    },
    "systems": {
        "bm25": {
            **{"kind": "bm25", "label": "BM25", "k1": 0.9, "b": 0.4, "language": "en"},
            "expanded_passages": None,
        },
        "zero": {**BIENCODER, "initial": "own", "train": False},
        "round1": {**BIENCODER, "label": "First", "initial": "condenser", "negatives": ["bm25"]},
        "round2": {
            **{**BIENCODER, "initial": "cocondenser", "negatives": ["zero", "round1"]},
            "recipe": {"batch_size": 2, "depth": {"eval": 100}},
        },
    },
    "metrics": {"measures": ["MRR@10"], "relevant_grade": 1},
    "tables": {
        "plain": {"rows": ["round2", "bm25"], "measures": ["MRR@10"], "published": "figures"},
        "sizes": {
            **{"rows": ["zero", "round1"], "measures": ["MRR@10"], "published": None},
            **{"train_queries": [1000, "all"], "seeds": [1, 2]},
        },
    },
}


def with_overlay(*overlays: dict[str, Any]) -> Config:
    written = WRITTEN
    for overlay in overlays:
        written = merged(written, overlay)
    return config_of(written)


def settings(config: Config, **names: str) -> dict[str, Any]:
    """What a job of these names sees."""
    return plain(job_settings(config, names))


CONFIG = with_overlay()
EACH_SEED = {
    "models": {"cocondenser": {"seed": "each"}},
    "systems": {"late-zero": {**BIENCODER, "initial": "cocondenser", "train": False}},
    "tables": {"seeded": {**WRITTEN["tables"]["sizes"], "rows": ["late-zero"]}},
}
SEEDED = with_overlay(EACH_SEED)


def test_blocks_are_merged_key_by_key_and_all_else_is_replaced() -> None:
    below = {"a": {"b": 1, "c": {"d": 2, "e": 3}}, "list": [1, 2], "block": {"x": 1}}
    above = {"a": {"c": {"e": 4, "f": 5}}, "list": [3], "block": None, "new": {"y": 2}}
    before = copy.deepcopy((below, above))
    assert merged(below, above) == {
        "a": {"b": 1, "c": {"d": 2, "e": 4, "f": 5}},
        **{"list": [3], "block": None, "new": {"y": 2}},
    }
    assert (below, above) == before


def test_a_model_leads_to_the_checkpoint_it_starts_from_and_to_its_corpus() -> None:
    assert [one.key for one in CONFIG.models["cocondenser"].chain] == ["cocondenser", "condenser", "backbone"]
    assert CONFIG.models["own"].chain == [CONFIG.models["own"]]
    assert CONFIG.models["cocondenser"].root == CONFIG.models["backbone"].root == CONFIG.models["backbone"]
    assert CONFIG.models["condenser"].corpus_for("mine") == "wiki"  # the same for every data set
    assert CONFIG.models["cocondenser"].corpus_for("mine") == "mine"
    assert CONFIG.checkpoints == ["backbone", "own"]


def test_models_of_a_data_set_lie_under_the_documents_that_it_names() -> None:
    documents = {"datasets": {"mine": {"documents": "wiki"}}}
    config = with_overlay(documents)
    assert (
        config.models["cocondenser"].corpus_for("mine") == config.models["own"].corpus_for("mine") == "wiki"
    )
    assert config.models["cocondenser"].corpus_for("wiki") == "wiki"  # as the documents' own jobs see it
    assert config.models["cocondenser"].corpus_for("graded") == "graded"
    passages = with_overlay(documents, {"models": {"cocondenser": {"corpus": "mine"}}})
    assert passages.models["cocondenser"].corpus_for("mine") == "mine"
    assert settings(config, dataset="mine")["dataset"] == settings(CONFIG, dataset="mine")["dataset"]


def test_the_systems_of_tables_are_their_rows_and_all_whose_negatives_they_learn_from() -> None:
    assert CONFIG.systems_of_tables == {"bm25", "zero", "round1", "round2"}
    only = config_of({**WRITTEN, "tables": {"one": {"rows": ["round1"]}}})
    assert only.systems_of_tables == {"round1", "bm25"}
    assert CONFIG.systems_of_kind("biencoder") == ["zero", "round1", "round2"]


@given(num_queries=st.integers(1, 10**12) | st.just("all"), seed=st.integers(0, 2**63 - 1))
def test_a_variant_is_read_as_it_was_written(num_queries: int | str, seed: int) -> None:
    name = CONFIG.systems["round1"].variant(num_queries=num_queries, seed=seed)
    assert parse_variant(name) == (None if num_queries == "all" else num_queries, seed)
    assert re.fullmatch(VARIANT, name)


@pytest.mark.parametrize(
    "name", ["seed", "n-seed1", "n0-seed1", "n5", "seed1x", "n5-untrained", "seed-1", ""]
)
def test_a_name_that_is_no_variant_matches_nothing(name: str) -> None:
    assert not re.fullmatch(VARIANT, name)


def test_what_is_not_trained_has_one_variant_whatever_is_asked_for() -> None:
    for name in ("bm25", "zero"):
        assert CONFIG.systems[name].variant(num_queries=1000, seed=1) == "untrained"
        assert CONFIG.systems[name].ranking_variant("n1000-seed1") == "untrained"
    assert CONFIG.systems["round1"].ranking_variant("n1000-seed1") == "n1000-seed1"
    assert parse_variant("untrained") == (None, None)
    assert re.fullmatch(VARIANT, "untrained")


def test_a_model_of_each_seed_lies_under_a_name_with_the_seed() -> None:
    assert SEEDED.models["cocondenser"].folder(3) == "cocondenser-seed3"
    assert SEEDED.model_of("cocondenser-seed3") == (SEEDED.models["cocondenser"], 3)
    assert SEEDED.models["condenser"].folder(3) == "condenser"  # one for all seeds
    assert SEEDED.model_of("condenser") == (SEEDED.models["condenser"], None)
    assert settings(SEEDED, dataset="mine", model="cocondenser-seed3")["seed"] == 3
    assert settings(SEEDED, dataset="mine", model="condenser")["seed"] == 42


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cocondenser", "expected a seed for cocondenser, .* such as cocondenser-seed42 or the variant"),
        ("condenser-seed3", r"expected a model .* \(backbone, own, condenser, cocondenser-seed42\), got "),
        ("cocondenser-seed03", "expected a model of the configuration"),
        ("other-seed3", "expected a model of the configuration"),
    ],
)
def test_a_model_without_its_seed_or_with_one_it_has_not_is_told(name: str, message: str) -> None:
    with pytest.raises(LookupError, match=message):
        SEEDED.model_of(name)


def test_the_seed_and_no_train_size_matters_to_a_system_of_such_a_model() -> None:
    assert SEEDED.systems["late-zero"].variant(num_queries=1000, seed=1) == "seed1"
    assert SEEDED.systems["late-zero"].ranking_variant("n1000-seed1") == "seed1"
    assert SEEDED.systems["round2"].variant(num_queries=1000, seed=1) == "n1000-seed1"
    assert SEEDED.systems["zero"].variant(num_queries="all", seed=1) == "untrained"
    rows = table_rows(SEEDED, "mine", "seeded")
    assert [(row["train_queries"], row["variants"]) for row in rows] == [("all", ["seed1", "seed2"])]


def test_a_system_that_names_a_trained_one_has_its_variants_too() -> None:
    """A fusion without training, of a trained system's run or that of a model of each seed."""
    of = {"a": "round1", "b": "bm25", "c": "late-zero"}
    fusions = {"systems": {name: {"kind": "fusion", "of": [other]} for name, other in of.items()}}
    config = with_overlay(EACH_SEED, fusions, {"tables": {"sizes": {"rows": ["a"]}}})
    variants = [config.systems[name].variant(num_queries=5, seed=1) for name in "abc"]
    assert variants == ["n5-seed1", "untrained", "seed1"]
    assert config.systems["a"].ranking_variant("seed3") == "seed3"
    assert {"a", "round1", "bm25"} <= config.systems_of_tables


def test_a_recipe_has_the_keys_that_a_system_replaces() -> None:
    assert plain(CONFIG.datasets["mine"].recipe_of(CONFIG.systems["round2"])) == {
        **{"batch_size": 2, "passages_per_query": 8, "depth": {"train": 200, "eval": 100}, **RECIPE},
        **{"epochs": None, "updates": None, "epochs_by_size": {}},
    }
    of_bm25 = plain(CONFIG.datasets["mine"].recipe_of(CONFIG.systems["bm25"]))
    assert of_bm25 == WRITTEN["recipes"]["marco"] | {"epochs": None, "updates": None, "epochs_by_size": {}}


def test_the_rows_of_a_plain_table_say_what_they_are_of() -> None:
    assert table_rows(CONFIG, "mine", "plain") == [
        {
            **{"system": "round2", "train_queries": "all", "variants": ["seed42"], "method": "round2"},
            **{"batch_size": 2 * 8, "backbone": "bert-base-uncased"},
        },
        {
            **{"system": "bm25", "train_queries": "all", "variants": ["untrained"], "method": "BM25"},
            **{"batch_size": None, "backbone": None},
        },
    ]


def test_a_trained_row_comes_for_every_train_size_and_with_every_seed() -> None:
    rows = table_rows(CONFIG, "graded", "sizes")
    assert [(row["method"], row["train_queries"], row["variants"]) for row in rows] == [
        ("zero", "all", ["untrained"]),
        ("First", 1000, ["n1000-seed1", "n1000-seed2"]),
        ("First", "all", ["seed1", "seed2"]),
    ]
    assert [row["batch_size"] for row in rows] == [None, 4 * 2, 4 * 2]  # of the data set's own recipe
    assert [row["backbone"] for row in rows] == ["small", "bert-base-uncased", "bert-base-uncased"]


MORE_SETS = {
    "datasets": {
        "mine": {
            "other_eval_splits": {"late": {"measures": ["nDCG@10"], "relevant_grade": 2}, "more": {}},
        }
    },
    "tables": {
        "plain": {
            "measures": ["MRR@10", "late/nDCG@10", "graded/nDCG@10", "graded/test/nDCG@10", "nq/hits@5"],
            **{"optional": ["nq"], "by_dataset": {"graded": {"measures": ["nDCG@10"], "rows": ["bm25"]}}},
        }
    },
}
PLACES = with_overlay(MORE_SETS)


def test_a_column_is_a_measure_on_an_evaluation_set_of_any_data_set() -> None:
    columns, left_out = table_columns(PLACES, "mine", "plain")
    assert [(one.name, *one.place, one.measure, one.source, one.depth) for one in columns] == [
        ("MRR@10", "mine", "dev", "MRR@10", "beir", 100),  # round2 has shorter runs than BM25
        ("late/nDCG@10", "mine", "late", "nDCG@10", "beir", 100),
        ("graded/nDCG@10", "graded", "test", "nDCG@10", "beir", 50),
        ("graded/test/nDCG@10", "graded", "test", "nDCG@10", "beir", 50),
    ]
    assert left_out == ["nq/hits@5"]


def test_a_table_has_other_keys_for_single_data_sets() -> None:
    columns, left_out = table_columns(PLACES, "graded", "plain")
    assert [one.name for one in columns] == ["nDCG@10"] and left_out == []
    assert [row["system"] for row in table_rows(PLACES, "graded", "plain")] == ["bm25"]
    seen = settings(PLACES, dataset="graded", table="plain")["table"]
    assert seen["published"] == "figures" and seen["comparisons"] == []


def test_other_rows_of_a_data_set_are_not_compared_with_the_common_ones() -> None:
    plain_table = {"compare_with": ["round2"], "by_dataset": {"graded": {"rows": ["bm25"]}}}
    config = with_overlay({"tables": {"plain": plain_table}})
    assert table_entry(config, "mine", "plain").compare_with == ["round2"]
    assert table_entry(config, "graded", "plain").compare_with is None


@pytest.mark.parametrize(
    ("measures", "message"),
    [
        (["R@5"], r"expected measures of the data set \(MRR@10\), got R@5\. Add it to metrics\.measures\."),
        (["late/MRR@10"], r"got MRR@10\. Add it to datasets\.mine\.other_eval_splits\.late\.measures"),
        (["MRR@10", "graded/MRR@10"], r"Add it to datasets\.graded\.measures\."),
        (["late/nDCG@10", "graded/nDCG@10"], "expected a measure of the data set itself"),
        (["nq/hits@5"], "expected a measure of the data set itself, such as MRR@10, got nq/hits@5"),
    ],
)
def test_a_column_that_cannot_be_measured_is_refused(measures: list[str], message: str) -> None:
    config = with_overlay(MORE_SETS, {"tables": {"plain": {"measures": measures}}})
    with pytest.raises(ValueError, match=message):
        table_columns(config, "mine", "plain")


OF_MINE = {"datasets": {"mine": {"measures": ["R@100"], "relevant_grade": 3}}}


@pytest.mark.parametrize(
    ("overlays", "dataset", "split", "expected"),
    [
        ([], "mine", None, (["MRR@10"], 1)),
        ([], "graded", None, (["nDCG@10"], 2)),
        ([MORE_SETS], "mine", "late", (["nDCG@10"], 2)),
        ([MORE_SETS], "mine", "more", (["MRR@10"], 1)),
        ([MORE_SETS, OF_MINE], "mine", "late", (["nDCG@10"], 2)),
        ([MORE_SETS, OF_MINE], "mine", "more", (["R@100"], 3)),
    ],
)
def test_measures_are_the_evaluation_sets_own_or_the_data_sets_or_those_of_all(
    overlays: list[dict[str, Any]], dataset: str, split: str | None, expected: tuple[list[str], int]
) -> None:
    metrics = with_overlay(*overlays).datasets[dataset].metrics(split)
    assert (metrics.measures, metrics.relevant_grade) == expected


def test_further_evaluation_sets_are_collected_by_name_and_without_them_nothing_changes() -> None:
    assert settings(PLACES, dataset="mine")["dataset"]["other_eval_splits"] == ["late", "more"]
    of_late = settings(PLACES, dataset="mine", system="bm25", variant="untrained", split="late")
    assert (of_late["metrics"]["relevant_grade"], of_late["depth"]) == (2, 1000)
    without = with_overlay({"datasets": {"mine": {"other_eval_splits": None}}})
    assert settings(without, dataset="mine")["dataset"] == settings(CONFIG, dataset="mine")["dataset"]


PLAIN = ["bm25", "plain", "pre-trained"]
SIZES = ["start", "plain", "pre-trained", "bm25"]  # of two sizes 0; 1, 2; 3, 4; 5


@pytest.mark.parametrize(
    ("rows", "options", "starts", "pairs"),
    [
        # the untouched start of the table; of a chain of models, its checkpoint
        (["bm25", "start", "plain", "pre-trained", "zero-shot"], {}, [None, None, 1, 1, 1],
         [[0, 1], [2, 1], [3, 1], [4, 1]]),
        # MaxSim of a checkpoint is no start, but has one
        (["maxsim", "start", "plain"], {}, [1, None, 1], [[0, 1], [2, 1]]),
        (["maxsim", "bm25", "plain"], {}, [None] * 3, [[1, 0], [2, 0]]),
        # each of two starts with all other rows once
        (["start", "other-start", "plain", "other"], {}, [None, None, 0, 1],
         [[0, 1], [2, 0], [2, 1], [3, 0], [3, 1]]),
        # without a start, or with the start of no row: the first row
        (["bm25", "plain", "zero-shot"], {}, [None] * 3, [[1, 0], [2, 0]]),
        (["bm25", "other-start", "plain"], {}, [None] * 3, [[1, 0], [2, 0]]),
        (["plain"], {"train_queries": [10, 20]}, [None] * 2, [[1, 0]]),
        (["bm25"], {}, [None], []),
        # the systems that the table names
        (PLAIN, {"compare_with": ["bm25", "plain"]}, [None] * 3, [[0, 1], [2, 0], [2, 1]]),
        (PLAIN, {"compare_with": ["plain"]}, [None] * 3, [[0, 1], [2, 1]]),
        (PLAIN, {"compare_with": ["plain", "plain"]}, [None] * 3, [[0, 1], [2, 1]]),
        # and its start, whatever else
        (["start", "plain", "bm25"], {"compare_with": ["bm25"]}, [None, 0, None], [[0, 2], [1, 2], [1, 0]]),
        # rows of one train size with the reference of that size
        (SIZES, {"compare_with": ["start", "plain"], "train_queries": [10, "all"]},
         [None, 0, 0, 0, 0, None], [[1, 0], [2, 0], [3, 0], [3, 1], [4, 0], [4, 2], [5, 0], [5, 2]]),
        (SIZES, {"compare_with": ["plain"], "train_queries": [10, 20]}, [None, 0, 0, 0, 0, None],
         [[1, 0], [2, 0], [3, 1], [3, 0], [4, 2], [4, 0], [5, 1], [5, 2]]),
    ],
)  # fmt: skip
def test_rows_are_compared_with_what_the_table_names_else_with_starts_else_with_the_first(
    rows: list[str], options: dict[str, Any], starts: list[int | None], pairs: list[list[int]]
) -> None:
    """Of systems from two checkpoints; the numbers are worked by hand."""
    untrained = {**BIENCODER, "train": False}
    systems = {
        "start": {**untrained, "initial": "backbone"},
        "other-start": {**untrained, "initial": "own"},
        "plain": {**BIENCODER, "initial": "backbone"},
        "pre-trained": {**BIENCODER, "initial": "cocondenser"},
        "zero-shot": {**untrained, "initial": "cocondenser"},
        "other": {**BIENCODER, "initial": "own"},
        "bm25": {**WRITTEN["systems"]["bm25"], "recipe": {}},
        "maxsim": {**untrained, "initial": "backbone", "kind": "late", "candidates": ["bm25"]},
    }
    table = {"rows": rows, "measures": ["MRR@10"], **options}
    config = config_of({**WRITTEN, "systems": systems, "tables": {"one": table}})
    assert table_comparisons(config, "mine", "one", table_rows(config, "mine", "one")) == (starts, pairs)


@pytest.mark.parametrize(
    ("names", "seed"),
    [
        ({}, 42),
        ({"model": "condenser"}, 42),
        ({"model": "cocondenser"}, 7),
        ({"system": "round2", "variant": "seed3"}, 3),
        ({"system": "bm25", "variant": "untrained"}, 42),
        ({"variant": "n1000-seed1"}, 1),
    ],
)
def test_a_jobs_seed_is_its_variants_or_its_models_or_the_one_of_all(
    names: dict[str, str], seed: int
) -> None:
    seen = settings(CONFIG, dataset="mine", **names)
    assert seen["seed"] == seed
    assert seen["train_queries"] == (1000 if "n1000" in names.get("variant", "") else None)


@pytest.mark.parametrize(
    ("dataset", "system", "split", "depth"),
    [
        ("mine", "bm25", "train", 200),
        ("mine", "bm25", "dev", 1000),
        ("mine", "bm25", "titles", 200),  # queries made from the collection
        ("mine", "round2", "train", 200),
        ("mine", "round2", "dev", 100),
        ("graded", "round1", "test", 50),
    ],
)
def test_the_depth_of_a_run_is_that_of_its_split_and_system(
    dataset: str, system: str, split: str, depth: int
) -> None:
    titles = Extracted(views=["titles"], passages=[0.0, 0.5], count=10)
    config = with_overlay({"extracted": {"titles": titles}})
    assert settings(config, dataset=dataset, system=system, split=split)["depth"] == depth


@pytest.mark.parametrize(
    ("candidates", "sorted_hits", "depth"), [("bm25", 30, 30), ("bm25", 3000, 1000), ("round2", 3000, 100)]
)
def test_a_system_that_sorts_the_hits_of_another_has_no_more_than_that_one_or_than_it_sorts(
    candidates: str, sorted_hits: int, depth: int
) -> None:
    entry = {**BIENCODER, "kind": "crossencoder", "initial": "own", "negatives": ["bm25"]}
    entry |= {"candidates": candidates, "depth": sorted_hits}
    config = with_overlay({"systems": {"pairs": entry}})
    assert config.systems["pairs"].run_depth("mine", purpose="eval") == depth


def test_negatives_of_an_untrained_system_have_no_margin() -> None:
    config = with_overlay({"recipes": {"marco": {"negatives": {"margin": 0.5}}}})
    for name, margin in (("bm25", None), ("zero", None), ("round1", 0.5)):
        assert settings(config, dataset="mine", system=name)["recipe"]["negatives"]["margin"] == margin


def test_a_job_sees_of_a_system_or_data_set_only_what_its_result_depends_on() -> None:
    seen = settings(CONFIG, dataset="graded", system="round2", variant="seed1")
    assert seen["system"] == {
        **{"kind": "biencoder", "initial": "cocondenser", "train": True, "negatives": ["zero", "round1"]},
        **{"distillation": None, "pseudo_labels": None},
    }
    assert seen["recipe"]["batch_size"] == 2
    assert seen["dataset"] == {
        **{"source": "beir", "path": "graded", "bad_rows": "strict"},
        **{"train_split": "train", "eval_split": "test", "split": None},
    }
    assert seen["metrics"] == {"measures": ["nDCG@10"], "relevant_grade": 2}
    trained = {"system": "round2", "variant": "seed42"}
    assert settings(CONFIG, dataset="mine", table="plain")["table"] == {
        **{"published": "figures", "rows": table_rows(CONFIG, "mine", "plain")},
        **{"starts": [None, None], "comparisons": [[1, 0]], "left_out": []},
        "notes": {
            "texts": [
                {"dataset": "mine", "model": "backbone", "lengths": RECIPE["lengths"], "in_one_row": False}
                | {"splits": ["dev"], "systems": ["round2"]}
            ],
            "trainings": [
                *({"model": name, "seed": None} for name in ("condenser", "cocondenser")),
                trained,
            ],
            "compared": [trained],
        },
        "columns": [
            {
                **{"name": "MRR@10", "dataset": "mine", "split": "dev", "measure": "MRR@10"},
                **{"source": "beir", "train_split": "train", "depth": 100},
            }
        ],
    }


def test_texts_without_queries_have_neither_recipe_nor_depth() -> None:
    seen = settings(CONFIG, dataset="wiki", model="condenser")
    assert seen["recipe"] == "marco" and "depth" not in seen  # the name alone
    assert seen["dataset"] == {"split": None, **WRITTEN["datasets"]["wiki"]}


def test_a_table_of_texts_without_queries_has_its_rows_without_batch_and_its_columns_without_depth() -> None:
    rows = table_rows(CONFIG, "wiki", "plain")
    assert [(row["method"], row["batch_size"]) for row in rows] == [("round2", None), ("BM25", None)]
    measures = ["MRR@10", "graded/nDCG@10", "nq/hits@5"]
    config = with_overlay(MORE_SETS, {"tables": {"plain": {"measures": measures}}})
    columns, left_out = table_columns(config, "wiki", "plain")
    assert [(one.name, one.place, one.depth) for one in columns] == [("MRR@10", ("wiki", None), None)]
    assert left_out == measures[1:]
    assert CONFIG.systems["bm25"].made_from_texts("untrained") == ["bm25/index"]
    assert CONFIG.systems["zero"].made_from_texts("untrained") == []


@pytest.mark.parametrize("noun", ["dataset", "model", "system", "table"])
def test_a_name_that_the_configuration_lacks_is_told_with_those_it_has(noun: str) -> None:
    names = ", ".join(WRITTEN[f"{noun}s"])
    message = rf"expected a {noun} of the configuration \({names}\), got other\. Add it under"
    with pytest.raises(LookupError, match=message):
        job_settings(CONFIG, {noun: "other"})


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ({"source": "hub", "id": "bert-base-uncased"}, "bert-base-uncased"),
        ({"source": "folder", "path": "../models/mine"}, "mine"),
        ({"source": "scratch", "hidden_size": 128, "num_layers": 4}, "BERT from scratch, 4 x 128"),
        ({"source": "embedded"}, "all-MiniLM-L6-v2"),
    ],
)
def test_a_table_calls_a_backbone_by_its_id_folder_or_shape(entry: dict[str, Any], name: str) -> None:
    assert display_name(Settings(**entry)) == name


def test_only_a_checkpoint_of_the_hub_needs_the_network_and_only_a_folder_has_files(tmp_path: Path) -> None:
    of_hub, own = Settings(source="hub"), Settings(source="folder", path=str(tmp_path))
    assert needs_network(of_hub) and not needs_network(own)
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    assert local_files(own) == [tmp_path / "config.json", tmp_path / "model.safetensors"]
    assert local_files(of_hub) == []
