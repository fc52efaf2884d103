"""The configuration: what it means, and that whatever is wrong is refused in one line with its key."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from condenser.config import validated
from condenser.config.positions import (
    EMBEDDED_LAYERS,
    EMBEDDED_POSITIONS,
    check_longest_row,
    layers_and_positions,
)
from condenser.model.backbone_sources import embedded_folder
from condenser.nouns import Config
from condenser.objectives import checkpoint
from condenser.pipeline.specs import job_settings
from condenser.settings import merged, partly, plain
from condenser.shown import table_entry
from condenser.train.loop import num_warmup_steps

Values = Mapping[str, Any]


def overlay(key: str, value: Any) -> dict[str, Any]:
    """An overlay with one value, under a dotted key."""
    for name in reversed(key.split(".") if key else []):
        value = {name: value}
    return value


def changed(written: Values, *edits: tuple[str, Any]) -> dict[str, Any]:
    """A configuration with overlays of one value each."""
    for key, value in edits:
        written = merged(written, overlay(key, value))
    return dict(written)


def made(written: Values, *edits: tuple[str, Any]) -> Config:
    return validated(changed(written, *edits))


def refusal(written: Values, *edits: tuple[str, Any]) -> str:
    """The line that says why a configuration is refused."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is what the tests look at
        validated(changed(written, *edits))
    said = str(caught.value)
    assert said.isprintable() and len(said) < 700
    return said


TINY = "tests/data/tiny"
LONG = "x" * 100_000
TABLE = "tables.table2"
SCRATCH = {
    "objective": "checkpoint", "source": "scratch", "vocab_size": 600, "hidden_size": 32, "num_layers": 4,
    "num_heads": 2, "intermediate_size": 64, "max_positions": 136,
}  # fmt: skip
LSTM = {"objective": "checkpoint", "source": "lstm", "path": "config.yaml", "vocab_size": 99,
        "hidden_size": 4, "pooling": "max"}  # fmt: skip
VALIDATION = {"negatives": 4, "keep": "better", "initial_share": 0.5, "standard_errors": 2.0}
LATE = {"kind": "late", "initial": "backbone", "candidates": ["bm25"], "depth": 9}
RERANKER = {"kind": "crossencoder", "initial": "backbone", "negatives": ["bm25"], "candidates": "bm25",
            "depth": 9}  # fmt: skip
UNTRAINED = {"kind": "biencoder", "train": False}
OF_SYSTEM = {"objective": "checkpoint", "source": "system", "dataset": "msmarco"}
DENOISE = {"recipe": {"negatives": {"denoise": {"negative_below": 0.1, "positive_above": 0.9}}}}
OVER = {**RERANKER, "initial": "teacher", "train": False, "negatives": [], "candidates": "condenser-round1"}
GENERATED = {"model": "x", "samples": 3, "top_k": 10, "max_tokens": 9, "max_input_tokens": 40,
             "rows_per_chunk": 9}  # fmt: skip

# What the rows of REFUSED edit: valid configurations, as overlays.
VALID: dict[str, dict[str, Any]] = {
    "the default": {},
    "rerankers": {
        "systems": {
            **{"one": RERANKER, "two": RERANKER},
            "both": {"kind": "fusion", "of": ["one", "two"], "method": "mean", "depth": 20},
        },
    },
    "teachers": {
        "systems": {
            "unsure": RERANKER,
            "teacher": {**RERANKER, "loss": "pointwise", **DENOISE},
            "over": OVER,
            "again": {**OVER, **DENOISE},
            "student": {
                **{"kind": "biencoder", "initial": "backbone", "negatives": ["teacher"]},
                "pseudo_labels": {"teacher": "again", "queries": "practice"},
            },
        },
    },
    "rounds": {
        "systems": {
            "second": {"kind": "biencoder", "initial": "backbone-round1", "negatives": ["backbone-round1"]},
            "third": {"kind": "biencoder", "initial": "second", "negatives": ["second"]},
        },
    },
    "models of systems": {
        "models": {
            "moved": {**OF_SYSTEM, "system": "cocondenser-round2"},
            "again": {"objective": "condenser", "initial": "moved"},
            "two": {**OF_SYSTEM, "system": "condenser-untied"},
        },
        "systems": {
            "moved-zeroshot": {**UNTRAINED, "initial": "moved"},
            "again-zeroshot": {**UNTRAINED, "initial": "again"},
            "moved-tuned": {"kind": "biencoder", "initial": "moved", "negatives": ["bm25"]},
            "two-zeroshot": {**UNTRAINED, "initial": "two"},
            "two-tuned": {
                **{"kind": "biencoder", "initial": "two", "negatives": ["bm25"]},
                "recipe": {"tied": False},
            },
        },
        "tables": {"table2": {"rows": ["again-zeroshot"]}},
    },
    "a choice of another data set's models": {
        "models": {
            "moved": {**OF_SYSTEM, "system": "cocondenser-round2"},
            "two": {**OF_SYSTEM, "system": "condenser-untied"},
            "other": {"objective": "checkpoint", "source": "embedded"},
            "adapted": {"of": ["backbone-zeroshot", "moved-zeroshot"]},
        },
        "systems": {f"{name}-zeroshot": {**UNTRAINED, "initial": name} for name in ("moved", "two", "other")},
    },
    "a choice by a log": {
        "datasets": {"msmarco": {"queries": {"log": f"{TINY}/queries.jsonl"}}},
        "models": {"adapted": {"unjudged": ["log"]}},
        "systems": {"other": {"kind": "bm25", "k1": 0.9, "b": 0.4}},
    },
    "expansions": {
        "expansions": {
            "of-files": {"files": {"msmarco": "config.yaml"}, "by": "row"},
            "learnt": {
                "weights": 100,
                "trained": {
                    **{"initial": "backbone", "max_tokens": 40, "rows_per_chunk": 8, "batch_size": 8},
                    **{"epochs": 1, "learning_rate": 1.0e-3, "weight_decay": 0.01, "warmup_ratio": 0.1},
                    "max_grad_norm": 1.0,
                },
            },
            "own": {"generated": GENERATED},
        },
        "systems": {
            "expanded": {
                **{"kind": "bm25", "k1": 10, "b": 0.9},
                **{"expanded_passages": "learnt", "expanded_queries": "of-files"},
            }
        },
    },
    "an LSTM": {"models": {"lstm": LSTM}},
}

