"""The configuration refuses what is wrong, in one line that names the key."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from condenser import config as real_config
from condenser import experiment as real_experiment
from condenser import kinds
from condenser.config import positions as real_positions
from condenser.config.positions import EMBEDDED_LAYERS, EMBEDDED_POSITIONS
from condenser.data.batches import num_steps
from condenser.data.sources import msmarco
from condenser.model.backbone_sources import embedded_folder
from condenser.pipeline import specs
from condenser.settings import merged
from condenser.train.loop import num_warmup_steps
from configs import OnPlainValues

experiment, validated = OnPlainValues(real_experiment), OnPlainValues(real_config).validated
job_settings = OnPlainValues(specs).job_settings
check_longest_row = OnPlainValues(real_positions).check_longest_row
layers_and_positions = OnPlainValues(real_positions).layers_and_positions

Config = dict[str, Any]


@pytest.fixture
def config(written: Config) -> Config:
    return copy.deepcopy(written)


def changed(config: Config, key: str, value: Any) -> Config:
    """The configuration with another value of a dotted key; `...` takes it away."""
    result = copy.deepcopy(config)
    *parents, leaf = key.split(".")
    block = result
    for parent in parents:
        block = block.setdefault(parent, {})
    if value is ...:
        del block[leaf]
    else:
        block[leaf] = value
    return result


def refusal(config: Config) -> str:
    """The line that says why a configuration is refused."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is what the tests look at
        validated(config)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_default_is_valid_and_every_value_of_it_comes_back_unchanged(config: Config) -> None:
    def kept(given: Any, checked: Any) -> bool:
        if isinstance(given, dict):
            return all(key in checked and kept(value, checked[key]) for key, value in given.items())
        return given == checked

    assert kept(config, validated(config))


@pytest.mark.parametrize(
    "name", ["config.yaml", *(f"configs/{one}.yaml" for one in ("paper", "tiny", "cls", "seeds"))]
)
def test_the_default_is_validated_without_a_change_of_what_is_given(
    root: Path, config: Config, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    given = merged(config, yaml.safe_load((root / name).read_text()))
    before = copy.deepcopy(given)
    validated(given)
    assert given == before


def test_the_papers_configuration_has_the_values_of_the_authors_code(root: Path, config: Config) -> None:
    paper = merged(config, yaml.safe_load((root / "configs/paper.yaml").read_text()))
    checked = validated(paper)
    assert checked["encode"]["separator"] == "always"
    assert checked["models"]["cocondenser"]["span_tokens"][1] == 128 - 2
    assert experiment.home(checked, "cocondenser", "msmarco") == "msmarco-documents"
    recipe = checked["recipes"]["marco"]
    assert num_warmup_steps(150_000, warmup_ratio=recipe["warmup_ratio"]) == 0
    assert recipe["negatives"]["depth"] == 200 and recipe["depth"]["train"] - 200 >= 7  # positives of a query


def test_entries_have_what_their_kind_gives_to_all_unless_they_say_otherwise(config: Config) -> None:
    config = changed(config, "models.another", {"objective": "condenser", "initial": "backbone", "epochs": 3})
    models = validated(config)["models"]
    assert models["condenser"]["num_head_layers"] == models["another"]["num_head_layers"] == 2
    lengths = [(models[name]["epochs"], models[name]["updates"]) for name in ("condenser", "another")]
    assert lengths == [(None, 18), (3, None)]
    datasets = validated(changed(config, "datasets.msmarco.eval_queries", 100))["datasets"]
    assert datasets["msmarco"]["eval_queries"] == 100 and datasets["msmarco"]["train_queries"] == 1000


@pytest.mark.parametrize(
    ("above", "length"),
    [
        ({}, (None, 18)),
        ({"updates": 30}, (None, 30)),
        ({"epochs": 2}, (2, None)),
        ({"epochs": 2, "updates": {"most": 100}}, (2, {"least": None, "most": 100})),
    ],
)
def test_a_model_that_says_how_long_it_is_trained_needs_no_word_on_its_objectives_length(
    config: Config, above: dict[str, Any], length: tuple[Any, Any]
) -> None:
    entry = {"objective": "condenser", "initial": "backbone", **above}
    made = validated(changed(config, "models.another", entry))["models"]["another"]
    assert (made["epochs"], made["updates"]) == length


def test_a_systems_own_length_of_training_replaces_that_of_the_recipe(config: Config) -> None:
    config = changed(config, "recipes.marco.epochs_by_size", {100: 9})
    bounds = {"most": None, **config["recipes"]["marco"]["updates"]}
    for own, all_queries, a_hundred in (
        ({}, (1, bounds), (9, None)),
        ({"epochs": 3}, (3, None), (3, None)),
        ({"updates": 40}, (None, 40), (None, 40)),
        ({"updates": {"most": 99}}, (1, bounds | {"most": 99}), (9, None)),
    ):
        made = validated(changed(config, "systems.condenser-round1.recipe", own))
        names = {"dataset": "msmarco", "system": "condenser-round1", "variant": "seed42"}
        recipes = [
            job_settings(made, {**names, "variant": variant})["recipe"]
            for variant in ("seed42", "n100-seed42")
        ]
        assert [(recipe["epochs"], recipe["updates"]) for recipe in recipes] == [all_queries, a_hundred]


def test_the_default_makes_the_updates_that_its_epochs_were_on_the_embedded_collection(
    config: Config,
) -> None:
    """Items, and the epochs of before: as many updates, so that the default's table stays as it is."""
    made = validated(config)
    for model, items, epochs in (
        ("condenser", 4390, 0.25), ("cocondenser", 3792, 0.75), ("ict", 3638, 1), ("mlm", 4390, 1)
    ):  # fmt: skip
        settings = made["models"][model]
        size = settings["batch_size"]
        before = num_steps(items, batch_size=size, epochs=epochs)
        assert num_steps(items, batch_size=size, epochs=None, updates=settings["updates"]) == before
    recipe = made["recipes"]["marco"]
    cut = {"batch_size": recipe["batch_size"], "epochs": recipe["epochs"]}
    for queries, steps in ((868, 55), (1868, 117)):  # of the first round, of the second
        assert num_steps(queries, updates=recipe["updates"], **cut) == num_steps(queries, **cut) == steps


def test_the_papers_form_is_one_overlay_away(root: Path, config: Config) -> None:
    """[CLS] and inner product, the papers' weights of the losses, nothing that they do not have."""
    overlays = {
        name: yaml.safe_load((root / "configs" / f"{name}.yaml").read_text()) for name in ("cls", "paper")
    }
    for overlay in overlays.values():
        made = validated(merged(config, overlay))
        backbone, models = made["models"]["backbone"], made["models"]
        assert (backbone["pooling"], backbone["normalised"]) == ("cls", False)
        assert models["condenser"]["initial_share"] == models["cocondenser"]["initial_share"] == 0
        assert models["condenser"]["learning_rate"] == models["cocondenser"]["learning_rate"] == 1e-4
        assert models["cocondenser"]["mlm_weight"] == models["cocondenser"]["contrastive_weight"] == 1
        assert made["recipes"]["marco"]["negatives"]["margin"] is None
        assert models["cocondenser"]["scale"] is made["recipes"]["marco"]["scale"] is None  # 1 for [CLS]


def test_a_data_set_that_names_no_recipe_has_the_one_of_all(config: Config) -> None:
    config["datasets"]["msmarco"].pop("recipe", None)
    config["recipes"]["other"] = config["recipes"]["marco"]
    assert validated(config)["datasets"]["msmarco"]["recipe"] == "marco"
    assert validated({**config, "recipe": "other"})["datasets"]["msmarco"]["recipe"] == "other"


def test_a_system_replaces_keys_of_its_data_sets_recipe(config: Config) -> None:
    checked = validated(changed(config, "systems.condenser-round1.recipe", {"lengths": {"query": 24}}))
    recipe = experiment.recipe(checked, "msmarco", checked["systems"]["condenser-round1"])
    assert recipe["lengths"] == {"query": 24, "passage": 128}
    other = experiment.recipe(checked, "msmarco", checked["systems"]["condenser-round2"])
    assert other["lengths"]["query"] == 32


def test_lengths_are_the_recipes_or_the_data_sets_or_auto(config: Config) -> None:
    """A user's own collection is not cut at the lengths of MS MARCO."""
    config["datasets"]["mine"] = {"source": "beir", "path": "tests/data/tiny"}

    def lengths(**changes: Any) -> Any:
        for key, value in changes.items():
            part = config["recipes"]["marco"] if key == "recipe" else config["datasets"]["mine"]
            part["lengths"] = value
        return experiment.recipe(validated(config), "mine")["lengths"]

    assert lengths() == {"query": "auto", "passage": "auto"}
    assert lengths(dataset={"passage": 200}) == {"query": "auto", "passage": 200}
    assert lengths(recipe={"passage": 300, "query": None}) == {"query": "auto", "passage": 300}
    assert lengths(dataset={"query": 20}) == {"query": 20, "passage": 300}


TABLE = "tables.table2"
TRAINED_LATE = {
    **{"kind": "late", "initial": "backbone", "candidates": ["bm25"], "depth": 9},
    **{"train": True, "negatives": ["bm25"]},
}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        # keys
        ("objectives.condenser.lr", 1.0, "objectives.condenser.lr: unknown key."),
        ("objectives.condenser.\x1b[2J", 1.0, r"objectives.condenser.\x1b[2J: unknown key."),
        ("models.condenser.learning_rates", 1.0,
         "models.condenser.learning_rates: unknown key. Did you mean learning_rate?"),
        ("sources.pydoc.pakages", [], "sources.pydoc.pakages: unknown key. Did you mean packages?"),
        ("systems.bm25.language", "th", "systems.bm25.language: expected another language than th: the Java"),
        ("systems.bm25.language", "xx", "systems.bm25.language: expected 'en', 'ar', 'bn', "),
        ("models.backbone.prompts", {"document": "a: "}, "models.backbone.prompts.document: unknown key"),
        ("systems.bm25.k2", 1.0, "systems.bm25.k2: unknown key. Known: kind, label, k1, b, language, exp"),
        ("recipes.marco.lengths.pasage", 1,
         "recipes.marco.lengths.pasage: unknown key. Did you mean passage?"),
        ("recipes.marco.lengths.passage", "all",
         "recipes.marco.lengths.passage: expected a whole number of at least 3, auto or null, got 'all'"),
        ("recipes.marco.lengths.query", 2, "expected a whole number of at least 3, auto or null, got 2"),
        ("recipies", {}, "recipies: unknown key. Did you mean recipes?"),
        ("recipe", "rpd", "recipe: expected one of marco, dpr, stsb, wikisection, nli, got 'rpd'."),
        ("recipes.marco.batch_size", ..., "recipes.marco.batch_size: missing"),
        ("tables.table2.measures", ["MRR@10", "MRR@10"],
         "tables.table2.measures: expected each once, got MRR@10 again"),
        ("tables.table2.seeds", [0, 0], "tables.table2.seeds: expected each once, got 0 again"),
        ("systems.hybrid.of", ["bm25", "bm25"], "systems.hybrid.of: expected each once, got bm25 again"),
        ("systems.backbone-round2.recipe", {"negatives": {"margin": 0.1}},
         "systems.backbone-round2.recipe.negatives: expected a system whose negatives others learn from"),
        ("systems.backbone-round1.negatives", ["bm25", "bm25"],
         "systems.backbone-round1.negatives: expected each once, got bm25 again"),
        ("objectives.condenser.batch_size", ..., "models.condenser.batch_size: missing"),
        # types and ranges
        ("objectives.condenser.learning_rate", "1e-4", "write 1.0e-4"),
        ("objectives.condenser.learning_rate", float("nan"),
         "objectives.condenser.learning_rate: expected a finite number, got nan"),
        ("recipes.marco.weight_decay", float("inf"),
         "recipes.marco.weight_decay: expected a finite number, got inf"),
        ("models.condenser.learning_rate", print, "models.condenser.learning_rate: expected a valid number"),
        ("objectives.condenser.batch_size", 0,
         "objectives.condenser.batch_size: expected greater than or equal to 1, got 0"),
        ("objectives.condenser.batch_size", 1.5, "objectives.condenser.batch_size: expected"),
        ("seed", True, "seed: expected a valid integer"),
        ("compute.precision", "fp8", "'auto', 'fp32', 'bf16' or 'fp16'"),
        ("encode.block_rows", 20000, "encode.block_rows: expected less than or equal to 16384, got 20000"),
        ("recipes.marco.passages_per_query", 0,
         "recipes.marco.passages_per_query: expected greater than or eq"),
        ("audit.near_passages", 0.1, "audit.near_passages: expected greater than or equal to 0.3, got 0.1"),
        ("systems.late.match", "first", "first_states: expected a number with match: first alone, got None"),
        ("systems.late.first_states", 8, "first_states: expected a number with match: first alone, got 8"),
        ("systems.late.train", True, "negatives: expected the systems whose negatives it is trained on, got"),
        ("systems.late.negatives", ["bm25"], "negatives: expected none without train: true, got ['bm25']"),
        ("systems.late.dim", 64, "dim: expected none without train: true, got 64"),
        ("systems.late", {**TRAINED_LATE, "negatives": ["bm52"]},
         "systems.late.negatives: expected one of bm25, "),
        ("audit.systems", ["bm52"], "audit.systems: expected one of bm25, "),
        ("audit.judges", ["rerank"], "audit.judges: expected one of bm25, "),
        ("tables.audit", {"rows": ["bm25"], "measures": ["MRR@10"]}, "tables.audit: expected another name"),
        # lengths of trainings
        ("objectives.condenser.updates", 0, "objectives.condenser.updates: expected a whole number of at "),
        ("objectives.condenser.updates", True, "objectives.condenser.updates: expected a whole number"),
        ("objectives.condenser.updates", {}, "objectives.condenser.updates: expected a whole number"),
        ("recipes.marco.updates", {"least": 9, "most": 8}, "recipes.marco.updates: expected a whole num"),
        ("recipes.marco.updates", {"atleast": 9}, "recipes.marco.updates: expected a whole number of at "),
        ("recipes.marco.updates", [9, 18], "recipes.marco.updates: expected a whole number of at least "),
        ("objectives.condenser.epochs", 2,
         "models.condenser: expected either epochs or a number of updates, got epochs 2 and updates 18. G"),
        ("recipes.marco.epochs", None, "recipes.marco: expected either epochs or a number of updates, "),
        ("models.condenser", {"objective": "condenser", "initial": "backbone", "updates": None},
         "models.condenser: expected either epochs or a number of updates, got epochs null and updates null"),
        # kinds
        ("datasets.mine", {"source": "bier"}, "datasets.mine.source: expected one of beir, "),
        ("datasets.mine", {"path": "x"}, "datasets.mine.source: missing. It names the kind: beir, "),
        ("models.mine", {"objective": "bert"}, "models.mine.objective: expected one of best_of, "),
        ("systems.mine", {"kind": "tf-idf"}, "systems.mine.kind: expected one of biencoder, bm25"),
        ("sources.bier", {}, "sources.bier: expected one of beir, "),
        ("objectives.bert", {}, "objectives.bert: expected one of best_of, checkpoint, "),
        # data sets
        ("datasets.mine", {"source": "beir"}, "datasets.mine.path: missing"),
        ("datasets.mine", {"source": "beir", "path": "/no/such"}, "datasets.mine.path: expected a folder"),
        ("datasets.a b", {"source": "pydoc"}, "datasets.a b"),
        ("datasets.logs", {"source": "pydoc"}, "datasets.logs: expected another name, logs is that of"),
        ("datasets.msmarco.recipe", "rpd", "datasets.msmarco.recipe: expected one of marco, dpr, "),
        ("datasets.msmarco.measures", ["MRR"], "datasets.msmarco.measures: expected measures such as "),
        ("datasets.msmarco.query_words", [30, 4], "query_words: expected [least, most], got [30, 4]"),
        ("datasets.msmarco.eval_split", "train", "name two splits"),
        ("datasets.msmarco.eval_split", None, "datasets.msmarco.eval_split: expected"),
        ("datasets.msmarco", {"source": "msmarco", "eval_split": "test"},
         "datasets.msmarco.eval_split: expected 'train', 'dev' or 'dl19', got 'test'"),
        ("datasets.msmarco", {"source": "msmarco", "train_split": "dl20"},
         "datasets.msmarco.train_split: expected 'train', 'dev' or 'dl19', got 'dl20'"),
        ("datasets.msmarco", {"source": "msmarco", "eval_split": "dl19"},
         "datasets.msmarco.relevant_grade: expected at least 2 for the evaluation set dl19, got 1."),
        ("datasets.msmarco", {"source": "msmarco", "other_eval_splits": {"dl19": {"measures": ["nDCG@10"]}}},
         "datasets.msmarco.other_eval_splits.dl19.relevant_grade: expected at least 2 for the"),
        ("datasets.msmarco", {"source": "msmarco", "other_eval_splits": {"dl20": {}}},
         "datasets.msmarco.other_eval_splits: expected splits out of train, dev, dl19, got 'dl20'."),
        ("datasets.msmarco", {"source": "msmarco", "other_eval_splits": {"dev": {}}},
         "other_eval_splits: 'dev' is a split already: name another"),
        ("datasets.msmarco", {"source": "msmarco", "other_eval_splits": {"dl19": {"measures": ["nDCG"]}}},
         "datasets.msmarco.other_eval_splits.dl19.measures: expected measures such as"),
        ("datasets.msmarco.other_eval_splits", {"other": {}},
         "datasets.msmarco.other_eval_splits: expected none, the source pydoc makes one evaluation set"),
        ("datasets.msmarco.queries", {"dev": "log.tsv"},
         "datasets.msmarco: queries: 'dev' is a split with judgements already: name another"),
        ("datasets.msmarco.queries", {"log": "log.csv"},
         "queries: expected a file whose name ends with .jsonl or .tsv (or with .gz behind it) for 'log'"),
        ("datasets.msmarco.queries", {"a.b": "log.tsv"}, "datasets.msmarco.queries.a.b: expected"),
        ("datasets.stsb.queries", {"log": "log.tsv"}, "datasets.stsb.queries: unknown key"),
        ("datasets.mine", {"source": "tsv", "path": ".", "split": {"words": 60, "stride": 61}},
         "stride: expected at most words (60), got 61"),
        ("datasets.msmarco", {"source": "msmarco", "triples": "bm25", "split": {"words": 120, "stride": 60}},
         "Set datasets.msmarco.triples to null: then a run gives the negatives."),
        ("datasets.mine", {"source": "tsv", "path": ".", "eval_split": None, "other_eval_splits": {"a": {}}},
         "other_eval_splits: expected none without eval_split, the main one"),
        # models
        ("models.backbone", {"objective": "checkpoint", "source": "hub"}, "source hub needs id"),
        ("models.backbone", {"objective": "checkpoint", "source": "embedded", "id": "x"},
         "source embedded takes no id. If a configuration file below gives it, set it to null."),
        ("models.condenser.corpus", "wiki",
         "models.condenser.corpus: expected one of collection, msmarco, stsb, wikisection, nli, got 'wiki'"),
        ("models.condenser.initial", "bert",
         "models.condenser.initial: expected one of backbone, condenser, cocondenser, "),
        ("models.condenser.initial", "cocondenser",
         "expected a chain that ends, got condenser -> cocondenser -> "),
        ("models.condenser.skip_from", 7,
         "models.condenser.skip_from: expected at most 6 (the backbone's layers), got 7"),
        ("models.mlm.seed", "all", "models.mlm.seed: expected a whole number or each, got 'all'."),
        ("models.mlm.seed", -1, "models.mlm.seed: expected a whole number or each, got -1."),
        ("models.backbone.seed", "each", "models.backbone.seed: expected a whole number, got each."),
        ("models.mlm-seed2", {"objective": "mlm", "initial": "backbone"},
         "models.mlm-seed2: expected another name, mlm-seed2 is that of a model"),
        ("objectives.cocondenser.span_tokens", [128, 80],
         "min_span_tokens <= span_tokens[0] <= span_tokens[1]"),
        ("models.another", {"objective": "cocondenser", "initial": "condenser", "contrastive_weight": 0,
                            "mlm_weight": 0}, "expected a loss of weight above 0, got none"),
        # systems
        ("systems.condenser-round1.initial", "condensr", "Did you mean condenser?"),
        ("systems.condenser-round1.negatives", ["bm26"],
         "systems.condenser-round1.negatives: expected one of bm25"),
        ("systems.condenser-round1.negatives", [],
         "negatives: expected the systems whose negatives it is trained"),
        ("systems.condenser-round1.train", False, "negatives: expected none with train: false"),
        ("systems.condenser-round1.negatives", ["condenser-round2"],
         ": expected a chain that ends, got condenser-round1 -> condenser-round2 -> "),
        ("systems.condenser-round1.recipe", {"batch": 3},
         "systems.condenser-round1.recipe.batch: unknown key."),
        ("systems.condenser-round1.recipe", {"negatives": {"depth": 300}},
         "systems.condenser-round1.recipe.negatives.depth: 300 is deeper than the train runs that it reads"),
        # recipes, tables, the machine
        ("recipes.marco.negatives.depth", 2000,
         "recipes.marco.negatives.depth: 2000 is deeper than the train runs"),
        ("recipes.marco.negatives.positive_in_run", ["bm26"], "positive_in_run: expected one of bm25"),
        ("metrics.measures", ["MRR@10", "MAP"], "metrics.measures: expected measures such as "),
        ("metrics.measures", ["MRR@0"], "metrics.measures: expected measures such as "),
        (f"{TABLE}.rows", ["condenser-round3"], f"{TABLE}.rows: expected one of bm25, condenser-round1"),
        (f"{TABLE}.rows", [], f"{TABLE}.rows: expected at least 1, got 0."),
        (f"{TABLE}.measures", ["MRR@7"], f"{TABLE}.measures: expected one of MRR@10, "),
        (f"{TABLE}.measures", ["R@10"],
         "R@10, a measure that is not among them. Add it to metrics.measures, or to those of the data set."),
        (f"{TABLE}.by_dataset", {"msmarco": {"measures": ["R@10"]}}, "them. Add it to metrics.measures."),
        (f"{TABLE}.measures", ["hits@x"], f"{TABLE}.measures: expected measures such as "),
        (f"{TABLE}.measures", ["MRR@10", "dl19/nDCG@10"],
         f"{TABLE}.measures: dl19/nDCG@10: expected a data set or evaluation set (msmarco, "),
        (f"{TABLE}.measures", ["MRR@10", "msmarc/MRR@10"], "got msmarc. Did you mean msmarco?"),
        (f"{TABLE}.measures", ["MRR@10", "msmarco/MRR"], f"{TABLE}.measures: expected measures such as"),
        (f"{TABLE}.by_dataset", {"nq": {"rows": ["bm52"]}}, f"{TABLE}.by_dataset.nq.rows: expected one of"),
        (f"{TABLE}.by_dataset", {"nq": {"row": ["bm25"]}}, f"{TABLE}.by_dataset.nq.row: unknown key"),
        (f"{TABLE}.by_dataset", {"nq": {"by_dataset": {}}}, f"{TABLE}.by_dataset.nq.by_dataset: unknown key"),
        (f"{TABLE}.by_dataset", {"msmarco": {"measures": ["MRR@3"]}},
         f"{TABLE}.by_dataset.msmarco.measures: expected one of MRR@10"),
        (f"{TABLE}.published", "table3", f"{TABLE}.published: expected one of cocondenser_table1"),
        (f"{TABLE}.seeds", [], f"{TABLE}.seeds: expected at least 1, got 0."),
        (f"{TABLE}.train_queries", [0], f"{TABLE}.train_queries"),
        (f"{TABLE}.compare_with", [], f"{TABLE}.compare_with: expected at least 1, got 0."),
        (f"{TABLE}.compare_with", ["mlm-zeroshot"],
         f"{TABLE}.compare_with: expected one of backbone-zeroshot, "),
        ("significance.confidence", 1.0, "significance.confidence: expected less than 1"),
        ("significance.confidence", 95, "significance.confidence: expected less than 1"),
        ("significance.power", 0.2, "significance.power: expected greater than or equal to 0.5"),
        ("significance.resamples", 10000, "significance: resamples: remove this key. Intervals are"),
        ("significance.permutations", 1.5, "significance.permutations: expected a valid integer, got 1.5."),
        ("significance.alpha", 0.05, "significance.alpha: unknown key."),
        ("downloads.mirror", "/no/such", "downloads.mirror: expected a folder"),
    ],
)  # fmt: skip
def test_what_is_wrong_gives_one_line_with_the_key(
    config: Config, key: str, value: Any, message: str
) -> None:
    assert message in refusal(changed(config, key, value))