# Key, value, and how the line begins: behind the key, where that begins with a colon or a dot. Behind three
# dots is what else it says.
REFUSED: dict[str, list[tuple[str, Any, str]]] = {
    "the default": [
        # keys
        ("objectives.condenser.lr", 1.0, ": unknown key."),
        ("objectives.condenser.\x1b[2J", 1.0, r"objectives.condenser.\x1b[2J: unknown key."),
        ("models.condenser.learning_rates", 1.0, ": unknown key. Did you mean learning_rate?"),
        ("systems.bm25.k2", 1.0, ": unknown key. Known: kind, label, k1, b, language, exp"),
        ("recipes.marco.lengths.pasage", 1, ": unknown key. Did you mean passage?"),
        ("recipies", {}, ": unknown key. Did you mean recipes?"),
        ("compute." + LONG, 1, f"compute.'{'x' * 79}...: unknown key. Known: threads, device, precision."),
        ("datasets.x", {"source": "hub_text", "parts": [{"source": "x"}]}, ".parts[0].source: unknown key."),
        ("recipes.new", {}, ".batch_size: missing. (9 more)"),
        ("objectives.mine", {}, ": expected one of best_of, checkpoint, "),
        # names
        ("recipe", "rpd", ": expected one of marco, dpr, stsb, wikisection, nli, got 'rpd'."),
        ("datasets.a b", {"source": "pydoc"}, ": expected string should match pattern"),
        ("datasets." + LONG, {"source": "pydoc"}, f"datasets.'{'x' * 79}...: expected string should have at"),
        ("datasets.logs", {"source": "pydoc"}, ": expected another name, logs is that of another result."),
        ("tables.audit", {"rows": ["bm25"], "measures": ["MRR@10"]}, ": expected another name"),
        ("figures.table2", {"kind": "costs", "table": "table2"}, ": expected another name"),
        ("models.mlm-seed2", {"objective": "mlm", "initial": "backbone"}, ": expected another name,"),
        # types and ranges
        ("objectives.condenser.learning_rate", "1e-4",
         ": expected a number, got the text '1e-4'. YAML reads ... a dot and a sign: write 1.0e-4."),
        ("metrics.relevant_grade", "2", ": expected a number, got the text '2'. Write 2 without quotes"),
        ("objectives.condenser.learning_rate", float("nan"), ": expected a finite number, got nan"),
        ("objectives.condenser.learning_rate", "1" * 100_000, ": expected a valid number, got '111"),
        ("objectives.condenser.batch_size", 0, ": expected greater than or equal to 1, got 0"),
        ("seed", True, ": expected a valid integer"),
        ("seed", 10**300, ": expected less than or equal to 9223372036854775807, got 10000"),
        ("compute.precision", "fp8", ": expected 'auto', 'fp32', 'bf16' or 'fp16'"),
        ("recipes.marco.held_out", {"least": 10**6}, ": least: expected at most most ("),
        ("recipes.marco", {"held_out": None, "validation": VALIDATION}, ": validation: expected null"),
        ("significance.confidence", 95, ": expected less than 1"),
        # blocks
        ("models.a", 5, ": expected a block of keys, got 5. Indent its keys, or leave it out."),
        ("compute", None, ": expected a block of keys, got None."),
        # lengths of texts and of trainings
        ("recipes.marco.lengths.passage", "all", ": expected a whole number of at least 3, ... got 'all'"),
        ("recipes.marco.lengths.query", 2, ": expected a whole number of at least 3, auto or null, got 2"),
        ("objectives.condenser.updates", True, ": expected a whole number"),
        ("recipes.marco.updates", {"least": 9, "most": 8}, ": expected a whole number"),
        ("recipes.marco.updates", {"atleast": 9}, ": expected a whole number"),
        ("models.condenser", {"epochs": 2, "updates": 18},
         ": expected either epochs or a number of updates, got epochs 2 and updates 18. Give one"),
        # kinds
        ("datasets.mine", {"source": "bier"}, ".source: expected one of beir, "),
        ("datasets.mine", {"path": "x"}, ".source: missing. It names the kind: beir, "),
        # data sets
        ("datasets.mine", {"source": "beir", "path": "/no/such"}, ".path: expected a folder, found none at"),
        ("datasets.msmarco.recipe", "rpd", ": expected one of marco, dpr, "),
        ("datasets.msmarco.recipe", "stsb", ": expected a recipe for retrievers (marco, dpr), got stsb."),
        ("datasets.msmarco.documents", "mssmarco", ": expected one of msmarco, "),
        ("datasets", {"msmarco": {"documents": "a"}, "a": {"source": "pydoc", "documents": "msmarco"}},
         ".msmarco.documents: expected a data set that names no documents itself"),
        ("datasets.msmarco.measures", ["MRR"], ": expected measures such as "),
        ("datasets.msmarco", {"query_words": [30, 4]}, ": query_words: expected [least, most], got [30, 4]"),
        ("datasets.msmarco", {"eval_split": "train"}, ": train_split and eval_split are both 'train': name"),
        ("datasets.mine", {"source": "msmarco", "eval_split": "test"},
         ".eval_split: expected 'train', 'dev' or 'dl19', got 'test'"),
        ("datasets.mine", {"source": "msmarco", "eval_split": "dl19"},
         ".relevant_grade: expected at least 2 for the evaluation set dl19, got 1."),
        ("datasets.mine", {"source": "msmarco", "other_eval_splits": {"dl19": {"measures": ["nDCG@10"]}}},
         ".other_eval_splits.dl19.relevant_grade: expected at least 2 for the"),
        ("datasets.mine", {"source": "msmarco", "other_eval_splits": {"dl20": {}}},
         ".other_eval_splits: expected splits out of train, dev, dl19, got 'dl20'."),
        ("datasets.mine", {"source": "msmarco", "other_eval_splits": {"dev": {}}},
         ": other_eval_splits: 'dev' is a split already: name another"),
        ("datasets.mine", {"source": "msmarco", "other_eval_splits": {"dl19": {"measures": ["nDCG"]}}},
         ".other_eval_splits.dl19.measures: expected measures such as"),
        ("datasets.mine", {"source": "msmarco", "unjudged": "dev"}, ": unjudged: 'dev' names a split or"),
        ("datasets.mine", {"source": "msmarco", "triples": "bm25", "split": {"words": 120, "stride": 60}},
         ".split: expected none with official negatives, which are whole texts. Set datasets.mine.triples"),
        ("datasets.msmarco.other_eval_splits", {"other": {}}, ": expected none, the source pydoc makes one"),
        ("datasets.mine", {"source": "tsv", "path": ".", "eval_split": None, "other_eval_splits": {"a": {}}},
         ": other_eval_splits: expected none without eval_split, the main one"),
        ("datasets.mine", {"source": "tsv", "path": ".", "split": {"words": 60, "stride": 61}},
         ".split: stride: expected at most words (60), got 61"),
        ("datasets.msmarco", {"queries": {"dev": "log.tsv"}}, ": queries: 'dev' is a split with"),
        ("datasets.msmarco", {"queries": {"log": "log.csv"}}, ": queries: expected a file whose name ends"),
        ("extracted.dev", {"views": ["titles"], "passages": [0.0, 1.0], "count": 1},
         ": expected another name, dev is that of queries of the data set msmarco."),
        ("extracted.practice.passages", [0.5, 0.2], ": expected two numbers in order, ... got [0.5, 0.2]"),
        ("extraction.words", [4], ": expected two numbers in order, from 1 to"),
        ("extraction.words", [True, 4], ": expected two numbers in order, from 1 to"),
        # data sets of sentences
        ("datasets.stsb.recipe", None, ": expected a recipe for sentences (stsb, ... , got marco."),
        ("datasets.wikisection.recipe", "stsb", ": expected a recipe for sentences with a ... got stsb."),
        ("datasets.stsb.measures", ["MRR@10"],
         ": expected measures of similarity, got MRR@10, which is one of rankings."),
        ("datasets.stsb", {"train_split": "test"}, ": train_split and eval_split are both"),
        ("sources.wikisection.test_share", 0.95, "datasets.wikisection: validation_share and test_share:"),
        # models
        ("models.mine", {"objective": "checkpoint", "source": "hub"}, ": source hub needs id"),
        ("models.mine", {"objective": "checkpoint", "source": "embedded", "id": "x"},
         ": source embedded takes no id. If a configuration file below gives it, set it to null."),
        ("models.backbone", {**SCRATCH, "num_heads": 3}, ": hidden_size 32 is no multiple of num_heads 3."),
        ("models.condenser.corpus", "wiki", ": expected one of collection, msmarco, stsb, ... got 'wiki'"),
        ("models.condenser.corpus", LONG, ": expected string should have at most 100"),
        ("models.condenser.initial", "bert", ": expected one of backbone, condenser, cocondenser, "),
        ("models.condenser.initial", "cocondenser",
         ": expected a chain that ends, got condenser -> cocondenser -> condenser."),
        ("models.condenser.skip_from", 7, ": expected at most 6 (the backbone's layers), got 7."),
        ("models.mlm.seed", "all", ": expected a whole number or each, got 'all'."),
        ("models.mlm.seed", -1, ": expected a whole number or each, got -1."),
        ("models.backbone.seed", "each", ": expected a whole number, got each."),
        ("models", {"condenser": {"seed": "each"}, "cocondenser": {"seed": 3}},
         ".cocondenser.seed: expected none, as it follows condenser"),
        ("models", {"backbone": SCRATCH, "cocondenser": {"corpus": "msmarco"}},
         ".backbone.corpus: expected 'msmarco', the corpus of cocondenser, got 'collection'"),
        ("objectives.cocondenser.span_tokens", [128, 80], "models.cocondenser: expected min_span_tokens <="),
        ("models.cocondenser", {"contrastive_weight": 0, "mlm_weight": 0},
         ": expected a loss of weight above 0, got none"),
        # systems
        ("systems.bm25.language", "th", ": expected another language than th: the Java"),
        ("systems.condenser-round1.initial", "condensr", ": expected one of backbone, condenser, "),
        ("systems.condenser-round1.negatives", ["bm26"], ": expected one of bm25"),
        ("systems.condenser-round1", {"negatives": []}, ": negatives: expected the system"),
        ("systems.condenser-round1", {"train": False}, ": negatives: expected none with train: false"),
        ("systems.condenser-round1", {"negatives": ["condenser-round2"]},
         ": expected a chain that ends, got condenser-round1 -> condenser-round2 -> "),
        ("systems.condenser-round1.recipe", {"max_tokens": 20}, ".max_tokens: unknown key."),
        ("systems.condenser-round1.recipe", {"held_out": None}, ".held_out: expected no such key"),
        ("systems.condenser-round1.recipe", {"negatives": {"depth": 300}}, ".negatives.depth: 300 is"),
        ("systems.backbone-round2", {"kind": "biencoder", "initial": "backbone", "negatives": ["bm25"],
                                     "recipe": {"negatives": {"margin": 0.1}}},
         ".recipe.negatives: expected a system whose negatives others learn from, got backbone-round2"),
        ("systems.late", {"match": "first"}, ": first_states: expected a number with match: ... got None"),
        ("systems.late", {"first_states": 8}, ": first_states: expected a number with match: ... got 8"),
        ("systems.late", {"match": "first", "first_states": 8, "special_tokens": False},
         ": special_tokens: expected true with match: first, whose first state is [CLS]"),
        ("systems.late", {"train": True}, ": negatives: expected the systems whose negatives it is"),
        ("systems.late", {"negatives": ["bm25"]}, ": negatives: expected none without ... got ['bm25']"),
        ("systems.late", {"dim": 64}, ": dim: expected none without train: true, got 64"),
        ("systems.late", {"train": True, "negatives": ["bm52"]}, ".negatives: expected one of bm25, "),
        ("systems.hybrid.of", ["bm25", "bm25"], ": expected each once, got bm25 again"),
        ("systems.hybrid.of", ["bm25"], ": expected at least 2, got 1"),
        ("systems.hybrid.weights", "learned", ": expected equal, learnt, or a number of at least 0 for"),
        ("systems.hybrid", {"weights": "learnt", "method": "rrf"}, ": method: expected convex ... got rrf"),
        ("systems.hybrid", {"weights": [1, 2]}, ": weights: expected 3 numbers, one for each system in `of`"),
        ("systems.hybrid", {"weights": [0, 0, 0]}, ": weights: expected 3 numbers, one for each system in"),
        ("systems.distilled.distillation.teacher", "hybrit", ": expected one of bm25, "),
        ("systems.distilled.distillation.queries", "practise", ": expected one of practice"),
        ("systems.distilled.distillation.initial_share", 1.0, ": expected less than 1"),
        ("systems.distilled", {"negatives": ["bm25"]}, ": distillation: expected none with negatives or"),
        ("systems.distilled", {"pseudo_labels": {"teacher": "bm25", "queries": "practice"}},
         ": pseudo_labels: expected none without negatives, whose examples they add to"),
        ("systems.backbone-nli-sentences.first_on", "msmarco", ": expected a data set of ... got msmarco."),
        ("systems.backbone-nli-sentences.first_on", "nly", ": expected one of "),
        ("systems.backbone-nli-sentences", {"train": False}, ": first_on: expected none with train: false."),
        ("systems.backbone-sentences.recipe", {"passages_per_query": 2}, ".passages_per_query: unknown key."),
        # recipes
        ("recipes.marco", {"depth": {"eval": 3000}, "negatives": {"depth": 2000}}, ".negatives.depth: 2000"),
        ("recipes.marco.negatives.positive_in_run", ["bm26"], ": expected one of bm25"),
        ("recipes.marco.negatives.denoise", {"negative_below": 0.1, "positive_above": None},
         ": expected null, as most systems give no probabilities. Set"),
        ("recipes.stsb.margin", -1.0, ": expected greater than 0, got -1.0."),
        # tables and what they show
        ("metrics.measures", ["MRR@10", "MAP"], ": expected measures such as "),
        ("metrics.measures", ["spearman"],
         ": expected measures of rankings, got spearman, which is one of similarity."),
        (f"{TABLE}.rows", ["condenser-round3"], ": expected one of bm25, condenser-round1"),
        (f"{TABLE}.measures", ["MRR@10", "MRR@10"], ": expected each once, got MRR@10 again"),
        (f"{TABLE}.measures", ["MRR@7"], ": expected one of MRR@10, "),
        (f"{TABLE}.measures", ["MRR@10", "dl19/nDCG@10"], ": dl19/nDCG@10: expected a data set or"),
        (f"{TABLE}.measures", ["MRR@10", "msmarco/MRR"], ": expected measures such as"),
        (f"{TABLE}.by_dataset", {"nq": {"rows": ["bm52"]}}, ".nq.rows: expected one of"),
        (f"{TABLE}.by_dataset", {"nq": {"row": ["bm25"]}}, ".nq.row: unknown key"),
        (f"{TABLE}.by_dataset", {"nq": {"by_dataset": {}}}, ".nq.by_dataset: unknown key"),
        (f"{TABLE}.by_dataset", {"msmarco": {"measures": ["R@10"]}},
         ".msmarco.measures: expected one of ... got R@10, a measure that is not among them. Add it to"),
        ("tables.low_data.by_dataset.stsb.rows", ["bm25"], ": expected systems for the ... got bm25, a "),
        ("tables.low_data.by_dataset.stsb.measures", ["MRR@10"], ": expected measures of ... got MRR@10, "),
        (f"{TABLE}.published", "table3", ": expected one of cocondenser_table1"),
        (f"{TABLE}.labels", {"bm26": "x"}, ": expected one of bm25"),
        (f"{TABLE}.seeds", [], ": expected at least 1, got 0."),
        (f"{TABLE}.train_queries", [0], "[0]: expected greater than or equal to 1"),
        (f"{TABLE}.compare_with", ["mlm-zeroshot"], ": expected one of backbone-zeroshot, "),
        ("figures.mine", {"kind": "costs", "table": "tabel3"}, ".table: expected one of "),
        ("figures.mine", {"kind": "costs", "table": "table2", "by_dataset": {"nq": "x"}},
         ".by_dataset.nq: expected one of "),
        ("figures.mine", {"kind": "costs", "table": "table2", "size": 3}, ".size: unknown key. Known:"),
        ("figures.mine", {"kind": "train_size", "table": "table2", "measures": ["nDCG@10"]},
         ".measures: expected one of MRR@10, R@1000, got nDCG@10, a measure that is not among them."),
        ("figures.mine", {"kind": "train_size", "table": "table2", "measures": ["R"]},
         ".measures: expected measures such as "),
        ("figures.mine", {"kind": "curve", "table": "table2", "x": "tokens", "lines": {"A": {"hybrid": 1.0}}},
         ".lines.A: expected one of backbone-zeroshot, "),
        ("figures.mine", {"kind": "attention_entropy", "panels": {"A": ["bm25"]}, "passages": 5, "seed": 1},
         ".panels.A: expected one of condenser-round1, "),
        ("downloads.mirror", "/no/such", ": expected a folder"),
    ],
    "rerankers": [
        ("systems.one.candidates", "bm26", ": expected one of bm25, condenser-round1"),
        ("systems.one", {"candidates": "both"}, ": expected a chain that ends, got one -> both -> one."),
        ("systems.one", {"negatives": []}, ": negatives: expected the systems whose negatives it is"),
        ("systems.one", {"train": False}, ": negatives: expected none with train: false."),
    ],
    "teachers": [
        ("systems.teacher.loss", "localised",
         "systems.teacher.recipe.negatives.denoise: expected null, as the scores of teacher are no "),
        ("systems.again.initial", "unsure",
         "systems.again.recipe.negatives.denoise: expected null, as the scores of again are no "),
        ("systems.student", DENOISE, ".recipe.negatives.denoise: expected null, as the scores of student"),
        ("systems.teacher.recipe.negatives.denoise", {"negative_below": 0.95}, ": negative_below: expected"),
        ("systems.teacher.recipe.negatives.denoise.positive_above", 1.5, ": expected less than or equal to"),
        ("datasets.official", {"source": "msmarco", "triples": "teacher"},
         "systems.teacher.recipe.negatives.denoise: expected null, as official files of datasets.official"),
        ("systems.over.initial", "backbone", ": expected a trained cross-encoder (rer"),
        ("systems.again.initial", "condenser-round1", ": expected one of backbone, cond"),
        ("systems.teacher.initial", "unsure", ": expected one of backbone, condenser"),
        ("systems.again", {"loss": "pointwise"}, ": loss: expected none with train: false, where the"),
        ("systems.student.pseudo_labels.teacher", "bm26", ": expected one of bm25, condenser-round1"),
        ("systems.student.pseudo_labels", {"teacher": "unsure", "queries": "log"},
         ".teacher: expected a system whose recipe.negatives.denoise has positive_above, got unsure."),
        ("systems.student.pseudo_labels.queries", "train", ": expected one of practice, held-titles"),
        ("systems.student", {"negatives": []}, ": negatives: expected the systems whose negatives "),
    ],
    "rounds": [
        ("systems.third.initial", "bm25", ": expected one of backbone, "),
        ("systems.third.initial", "backbone-zeroshot", ": expected one of backbone, "),
        ("systems.third.initial", "third", ": expected one of backbone, "),
        ("systems.second", {"initial": "third"}, ": expected a chain that ends, got second -> third"),
        ("systems.third.recipe", {"tied": False},
         "systems.third.initial: expected a ... got second: recipe.tied is None there and False here."),
    ],
    "models of systems": [
        ("models.moved.dataset", "msmarko", ": expected one of msmarco, "),
        ("models.moved.system", "cocondensr-round2", ": expected one of bm25, "),
        ("models.moved.system", "bm25",
         ": expected a system that is trained to ... got bm25, which is not trained. Name a model as"),
        ("models.moved.system", "rerank-backbone",
         ": expected a system that is trained ... got rerank-backbone, which reads a query and a passage"),
        ("models.moved.system", "backbone-sentences",
         ": expected a system that is trained to ... got backbone-sentences, which is not for queries."),
        ("models.moved.dataset", "stsb",
         "models.moved.system: expected a system ... got cocondenser-round2, which is not for sentences."),
        ("models.moved.variant", "untrained", ": expected one that cocondenser-round2 ... got 'untrained'"),
        ("models.moved.variant", "../seed1", ": expected one that cocondenser-round2 ... got '../seed1'"),
        ("models.moved", {"system": "distilled", "variant": "n10-seed1"},
         ".variant: expected one that distilled has, such as seed42, got 'n10-seed1'"),
        ("models.moved.seed", "each", ": expected a whole number, got each"),
        ("models.moved", {"system": None}, ": source system needs system"),
        ("models.moved", {"id": "x"}, ": source system takes no id"),
        ("models.moved.system", "moved-tuned", ": expected systems that do not ... got moved-tuned"),
        ("", {"models": {"moved": {"system": "last"}, "further": {**OF_SYSTEM, "system": "moved-tuned"}},
              "systems": {"last": {"kind": "biencoder", "initial": "further", "negatives": ["bm25"]}}},
         "models.moved.system: expected systems that do not start from moved itself, got moved-tuned"),
        ("", {"models": {"moved": {"system": "last"}}, "systems": {"last": {
            "kind": "biencoder", "initial": "backbone", "negatives": ["moved-zeroshot"]}}},
         "models.moved.system: expected systems that do not start from moved itself, got moved-zeroshot"),
        ("models.again.skip_from", 7, ": expected at most 6 (the backbone's layers), got 7."),
        ("models.again.initial", "two", ": expected a model with one ... got two, which has two. Set"),
        ("systems.two-tuned.recipe.tied", True,
         "systems.two-tuned.initial: expected a model with one encoder, ... got two, which has two. Set"),
        ("systems.late.initial", "two", ": expected a model with one "),
    ],
    "a choice of another data set's models": [
        ("models.moved.system", "cocondensr-round2", ": expected one of ... Did you mean cocondenser-r"),
        ("models.moved.prompts", {"query": "q: "},
         "models.adapted.of: expected models of one ... got moved-zeroshot, which has prompts of its own."),
        ("models.adapted.of", ["backbone-zeroshot", "two-zeroshot"],
         ": expected models of one checkpoint, got two-zeroshot, which has two encoders."),
        ("models.backbone", SCRATCH,
         "models.adapted.of: expected models of one ... got moved-zeroshot, whose vocabulary is of another"),
        ("models.adapted.of", ["backbone-zeroshot", "other-zeroshot"],
         ": expected models of one checkpoint, got other-zeroshot, which has other."),
    ],
    "a choice by a log": [
        ("models.adapted.of", ["bm25", "mlm-zeroshot"], ": expected backbone without ... got bm25"),
        ("models.adapted.of", ["mlm-zeroshot", "backbone-zeroshot"],
         ": expected backbone without fine-tuning as the first, got mlm-zeroshot"),
        ("models.adapted.of", ["backbone-zeroshot", "hybrid"], ": expected bi-encoders, got hybrid"),
        ("models.adapted.of", ["backbone-zeroshot", "adapted-zeroshot"],
         ": expected systems that do not start from adapted itself, got adapted-zeroshot"),
        ("models.adapted.of", ["backbone-zeroshot", "nothing"], ": expected one of "),
        ("models.adapted.queries", ["dev"], ": expected one of practice, held-"),
        ("models.adapted.measure", "hits@20", ": expected one that needs no answers, got hits@20"),
        ("models.adapted", {"queries": ["practice"], "of": ["backbone-zeroshot", "distilled"]},
         ".of: expected candidates that do not learn from practice, which compares them, got distilled."),
        ("models.adapted.unjudged", ["dev"], ": expected one of log, got 'dev'"),
        ("models.adapted.voters", ["backbone-sentences"], ": expected one of "),
        ("models.adapted.voters", ["late"],
         ": expected one system of each family, ... got late, which shares backbone with stacked-zeroshot."),
        ("models.adapted.voters", ["bm25", "other"],
         ": expected one system of each family, and none of a ... got other, which shares bm25 with bm25."),
        ("models.adapted.of", ["backbone-zeroshot", "distilled"],
         "models.adapted.voters: expected one system of ... got bm25, which shares bm25 with distilled."),
        ("models.adapted.corpus", "msmarco", ": expected none, a model is chosen for each data set"),
        ("models.adapted.seed", 3, ": expected none, a model is chosen for each data set"),
    ],
    "expansions": [
        ("expansions.learnt", {"by": "row"}, ": expected files and by, or else trained, or else"),
        ("expansions.none", {"by": "row"}, ": expected files and by, or else trained, or else generated."),
        ("expansions.learnt", {"files": {"msmarco": "config.yaml"}, "by": "row"}, ": expected files and"),
        ("expansions.of-files", {"by": None}, ": expected files and by, or else trained, or"),
        ("expansions.learnt", {"weights": None}, ": weights: expected a number beside trained"),
        ("expansions.learnt.trained.initial", "bert", ": expected one of backbone, condenser"),
        ("expansions.learnt.trained.initial", "adapted", ": expected a model that no ... got adapted."),
        ("expansions.own.generated", {"top_k": None}, ": samples: expected 1 without top_k, as greedy"),
        ("expansions.own", {"weights": 100}, ": weights: expected none beside generated, got 100"),
        ("expansions.own", {"field": "texts"}, ": field: expected contents without files, got texts"),
        ("expansions.own.generated.model", "a{b}", ": expected a path without {, } and"),
        ("expansions.of-files.files.msmarco", "a{b}", ": expected a path without {, } and"),
        ("systems.expanded.expanded_queries", "file", ": expected one of of-files, learnt, own"),
        ("systems.expanded.expanded_queries", "learnt", ": expected an expansion with files ... got learnt"),
    ],
    "an LSTM": [
        ("models.lstm", {"pooling": "cls"}, ": source lstm needs pooling max or mean, got cls."),
        ("models.lstm", {"normalised": True}, ": source lstm takes no normalised."),
        ("models.lstm", {"path": None}, ": source lstm needs path."),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", VALID)
def test_what_the_refused_rows_edit_is_valid(written: Values, name: str) -> None:
    validated(merged(written, VALID[name]))


@pytest.mark.parametrize(
    ("valid", "key", "value", "line"),
    [(valid, *row) for valid, rows in REFUSED.items() for row in rows],
    ids=lambda part: f"{part!s:.40}",
)
def test_what_is_wrong_gives_one_line_with_the_key(
    written: Values, valid: str, key: str, value: Any, line: str
) -> None:
    said = refusal(merged(written, VALID[valid]), (key, value))
    begin, _, later = (key + line if line[0] in ":.[" else line).partition(" ... ")
    assert said.startswith(begin) and later in said


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("systems.bm25.label", "BM25 (k1 = 0.9), naïve, 日本語 – w/o + 5 %"),
        ("recipes.marco.max_grad_norm", 0.0),  # no clipping
        ("datasets", {"mine.v1.2": {"source": "beir", "path": TINY}}),
        ("datasets.mine", {"source": "beir", "path": TINY, "train_split": None}),
        ("datasets.mine", {"source": "tsv", "path": TINY, "train_split": None, "eval_split": None}),
        ("datasets.mine", {"source": "msmarco", "train_split": "dev", "eval_split": "train"}),
        ("datasets.mine", {"source": "msmarco", "eval_split": "dl19", "relevant_grade": 2}),
        ("", {"metrics": {"relevant_grade": 2},
              "datasets": {"mine": {"source": "msmarco", "eval_split": "dl19"}}}),
        ("", {"datasets": {"msmarco": {"measures": ["MRR@10", "MRR@7"]}},
              "tables": {"table2": {"measures": ["MRR@7"]}}}),
        (f"{TABLE}.measures", ["hits@7"]),  # by answers, which only some data sets have
        ("models.unused", {"objective": "checkpoint", "source": "folder", "path": "/no/such"}),
        ("", {
            "datasets": {"wiki": {"source": "hub_text", "parts": [{"id": "wiki"}]}},
            "models": {
                "backbone": {**SCRATCH, "corpus": "wiki"},
                **{name: {"corpus": "wiki"} for name in ("condenser", "cocondenser")},
            },
        }),
    ],
    ids=lambda part: f"{part!s:.40}",
)  # fmt: skip
def test_what_can_be_is_taken(written: Values, key: str, value: Any) -> None:
    made(written, (key, value))