@pytest.mark.parametrize(
    "label",
    [
        "\x1b[31mred",
        "a\tb",
        "a\nb",
        "",
        "x" * 201,
        "$\\frac{1}{2}$",
        "=1+2",
        "+1",
        "-1",
        "@SUM(A1)",
        "a\u202eb",
    ],
)
def test_a_label_is_text_in_every_table_figure_and_terminal(config: Config, label: str) -> None:
    curve = {"kind": "curve", "table": "table2", "x": "steps", "lines": {"a line": {"bm25": 1.0}}}
    config = changed(config, "figures.mine", curve)
    for key, value in {
        "systems.bm25.label": label,
        "tables.table2.labels.bm25": label,
        "figures.attention_entropy.panels": {label: ["backbone-zeroshot"]},
        "figures.mine.lines": {label: {"bm25": 1.0}},
        "figures.mine.x": label,
    }.items():
        said = refusal(changed(config, key, value))
        assert said.startswith(f"{key}: expected ") and said.isprintable()
    validated(changed(config, "systems.bm25.label", "BM25 (k1 = 0.9), naïve, 日本語 – w/o + 5 %"))


@pytest.mark.parametrize("source", ["tsv", "beir"])
@pytest.mark.parametrize("name", ["{x}", "a{", "b}", "{dataset}", "a\x1b[2J"])
def test_a_path_that_snakemake_would_fill_in_is_refused(
    config: Config, tmp_path: Path, source: str, name: str
) -> None:
    (tmp_path / name).mkdir()
    said = refusal(changed(config, "datasets.mine", {"source": source, "path": str(tmp_path / name)}))
    assert (
        said.startswith("datasets.mine.path: expected a path without {, } and control") and said.isprintable()
    )


@pytest.mark.parametrize("source", ["beir", "tsv"])
def test_ones_own_data_may_have_no_split_of_a_kind(config: Config, tmp_path: Path, source: str) -> None:
    for splits in ({"train_split": None}, {"train_split": None, "eval_split": None}):
        mine = {"source": source, "path": str(tmp_path), **splits}
        checked = validated(changed(config, "datasets.mine", mine))["datasets"]["mine"]
        assert splits.items() <= checked.items()


def test_a_model_is_pre_trained_for_each_seed_if_the_one_it_starts_from_is(config: Config) -> None:
    each = changed(config, "models.condenser.seed", "each")
    seeds = {name: model["seed"] for name, model in validated(each)["models"].items()}
    assert (seeds["condenser"], seeds["cocondenser"], seeds["ict"], seeds["stacked"]) == (
        "each",
        "each",
        None,
        None,
    )
    with pytest.raises(ValueError, match=r"cocondenser\.seed: expected none, as it follows condenser"):
        validated(changed(each, "models.cocondenser.seed", 3))


def test_all_models_of_an_objective_may_be_pre_trained_for_each_seed(config: Config) -> None:
    models = validated(changed(config, "objectives.mlm.seed", "each"))["models"]
    assert [name for name, model in models.items() if model["seed"] == "each"] == ["mlm"]