def test_keys_are_texts(written: Values) -> None:
    assert refusal({**written, 5: 1}).startswith("config[5]: expected keys should be strings, got 5.")
    assert refusal(written, ("models", {5: {"objective": "checkpoint"}})).startswith("models")


@pytest.mark.parametrize("label", ["\x1b[31mred", "a\tb", "", "x" * 201, "$x$", "a\u202eb"])
def test_a_label_is_text_in_every_table_figure_and_terminal(written: Values, label: str) -> None:
    curve = {"kind": "curve", "table": "table2", "x": "steps", "lines": {"a line": {"bm25": 1.0}}}
    for key, value in {
        "systems.bm25.label": label,
        "tables.table2.labels.bm25": label,
        "tables.table2.by_dataset": {"msmarco": {"labels": {"bm25": label}}},
        "figures.attention_entropy.panels": {label: ["backbone-zeroshot"]},
        "figures.mine.lines": {label: {"bm25": 1.0}},
        "figures.mine.x": label,
    }.items():
        key_said = "tables.table2.labels.bm25" if "by_dataset" in key else key
        assert refusal(written, ("figures.mine", curve), (key, value)).startswith(f"{key_said}: expected ")


@pytest.mark.parametrize("name", ["{x}", "a{", "b}", "a\x1b[2J"])
def test_a_path_that_snakemake_would_fill_in_is_refused(written: Values, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    path = str(tmp_path / name)
    begin = "expected a path without {, } and control"
    mine = ("datasets.mine", {"source": "beir", "path": path})
    assert refusal(written, mine).startswith(f"datasets.mine.path: {begin}")
    texts = ("datasets.mine", {"source": "hub_text", "parts": [{"id": path}]})
    assert refusal(written, texts).startswith(f"datasets.mine.parts[0].id: {begin}")
    assert refusal(written, ("downloads.mirror", path)).startswith(f"downloads.mirror: {begin}")


@pytest.mark.parametrize("name", ["..", ".mine", "mine.", "mine..v1"])
def test_the_name_of_a_data_set_may_have_a_dot_within_alone(written: Values, name: str) -> None:
    texts = {"source": "beir", "path": TINY}
    assert refusal(written, ("datasets", {name: texts})).startswith("datasets")


def test_the_default_is_valid_and_every_value_of_it_comes_back_unchanged(written: Values) -> None:
    def kept(given: Any, checked: Any) -> bool:
        if isinstance(given, dict):
            return all(key in checked and kept(value, checked[key]) for key, value in given.items())
        return given == checked

    assert kept(written, plain(validated(written)))


@pytest.mark.parametrize("name", ["paper", "tiny", "cls", "seeds"])
def test_an_overlay_is_valid_and_what_is_given_is_not_changed(root: Path, written: Values, name: str) -> None:
    given = merged(written, yaml.safe_load((root / f"configs/{name}.yaml").read_text()))
    before = copy.deepcopy(given)
    validated(given)
    assert given == before


def test_the_papers_configuration_has_the_values_of_the_authors_code(root: Path, written: Values) -> None:
    paper = validated(merged(written, yaml.safe_load((root / "configs/paper.yaml").read_text())))
    assert paper.encode.separator == "always"
    assert paper.models["cocondenser"].span_tokens[1] == 128 - 2
    assert paper.models["cocondenser"].corpus_for("msmarco") == "msmarco-documents"
    recipe = paper.recipes["marco"]
    assert num_warmup_steps(150_000, warmup_ratio=recipe.warmup_ratio) == 0
    assert recipe.negatives.depth == 200 and recipe.depth.train - 200 >= 7  # positives of a query


@pytest.mark.parametrize("name", ["cls", "paper"])
def test_the_papers_form_is_one_overlay_away(root: Path, written: Values, name: str) -> None:
    """[CLS] and inner product, the papers' weights of the losses, nothing that they do not have."""
    config = validated(merged(written, yaml.safe_load((root / f"configs/{name}.yaml").read_text())))
    models, recipe = config.models, config.recipes["marco"]
    condenser, cocondenser = models["condenser"], models["cocondenser"]
    assert (models["backbone"].pooling, models["backbone"].normalised) == ("cls", False)
    assert condenser.initial_share == cocondenser.initial_share == 0
    assert condenser.learning_rate == cocondenser.learning_rate == 1e-4
    assert cocondenser.mlm_weight == cocondenser.contrastive_weight == 1
    assert recipe.negatives.margin is cocondenser.scale is recipe.scale is None  # 1 for [CLS]


def test_question_answering_and_documents_are_overlays_of_the_papers(root: Path, written: Values) -> None:
    for name in ("configs/tables/qa.yaml", "configs/paper.yaml", "configs/qa.yaml"):
        written = merged(written, yaml.safe_load((root / name).read_text()))
    config = validated(written)
    recipe, datasets = config.recipes["dpr"], config.datasets
    assert (recipe.tied, recipe.batch_size, recipe.passages_per_query) == (False, 128, 2)
    assert (recipe.epochs, recipe.learning_rate, recipe.max_grad_norm) == (40, 1e-5, 2.0)
    assert plain(recipe.lengths) == {"query": 256, "passage": 256} and recipe.negatives.without_answers
    for name in ("nq", "tqa"):
        assert datasets[name].name == name and datasets[name].recipe == "dpr"
        assert config.models["cocondenser"].corpus_for(name) == "wikipedia"  # pre-trained once for both
        assert config.datasets[name].metrics().measures == ["hits@5", "hits@20", "hits@100"]
    assert config.models["cocondenser"].corpus_for("msmarco_doc") == "msmarco-documents"
    assert datasets["msmarco-documents"].train_split is datasets["msmarco-documents"].eval_split is None
    assert "MRR@100" in config.datasets["msmarco_doc"].metrics().measures


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


def test_entries_have_what_their_kind_gives_to_all_unless_they_say_otherwise(written: Values) -> None:
    entry = {"objective": "condenser", "initial": "backbone", "epochs": 2}
    config = made(written, ("models.another", entry), ("datasets.msmarco.eval_queries", 100))
    models, dataset = config.models, config.datasets["msmarco"]
    assert models["condenser"].num_head_layers == models["another"].num_head_layers == 2
    assert (models["condenser"].updates, models["another"].updates) == (18, None)  # not both
    assert dataset.eval_queries == 100 and dataset.train_queries == 1000


BOUNDS = {"least": 16, "most": None}


@pytest.mark.parametrize(
    ("own", "all_queries", "a_hundred"),
    [
        ({}, (1, BOUNDS), (9, None)),
        ({"epochs": 3}, (3, None), (3, None)),
        ({"updates": 40}, (None, 40), (None, 40)),
        ({"updates": {"most": 99}}, (1, BOUNDS | {"most": 99}), (9, None)),
    ],
)
def test_a_systems_own_length_of_training_replaces_that_of_the_recipe(
    written: Values, own: dict[str, Any], all_queries: tuple[Any, Any], a_hundred: tuple[Any, Any]
) -> None:
    of_recipe = {"epochs": 1, "updates": BOUNDS, "epochs_by_size": {100: 9}}
    config = made(written, ("recipes.marco", of_recipe), ("systems.condenser-round1.recipe", own))
    for variant, length in (("seed42", all_queries), ("n100-seed42", a_hundred)):
        names = {"dataset": "msmarco", "system": "condenser-round1", "variant": variant}
        recipe = job_settings(config, names).recipe
        assert (recipe.epochs, recipe.updates) == length


def test_whole_epochs_are_one_setting_however_they_are_written(written: Values) -> None:
    config = made(written, ("models.condenser.epochs", 2.0), ("recipes.marco.epochs", 0.5))
    assert repr(config.models["condenser"].epochs) == "2"
    assert repr(config.recipes["marco"].epochs) == "0.5"


def test_a_data_set_that_names_no_recipe_has_the_one_of_all(written: Values) -> None:
    edits = (
        ("recipes.other", written["recipes"]["marco"]),
        ("recipe", "other"),
        ("datasets.msmarco.recipe", None),
    )
    assert made(written).datasets["msmarco"].recipe == "marco"
    assert made(written, *edits).datasets["msmarco"].recipe == "other"


@pytest.mark.parametrize(
    ("recipe", "dataset", "expected"),
    [
        ({}, {}, ("auto", "auto")),
        ({}, {"passage": 200}, ("auto", 200)),
        ({"passage": 300}, {"passage": 200}, ("auto", 300)),
        ({"passage": 300}, {"query": 20}, (20, 300)),
    ],
)
def test_lengths_are_the_recipes_or_the_data_sets_or_auto(
    written: Values, recipe: dict[str, Any], dataset: dict[str, Any], expected: tuple[Any, Any]
) -> None:
    """A user's own collection is not cut at the lengths of MS MARCO."""
    mine = {"source": "beir", "path": TINY, "lengths": dataset}
    config = made(written, ("datasets.mine", mine), ("recipes.marco.lengths", recipe))
    lengths = config.datasets["mine"].recipe_of().lengths
    assert (lengths.query, lengths.passage) == expected


@pytest.mark.parametrize("seeded", ["models.condenser.seed", "objectives.condenser.seed"])
def test_a_model_is_pre_trained_for_each_seed_if_the_one_it_starts_from_is(
    written: Values, seeded: str
) -> None:
    models = made(written, (seeded, "each")).models
    each = {name for name, model in models.items() if model.seed == "each"}
    assert {"condenser", "cocondenser"} <= each and not each & {"ict", "stacked", "mlm"}


def test_a_home_folder_in_a_path_is_found(
    written: Values, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "texts").mkdir()
    entry = {"source": "beir", "path": "~/texts", "queries": {"log": "~/texts/log.tsv"}}
    config = made(
        written,
        ("datasets.mine", entry),
        ("datasets.more", {"source": "hub_text", "parts": [{"id": "~/texts"}]}),
        ("downloads.mirror", "~/texts"),
    )
    mine, (part,) = config.datasets["mine"], config.datasets["more"].parts
    assert mine.path == config.downloads.mirror == part.id == str(tmp_path / "texts")
    assert mine.queries["log"] == str(tmp_path / "texts/log.tsv")


def backbone_folder(path: Path, **settings: Any) -> dict[str, Any]:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps({"model_type": "bert", **settings}))
    return {"objective": "checkpoint", "source": "folder", "path": str(path)}