LONG = "x" * 100_000


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("seed", 10**300, "seed: expected less than or equal to 9223372036854775807, got 10000"),
        ("models.cocondenser.batch_size", -(10**300),
         "models.cocondenser.batch_size: expected greater than or equal to"),
        ("seed", LONG, "seed: expected a valid integer, got 'xxx"),
        ("objectives.condenser.learning_rate", "1" * 100_000,
         "objectives.condenser.learning_rate: expected a valid number, got '111"),
        ("models.condenser.corpus", LONG, "models.condenser.corpus: expected string should have at most 100"),
        ("datasets.mine", {"source": LONG}, "datasets.mine.source: expected one of beir, "),
        ("datasets." + LONG, {"source": "pydoc"}, "expected string should have at most 100 characters"),
        ("metrics.measures", [LONG], "metrics.measures: expected measures such as "),
        ("tables.table2.rows", [LONG], "tables.table2.rows"),
        ("compute." + LONG, 1, "unknown key. Known: threads, device, precision."),
    ],
    ids=lambda value: f"{value:.40}" if isinstance(value, str) else type(value).__name__,
)  # fmt: skip
def test_however_large_a_value_is_the_line_is_short(
    config: Config, key: str, value: Any, message: str
) -> None:
    *parents, leaf = key.split(".")
    block = config  # changed() copies, and copying follows every level
    for parent in parents:
        block = block[parent]
    block[leaf] = value
    said = refusal(config)
    assert message in said and len(said) < 600


@pytest.mark.parametrize(
    ("overlay", "message"),
    [
        ("datasets: &a {x: *a}", "datasets.x.source: missing."),
        ("datasets: {x: &a {source: *a}}", "datasets.x.source: expected one of beir, "),
        ("datasets: {x: &a {source: hub_text, parts: [*a]}}", "datasets.x.parts[0].source: unknown key."),
        ("seed: &a [*a]", "seed: expected a valid integer, got [[...]]."),
        ("models: {backbone: &a {objective: checkpoint, source: folder, path: *a}}",
         "models.backbone.path: expected a valid string, got {"),
        ("seed: 0x" + "f" * 50, "seed: expected less than or equal to 9223372036854775807, got 160"),
        ("5: 1", "config[5]: expected keys should be strings, got 5."),
        ("models: {5: {objective: checkpoint}}", "models"),
        ("models: {a: 5}", "models.a: expected a block of keys, got 5. Indent its keys, or leave it out."),
        ("tables: [1]", "tables: expected a block of keys, got [1]."),
        ("models: {condenser: null}", "models.condenser: expected a block of keys, got None."),
        ("compute: null", "compute: expected a block of keys, got None."),
    ],
)  # fmt: skip
def test_an_overlay_that_yaml_takes_is_refused_in_one_line(
    config: Config, overlay: str, message: str
) -> None:
    said = refusal({**config, **yaml.safe_load(overlay)})
    assert said.startswith(message) and len(said) < 600


def test_a_number_that_the_command_line_made_a_text_is_said(config: Config) -> None:
    said = refusal(changed(config, "metrics.relevant_grade", "2"))
    assert said.endswith("Write 2 without quotes, in a file: within braces --config makes it a text.")


SCRATCH = {
    "objective": "checkpoint", "source": "scratch", "vocab_size": 600, "hidden_size": 32, "num_layers": 4,
    "num_heads": 2, "intermediate_size": 64, "max_positions": 136,
}  # fmt: skip


def test_a_hidden_size_is_a_multiple_of_the_heads(config: Config) -> None:
    said = refusal(changed(config, "models.backbone", {**SCRATCH, "num_heads": 3}))
    assert said == "models.backbone: hidden_size 32 is no multiple of num_heads 3."


@pytest.mark.parametrize("block", ["objectives.condenser", "objectives.cocondenser", "recipes.marco"])
def test_a_gradient_need_not_be_clipped(config: Config, block: str) -> None:
    validated(changed(config, f"{block}.max_grad_norm", 0.0))
    said = refusal(changed(config, f"{block}.max_grad_norm", -1.0))
    assert f"{block}.max_grad_norm: expected greater than or equal to 0" in said


def test_every_split_of_msmarco_is_taken(config: Config) -> None:
    for split in msmarco.SPLITS:
        other = "train" if split != "train" else "dev"
        entry = {"source": "msmarco", "train_split": split, "eval_split": other}
        validated(changed(config, "datasets.msmarco", entry))


def test_dl_2019_is_taken_with_its_own_least_grade(config: Config) -> None:
    entry = {"source": "msmarco", "eval_split": "dl19"}
    for graded in (
        changed(changed(config, "datasets.msmarco", entry), "metrics.relevant_grade", 2),
        changed(config, "datasets.msmarco", {**entry, "relevant_grade": 2}),
    ):
        assert validated(graded)["datasets"]["msmarco"]["eval_split"] == "dl19"