@pytest.mark.parametrize("source", ["scratch", "folder"])
def test_a_backbone_needs_the_layers_and_positions_that_its_models_read(
    written: Values, tmp_path: Path, source: str
) -> None:
    """The positions of the longest row, with its specials: a span of 128 and two."""

    def backbone(positions: int) -> tuple[str, Any]:
        if source == "scratch":
            return "models.backbone", {**SCRATCH, "max_positions": positions}
        folder = backbone_folder(tmp_path, num_hidden_layers=4, max_position_embeddings=positions)
        return "models.backbone", folder

    spans = ("objectives.cocondenser.span_tokens", [80, 128])
    assert made(written, spans, backbone(130)).models["condenser"].skip_from is None  # half of any
    assert refusal(written, spans, backbone(129)) == (
        f"models.backbone.{'max_positions' if source == 'scratch' else 'path'}: expected at least 130 "
        "positions for models.cocondenser.span_tokens (with specials), got 129. Shorten the texts, or take "
        "another backbone."
    )
    said = refusal(written, backbone(512), ("models.condenser.skip_from", 5))
    assert said == "models.condenser.skip_from: expected at most 4 (the backbone's layers), got 5."


def one_table(written: Values, row: str) -> dict[str, Any]:
    table = {"rows": [row], "measures": ["MRR@10"]}
    return {**written, "figures": {}, "tables": {"one": table}}


@pytest.mark.parametrize(
    ("row", "recipe", "positions"),
    [
        ("condenser-round1", {}, 128),  # shorter spans of other rows do not count
        ("zero", {"query": 64, "passage": 64}, 64),
        ("condenser-round1", {"query": 200}, 200),
    ],
)
def test_a_backbone_is_held_to_the_rows_of_the_tables_alone(
    written: Values, row: str, recipe: dict[str, int], positions: int
) -> None:
    written = changed(
        one_table(written, row),
        ("systems.zero", {**UNTRAINED, "initial": "backbone"}),
        ("recipes.marco.lengths", recipe),
    )
    small = {**SCRATCH, "num_layers": 2}
    made(written, ("models.backbone", {**small, "max_positions": positions}))
    said = refusal(written, ("models.backbone", {**small, "max_positions": positions - 1}))
    assert said.startswith(f"models.backbone.max_positions: expected at least {positions} positions for ")


def test_a_systems_own_recipe_and_a_data_sets_own_lengths_count_for_the_longest_row(written: Values) -> None:
    own = ("systems.condenser-round1.recipe", {"lengths": {"passage": 200}})
    said = refusal(written, own, ("models.backbone", SCRATCH))
    assert "at least 200 positions for recipes.marco.lengths.passage" in said
    mine = {"source": "beir", "path": TINY, "lengths": {"passage": 300}}
    lengths = ("recipes.marco.lengths", {"passage": None})
    said = refusal(written, ("datasets.mine", mine), lengths, ("models.backbone", SCRATCH))
    assert "at least 300 positions for datasets.mine.lengths.passage" in said