def test_a_table_may_show_a_measure_that_one_data_set_alone_has(config: Config) -> None:
    config = changed(config, "datasets.msmarco.measures", ["MRR@10", "R@1000", "MRR@7"])
    assert validated(changed(config, "tables.table2.measures", ["MRR@7"]))


def test_a_table_may_have_measures_by_answer_which_only_some_data_sets_have(config: Config) -> None:
    assert validated(changed(config, "tables.table2.measures", ["hits@7"]))


def test_question_answering_and_documents_are_overlays_of_the_papers(root: Path, config: Config) -> None:
    for name in ("configs/tables/qa.yaml", "configs/paper.yaml", "configs/qa.yaml"):
        config = merged(config, yaml.safe_load((root / name).read_text()))
    checked = validated(config)
    recipe, datasets = checked["recipes"]["dpr"], checked["datasets"]
    assert (recipe["tied"], recipe["batch_size"], recipe["passages_per_query"]) == (False, 128, 2)
    assert (recipe["epochs"], recipe["learning_rate"], recipe["max_grad_norm"]) == (40, 1e-5, 2.0)
    assert recipe["lengths"] == {"query": 256, "passage": 256} and recipe["negatives"]["without_answers"]
    for name in ("nq", "tqa"):
        assert datasets[name]["name"] == name and datasets[name]["recipe"] == "dpr"
        assert experiment.home(checked, "cocondenser", name) == "wikipedia"  # pre-trained once for both
        assert experiment.metrics(checked, name)["measures"] == ["hits@5", "hits@20", "hits@100"]
    assert experiment.home(checked, "cocondenser", "msmarco_doc") == "msmarco-documents"
    assert datasets["msmarco-documents"]["train_split"] is datasets["msmarco-documents"]["eval_split"] is None
    assert "MRR@100" in experiment.metrics(checked, "msmarco_doc")["measures"]


def backbone_folder(path: Path, **settings: Any) -> dict[str, Any]:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps({"model_type": "bert", **settings}))
    return {"objective": "checkpoint", "source": "folder", "path": str(path)}


def test_a_home_folder_in_a_path_is_found(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "texts").mkdir()
    given = changed(config, "datasets.mine", {"source": "beir", "path": "~/texts"})
    given = changed(given, "downloads.mirror", "~/texts")
    given = changed(given, "datasets.mine.queries", {"log": "~/texts/log.tsv"})
    given = changed(given, "datasets.more", {"source": "hub_text", "parts": [{"id": "~/texts"}]})
    checked = validated(given)
    mine = checked["datasets"]["mine"]
    (part,) = checked["datasets"]["more"]["parts"]
    assert mine["path"] == checked["downloads"]["mirror"] == part["id"] == str(tmp_path / "texts")
    assert mine["queries"]["log"] == str(tmp_path / "texts/log.tsv")


def test_the_name_of_a_data_set_may_have_a_dot_within(config: Config, tmp_path: Path) -> None:
    texts = {"source": "beir", "path": str(tmp_path)}
    assert (
        "mine.v1.2"
        in validated({**config, "datasets": {**config["datasets"], "mine.v1.2": texts}})["datasets"]
    )
    for name in ("..", ".mine", "mine.", "mine..v1"):
        assert "datasets" in refusal({**config, "datasets": {**config["datasets"], name: texts}})


def test_the_head_starts_from_a_layer_of_any_backbone_that_is_known(config: Config, tmp_path: Path) -> None:
    for backbone in (SCRATCH, backbone_folder(tmp_path, num_hidden_layers=4, max_position_embeddings=512)):
        given = changed(config, "models.backbone", backbone)
        assert validated(given)["models"]["condenser"]["skip_from"] is None  # half, whatever the backbone
        said = refusal(changed(given, "models.condenser.skip_from", 5))
        assert re.match(r"models.condenser.skip_from: expected at most 4 .*, got 5", said)


def test_the_longest_row_is_padded_and_must_fit_the_positions(config: Config, tmp_path: Path) -> None:
    for positions, fits in ((130, True), (129, False)):  # a span of 128 and its two specials
        scratch = {**SCRATCH, "max_positions": positions}
        folder = backbone_folder(tmp_path, num_hidden_layers=4, max_position_embeddings=positions)
        for backbone, key in ((scratch, "max_positions"), (folder, "path")):
            given = changed(config, "models.backbone", backbone)
            given["objectives"]["cocondenser"]["span_tokens"] = [80, 128]
            if fits:
                validated(given)
                continue
            assert refusal(given) == (
                f"models.backbone.{key}: expected at least 130 positions for models.cocondenser.span_tokens "
                "(with specials), got 129. Shorten the texts, or take another backbone."
            )


def test_a_backbone_is_held_to_the_rows_of_the_tables_alone(config: Config) -> None:
    without_spans = changed(
        changed(config, "figures", {}),
        "tables",
        {"one": {"rows": ["condenser-round1"], "measures": ["MRR@10"]}},
    )
    validated(changed(without_spans, "models.backbone", {**SCRATCH, "max_positions": 128}))
    said = refusal(changed(without_spans, "models.backbone", {**SCRATCH, "max_positions": 127}))
    assert "at least 128 positions for" in said
    untrained = changed(
        changed(config, "figures", {}), "tables", {"one": {"rows": ["zero"], "measures": ["MRR@10"]}}
    )
    untrained["systems"]["zero"] = {"kind": "biencoder", "initial": "backbone", "train": False}
    untrained["recipes"]["marco"]["lengths"] = {"query": 64, "passage": 64}
    small = {**SCRATCH, "num_layers": 2, "max_positions": 64}
    validated(changed(untrained, "models.backbone", small))
    said = refusal(changed(untrained, "models.backbone", {**small, "max_positions": 63}))
    assert "at least 64 positions for recipes.marco.lengths.passage" in said and "got 63" in said


def test_a_systems_own_recipe_counts_for_the_longest_row(config: Config) -> None:
    given = changed(config, "systems.condenser-round1.recipe", {"lengths": {"passage": 200}})
    said = refusal(changed(given, "models.backbone", SCRATCH))
    assert "at least 200 positions for" in said and "lengths.passage" in said


RERANKER = {
    "kind": "crossencoder",
    "initial": "backbone",
    "negatives": ["bm25"],
    "candidates": "bm25",
    "depth": 9,
}


def test_a_cross_encoder_needs_positions_for_a_query_and_a_passage_together(config: Config) -> None:
    given = changed(changed(config, "figures", {}), "systems.reranked", RERANKER)
    given = changed(given, "tables", {"one": {"rows": ["reranked"], "measures": ["MRR@10"]}})
    for positions in (159, 158):
        checked = validated(changed(given, "models.backbone", {**SCRATCH, "max_positions": positions}))
        if positions == 159:
            check_longest_row(checked, "msmarco", "reranked")
            continue
        expected = (
            "^models.backbone.max_positions: expected at least 159 positions for recipes.marco, the longest "
            r"row of systems.reranked \(with specials\), got 158\. "
        )
        with pytest.raises(ValueError, match=expected):
            check_longest_row(checked, "msmarco", "reranked")
    check_longest_row(validated(given), "msmarco", "reranked")  # the embedded backbone


def test_auto_fits_any_backbone_that_has_room_for_the_query(config: Config) -> None:
    given = changed(changed(config, "figures", {}), "systems.reranked", RERANKER)
    given = changed(given, "tables", {"one": {"rows": ["reranked"], "measures": ["MRR@10"]}})
    given = changed(given, "recipes.marco.lengths", {"query": 32, "passage": "auto"})
    checked = validated(changed(given, "models.backbone", {**SCRATCH, "max_positions": 64}))
    assert checked["recipes"]["marco"]["lengths"] == {"query": 32, "passage": "auto"}
    check_longest_row(checked, "msmarco", "reranked")
    checked = validated(changed(given, "models.backbone", {**SCRATCH, "max_positions": 33}))
    with pytest.raises(ValueError, match="expected at least 34 positions"):
        check_longest_row(checked, "msmarco", "reranked")


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("candidates", "bm26", "systems.one.candidates: expected one of bm25, condenser-round1"),
        ("candidates", "both", "expected a chain that ends, got "),
        (
            "negatives",
            [],
            "systems.one: negatives: expected the systems whose negatives it is trained on, or pseudo",
        ),
        ("depth", 0, "systems.one.depth: expected greater than or equal to 1, got 0."),
        ("train", False, "systems.one: negatives: expected none with train: false."),
        ("loss", "pairwise", "systems.one.loss: expected 'localised' or 'pointwise', got 'pairwise'."),
    ],
)
def test_what_rerankers_cannot_be_is_refused(config: Config, key: str, value: Any, line: str) -> None:
    for name, entry in (
        ("one", RERANKER),
        ("two", RERANKER),
        ("both", {"kind": "fusion", "of": ["one", "two"], "method": "mean", "depth": 20}),
    ):
        config = changed(config, f"systems.{name}", entry)
    validated(config)
    assert line in refusal(changed(config, f"systems.one.{key}", value))
    assert "systems.both.of: expected " in refusal(changed(config, "systems.both.of", ["one"]))


TEACHER = {
    **RERANKER,
    "loss": "pointwise",
    "recipe": {"negatives": {"denoise": {"negative_below": 0.1, "positive_above": 0.9}}},
}
OVER = {**RERANKER, "initial": "teacher", "train": False, "negatives": [], "candidates": "condenser-round1"}
AGAIN = {**OVER, "recipe": TEACHER["recipe"]}
STUDENT = {
    **{"kind": "biencoder", "initial": "backbone", "negatives": ["teacher"]},
    "pseudo_labels": {"teacher": "again", "queries": "practice"},
}


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        (
            "systems.teacher.loss",
            "localised",
            "systems.teacher.recipe.negatives.denoise: expected null, as the scores of teacher are no ",
        ),
        (
            "systems.again.initial",
            "unsure",
            "systems.again.recipe.negatives.denoise: expected null, as the scores of again are no ",
        ),
        (
            "systems.student.recipe",
            TEACHER["recipe"],
            "systems.student.recipe.negatives.denoise: expected null, as the scores of student are no ",
        ),
        (
            "recipes.marco.negatives.denoise",
            {"negative_below": 0.1, "positive_above": None},
            "recipes.marco.negatives.denoise: expected null, as most systems give no probabilities. Set",
        ),
        (
            "systems.teacher.recipe.negatives.denoise.negative_below",
            0.95,
            "systems.teacher.recipe.negatives.denoise: negative_below: expected at most positive_above (",
        ),
        (
            "systems.teacher.recipe.negatives.denoise.positive_above",
            1.5,
            "systems.teacher.recipe.negatives.denoise.positive_above: expected less than or equal to 1",
        ),
        (
            "systems.over.initial",
            "backbone",
            "systems.over.initial: expected a trained cross-encoder (rer",
        ),
        (
            "systems.again.initial",
            "condenser-round1",
            "systems.again.initial: expected one of backbone, cond",
        ),
        ("systems.teacher.initial", "unsure", "systems.teacher.initial: expected one of backbone, condenser"),
        (
            "systems.again.loss",
            "pointwise",
            "systems.again: loss: expected none with train: false, where the",
        ),
        (
            "systems.student.pseudo_labels.teacher",
            "bm26",
            "systems.student.pseudo_labels.teacher: expected one of bm25, condenser-round1",
        ),
        (
            "systems.student.pseudo_labels",
            {"teacher": "unsure", "queries": "log"},
            "systems.student.pseudo_labels.teacher: expected a system whose recipe.negatives.denoise ",
        ),
        (
            "systems.student.pseudo_labels.queries",
            "train",
            "systems.student.pseudo_labels.queries: expected one of practice, held-titles",
        ),
        (
            "systems.student.negatives",
            [],
            "systems.student: negatives: expected the systems whose negatives ",
        ),
    ],
)
def test_what_teachers_cannot_be_is_refused(config: Config, key: str, value: Any, line: str) -> None:
    systems = {"unsure": RERANKER, "teacher": TEACHER, "over": OVER, "again": AGAIN, "student": STUDENT}
    for name, entry in systems.items():
        config = changed(config, f"systems.{name}", entry)
    validated(config)
    assert line in refusal(changed(config, key, value))


def test_negatives_of_official_files_cannot_be_denoised(config: Config) -> None:
    config = changed(config, "systems.teacher", TEACHER)
    official = {"source": "msmarco", "triples": "teacher"}
    line = "systems.teacher.recipe.negatives.denoise: expected null, as official files of datasets.official"
    assert line in refusal(changed(config, "datasets.official", official))


def test_the_embedded_backbone_has_the_layers_and_positions_it_is_held_to() -> None:
    settings = json.loads((embedded_folder() / "config.json").read_text())
    assert settings["num_hidden_layers"] == EMBEDDED_LAYERS
    assert settings["max_position_embeddings"] == EMBEDDED_POSITIONS