@pytest.mark.parametrize(("lengths", "positions"), [((32, 128), 159), ((32, "auto"), 34)])
def test_a_cross_encoder_needs_positions_for_a_query_and_a_passage_together(
    written: Values, lengths: tuple[Any, Any], positions: int
) -> None:
    """Asked for by its own jobs; `auto` takes what is left, at least a token."""
    written = changed(
        one_table(written, "reranked"),
        ("systems.reranked", RERANKER),
        ("recipes.marco.lengths", dict(zip(("query", "passage"), lengths, strict=True))),
    )
    check_longest_row(made(written), "msmarco", "reranked")  # the embedded backbone

    def check(max_positions: int) -> None:
        config = made(written, ("models.backbone", {**SCRATCH, "max_positions": max_positions}))
        check_longest_row(config, "msmarco", "reranked")

    check(positions)
    line = (
        f"^models.backbone.max_positions: expected at least {positions} positions for recipes.marco, the "
        rf"longest row of systems.reranked \(with specials\), got {positions - 1}\. "
    )
    with pytest.raises(ValueError, match=line):
        check(positions - 1)


def test_positions_are_those_of_the_checkpoint_behind_a_system_that_a_model_is_made_of(
    written: Values,
) -> None:
    pairs = {**RERANKER, "initial": "moved", "recipe": {"lengths": {"query": 400, "passage": 400}}}
    config = made(merged(written, VALID["models of systems"]), ("systems.pairs", pairs))
    with pytest.raises(ValueError, match=r"^models\.backbone\.path: expected at least 799 positions for"):
        check_longest_row(config, "msmarco", "pairs")


def test_sentences_need_as_many_positions_as_their_recipe_says(written: Values) -> None:
    scratch = ("models.backbone", SCRATCH)
    check_longest_row(made(written, scratch), "stsb", "backbone-sentences")
    longer = made(written, scratch, ("recipes.stsb.max_tokens", 256))  # may serve other systems
    with pytest.raises(ValueError, match="expected at least 256 positions for recipes"):
        check_longest_row(longer, "stsb", "backbone-sentences")


def test_the_embedded_backbone_has_the_layers_and_positions_it_is_held_to() -> None:
    settings = json.loads((embedded_folder() / "config.json").read_text())
    assert settings["num_hidden_layers"] == EMBEDDED_LAYERS
    assert settings["max_position_embeddings"] == EMBEDDED_POSITIONS


@pytest.mark.parametrize("text", ["{", "[]", '{"num_hidden_layers": "4"}', '{"num_hidden_layers": 4}'])
def test_a_backbones_broken_config_is_named(tmp_path: Path, text: str) -> None:
    folder = partly(checkpoint.Settings, backbone_folder(tmp_path))
    folder._key = "backbone"
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"^models.backbone.path: .*config.json.*expected"):
        layers_and_positions(folder)


@pytest.mark.parametrize(
    ("source", "path", "line"),
    [
        ("folder", "/no/such", "expected a Hugging Face folder"),
        ("folder", "x" * 300, "expected to read .*: File name too long"),
        ("lstm", "/no/such", "expected a file of word vectors such as GloVe's, found none at"),
    ],
)
def test_a_path_that_cannot_be_used_is_refused_by_what_needs_it_alone(
    written: Values, source: str, path: str, line: str
) -> None:
    entry = {**LSTM, "path": path} if source == "lstm" else {"objective": "checkpoint", "source": source}
    config = made(written, ("models.unused", {**entry, "path": path}))
    with pytest.raises(ValueError, match=f"^models.unused.path: {line}"):
        layers_and_positions(config.models["unused"])