def test_a_backbones_broken_config_is_named(config: Config, tmp_path: Path) -> None:
    folder = backbone_folder(tmp_path)
    for text in ("{", "[]", '{"num_hidden_layers": "4"}', '{"num_hidden_layers": 4}'):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ValueError, match=r"^models.backbone.path: .*config.json.*expected"):
            layers_and_positions(folder, "models.backbone")


@pytest.mark.parametrize(
    ("path", "line"),
    [("/no/such", "expected a Hugging Face folder"), ("x" * 300, "expected to read .*: File name too long")],
)
def test_a_folder_that_cannot_be_used_is_refused_by_what_needs_it_alone(
    config: Config, path: str, line: str
) -> None:
    folder = {"objective": "checkpoint", "source": "folder", "path": path}
    validated(changed(config, "models.backbone", folder))
    with pytest.raises(ValueError, match=f"^models.backbone.path: {line}"):
        layers_and_positions(folder, "models.backbone")
    system = {"kind": "biencoder", "initial": "no-such-model", "negatives": ["bm25"]}
    broken = changed(changed(config, "models.backbone", folder), "systems.mine", system)
    assert refusal(broken).startswith("systems.mine.initial: expected one of")


def test_a_users_own_data_set_needs_two_keys(config: Config, tmp_path: Path) -> None:
    entry = {"source": "beir", "path": str(tmp_path)}
    filled = validated(changed(config, "datasets.mine", entry))["datasets"]["mine"]
    assert filled == {
        **entry, "bad_rows": "strict", "recipe": "marco", "train_split": "train", "eval_split": "dev",
        "measures": None, "relevant_grade": None, "documents": None, "other_eval_splits": None,
        "queries": None, "split": None, "lengths": {"query": None, "passage": None},
    }  # fmt: skip


NUMBER = re.compile(r"(?<![\w.@-])\d+(\.\d+)?([eE][+-]?\d+)?(?![\w.])")
SOURCE = re.compile(r"\b(Cond|v1|coC|C|D|T|R|BERT|Pyserini|MS MARCO|TREC|ours|scaled)\b")


@pytest.mark.parametrize("name", ["config.yaml", "configs/paper.yaml"])
def test_every_number_has_a_source_or_says_that_it_is_ours(root: Path, name: str) -> None:
    numbers = 0
    for line in (root / name).read_text().splitlines():
        value, _, comment = line.partition("#")
        if NUMBER.search(value):
            assert SOURCE.search(comment), f"{name}: {line.strip()} names no source"
            numbers += 1
    assert numbers > 20


def test_a_vocabulary_from_one_corpus_serves_no_model_of_another(config: Config) -> None:
    config = changed(config, "models.backbone", SCRATCH)
    config = changed(config, "datasets.wiki", {"source": "hub_text", "parts": [{"id": "wiki"}]})
    said = refusal(changed(config, "models.cocondenser.corpus", "wiki"))
    assert said.startswith("models.backbone.corpus: expected ")
    both = changed(changed(config, "models.cocondenser.corpus", "wiki"), "models.condenser.corpus", "wiki")
    validated(changed(both, "models.backbone.corpus", "wiki"))


def test_documents_are_a_data_set_that_names_none_itself(config: Config) -> None:
    config = changed(config, "datasets.long", {"source": "pydoc_documents"})
    validated(changed(config, "datasets.msmarco.documents", "long"))
    said = refusal(changed(config, "datasets.msmarco.documents", "lang"))
    assert said.startswith("datasets.msmarco.documents: expected one of msmarco, ")
    assert said.endswith("long, got 'lang'. Did you mean long?")
    said = refusal(changed(config, "datasets.msmarco.documents", "msmarco"))
    assert said.startswith("datasets.msmarco.documents: expected a data set that names no documents itself")
    said = refusal(changed(config, "datasets.long.documents", "msmarco"))
    assert said.startswith("datasets.long.documents: unknown key.")


def test_whole_epochs_are_one_setting_however_they_are_written(config: Config) -> None:
    made = validated(changed(changed(config, "models.condenser.epochs", 2.0), "recipes.marco.epochs", 0.5))
    assert repr(made["models"]["condenser"]["epochs"]) == "2"
    assert repr(made["recipes"]["marco"]["epochs"]) == "0.5"


@pytest.mark.parametrize("folder", ["data/sources", "objectives", "systems"])
def test_every_kind_declares_settings_that_refuse_unknown_keys(folder: str) -> None:
    names = kinds.names(folder)
    assert len(names) >= 2
    for name in names:
        model = kinds.load(folder, name).Settings
        assert model.model_config["extra"] == "forbid" and model.model_config["strict"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"table": "table2"}, "figures.mine.kind: missing. It names the kind: attention_entropy, costs, "),
        ({"kind": "pie", "table": "table2"}, "figures.mine.kind: expected one of attention_entropy, costs, "),
        ({"kind": "costs", "table": "tabel3"}, "figures.mine.table: expected one of "),
        ({"kind": "costs", "table": "table2", "size": 3},
         "figures.mine.size: unknown key. Known: kind, table, by_dataset."),
        ({"kind": "train_size", "table": "table2", "measures": ["R@5"]},
         "figures.mine.measures: expected one of MRR@10, R@1000, got R@5, a measure that is not among them. "
         "Add it to tables.table2.measures."),
        ({"kind": "train_size", "table": "table2", "measures": ["R"]},
         "figures.mine.measures: expected measures such as "),
        ({"kind": "curve", "table": "table2", "x": "tokens", "lines": {"A": {"hybrid": 1.0}}},
         "figures.mine.lines.A: expected one of backbone-zeroshot, "),
        ({"kind": "loss_curve", "table": "table2", "epochs": 1, "updates": 0},
         "figures.mine.updates: expected greater than or equal to 1, got 0."),
        ({"kind": "attention_entropy", "panels": {"A": ["bm25"]}, "passages": 5, "seed": 1},
         "figures.mine.panels.A: expected one of condenser-round1, "),
        ({"kind": "attention_entropy", "panels": {"A": ["condenser-round1"]},
          "passages": 5, "seed": 1, "seeds": []},
         "figures.mine.seeds: expected at least 1, got 0."),
    ],
)  # fmt: skip
def test_a_figure_that_cannot_be_drawn_is_refused(
    config: Config, entry: dict[str, Any], message: str
) -> None:
    assert refusal({**config, "figures": {"mine": entry}}).startswith(message)


@pytest.mark.parametrize("name", ["table2", "data"])
def test_a_figure_whose_files_would_be_another_results_is_refused(config: Config, name: str) -> None:
    with pytest.raises(ValueError, match=f"^figures.{name}: expected another name"):
        validated({**config, "figures": {name: {"kind": "costs", "table": "table2"}}})