# ---- data sets of sentences ------------------------------------------------------------------------


def test_the_papers_numbers_of_sentences_are_those_of_the_configuration(written: Values) -> None:
    config = made(written)
    stsb, wiki = config.recipes["stsb"], config.recipes["wikisection"]
    for recipe in (stsb, wiki):
        assert (recipe.batch_size, recipe.learning_rate, recipe.warmup_ratio) == (16, 2e-5, 0.1)
    assert (stsb.epochs, wiki.epochs, wiki.margin) == (4, 1, 5)
    assert table_entry(config, "stsb", "low_data").train_queries == [500, 1000, "all"]
    assert table_entry(config, "wikisection", "low_data").train_queries == [1000, 10000, "all"]


def test_a_job_of_sentences_sees_its_recipe_and_its_size(written: Values) -> None:
    longer = {"kind": "sentence_encoder", "initial": "backbone", "recipe": {"epochs": 8}}
    config = made(written, ("systems.longer", longer))
    names = {"dataset": "stsb", "system": "longer", "variant": "n500-seed3", "split": "test"}
    seen, recipe = plain(job_settings(config, names)), plain(config.recipes["stsb"])
    expected = {key: recipe[key] for key in recipe.keys() - {"epochs_by_size", "similarities"}}
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
    written: Values, system: str, dataset: str, does: bool
) -> None:
    config = made(written, ("systems.glove", {"kind": "word_vectors", "path": "glove.txt"}))
    assert config.systems[system].supports_task_of(config.datasets[dataset]) is does
    assert config.systems[system].ranks is (system == "bm25")
