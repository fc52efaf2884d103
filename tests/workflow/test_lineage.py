"""Every key of the configuration reruns the jobs that use it and those below, and no other.

Two truths: for every leaf, the jobs that use it as written down here, and what is made from them by the
graph; for the main keys, all their rules as written down here.
"""

from __future__ import annotations

import copy
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from graphs import Load, rerun, rules

from condenser.blocks import Written
from condenser.settings import merged

TARGET = "results/msmarco/table2.tsv"
TARGETS = [  # all tables, the tests of one, and a system that stands in none
    TARGET, "results/msmarco/low_data.tsv", "results/msmarco/adapt.tsv", "results/msmarco/table2.tests.tsv",
    "results/msmarco/table3.tsv",
    "results/msmarco/best.tsv",
    "results/msmarco/report.html",
    "results/msmarco/audit.tsv",
    "results/msmarco/systems/condenser-untied/seed42/export/agreement.json",
    "results/stsb/low_data.tsv",
    *(f"results/msmarco/{name}.svg" for name in ("attention_entropy", "train_size", "loss_curve", "costs")),
    "results/msmarco/differences.svg",
]  # fmt: skip
ONE_CELL = {  # of four, and of nine
    "tables": {
        "low_data": {
            **{"train_queries": [250], "seeds": [1]},
            "by_dataset": {"stsb": {"train_queries": [500], "seeds": [1]}},
        }
    },
}

# Keys of config.yaml with its defaults, first match first -> the jobs that use the key by themselves, where
# {name} is the key's second part.
COMPUTED = {"pretrain *", "train *", "encode *", "encode_queries *", "rerank *", "late *"}
JUDGED = {"train * [!d]* *"}  # all but distilled
# retriever-first has its own epochs and passages, the second rounds their own epochs
RECIPES = {"*-round1", "condenser-untied", "retriever", "rerank-*"}
SENTENCES = {"train_sentences *", "similarities *"}
ROUND_1 = {"figure * attention_entropy", "figure * loss_curve"}
QUERY_LENGTHS = {"train *", "encode_queries *", "rerank *", "late *", "export *", "audit *"}
PASSAGE_LENGTHS = {"train *", "encode *", "attention_entropy *", "rerank *", "late *", "export *", "audit *"}
RELEVANT = {"metrics *", "examples *", "pseudo_labels *", "fusion_weights *", "audit *"}
CONTINUED = {"table msmarco low_data", "table msmarco continued"}
USED_BY: dict[str, set[str]] = {
    "datasets.stsb.*": {"collect stsb"},
    "recipes.stsb.epochs_by_size": {"train_sentences * n500-*"},
    "recipes.stsb.max_tokens": {"train_sentences *", "similarities *"},
    "recipes.stsb.similarities": {"similarities *"},
    "recipes.stsb.*": {"train_sentences *"},
    "sources.dpr.hard_negatives": set(),  # no data set of the default
    "*.wikisection.*": set(),  # as stsb, no target here
    "*.nli.*": set(),
    "systems.backbone-nli-sentences.*": set(),
    "systems.*-sentences*.label": {"table stsb low_data"},
    "systems.*-sentences*": {"train_sentences * {name} *", "similarities * {name} *"},
    "seed": {"checkpoint *", "pretrain *"},  # other variants are other jobs
    "compute.threads": {*COMPUTED, *SENTENCES, "search *", "attention_entropy *", "export *"},
    "compute.device": {*COMPUTED, *SENTENCES, "search *", "attention_entropy *"},
    "compute.precision": COMPUTED | SENTENCES,
    "safety.*": set(),
    "downloads.*": set(),
    "datasets.msmarco.measures": {"metrics *"},
    "datasets.msmarco.relevant_grade": RELEVANT,
    "datasets.msmarco.lengths.query": QUERY_LENGTHS,
    "datasets.msmarco.lengths.passage": PASSAGE_LENGTHS,
    "datasets.*.queries": set(),  # asked for by no table: test_unjudged
    "datasets.msmarco.*": {"collect msmarco"},
    "sources.pydoc.lengths.query": QUERY_LENGTHS,
    "sources.pydoc.lengths.passage": PASSAGE_LENGTHS,
    "sources.pydoc.*": {"collect msmarco"},
    "sources.msmarco.*": set(),  # no data set of the default
    "sources.pydoc_documents.*": set(),  # no data set of the default
    "recipes.dpr.*": set(),  # of data sets for question answering
    # untied has its own
    "recipes.marco.tied": {
        f"train * {name} *" for name in ("*-round?", "rerank-*", "distilled", "retriever*")
    },
    "recipes.marco.lengths.query": QUERY_LENGTHS,
    "recipes.marco.lengths.passage": PASSAGE_LENGTHS,
    "recipes.marco.negatives.margin": {"examples * *-round? *", "examples * retriever-first *"},  # fine-tuned
    "recipes.marco.negatives.*": {"examples *", "pseudo_labels *"},
    "recipes.marco.depth.train": {
        *(f"{rule} * {split}" for split in ("train", "practice") for rule in ("bm25_run", "merge")),
        *("search * train *", "search * practice *"),
        *("search * train.held_out *", "merge * train.held_out"),
        *("search * held-* *", "merge * held-*"),
    },
    "recipes.marco.depth.eval": {"bm25_run * dev", "search * dev *", "merge * dev"},
    "recipes.marco.held_out.*": {"held_out *"},
    "recipes.marco.epochs_by_size": {"train * n250-*"},
    "recipes.marco.batch_size": JUDGED,  # distilled has its own of these five
    "recipes.marco.passages_per_query": {f"train * {name} *" for name in {*RECIPES, "*-round2"}},
    "recipes.marco.learning_rate": JUDGED,
    "recipes.marco.epochs": {f"train * {name} *" for name in RECIPES},
    "recipes.marco.updates*": {f"train * {name} *" for name in RECIPES},
    "recipes.marco.*": {"train *"},
    "models.backbone.*": {"checkpoint *"},
    "models.adapted.*": {"best_of *"},
    "models.*": {"pretrain * {name}"},
    "objectives.best_of.*": {"best_of *"},
    "objectives.cocondenser.*": {"pretrain * cocondenser", "pretrain * stacked"},
    "objectives.*": {"pretrain * {name}"},  # each has one model, of its name
    "systems.bm25.label": {"* msmarco table2", "table * adapt", "table * best"},  # table and compare
    "expansions": set(),  # no system of the default reads one: test_expansions
    "extraction.*": {"extracted *"},
    "extracted.practice.*": {"extracted * practice"},
    "extracted.held-*": {"extracted * {name}"},
    "systems.adapted-zeroshot.label": {"table * adapt"},
    "systems.condenser-untied.label": set(),
    "systems.condenser-ct-round1.label": {"table * continued"},
    "systems.condenser-ct-*.label": set(),
    "systems.backbone-round2*.label": set(),
    "systems.ict-round1.label": {"figure * attention_entropy"},
    "systems.condenser-round1.label": {"* msmarco table2", *CONTINUED, *ROUND_1},
    "systems.cocondenser-round1.label": {"* msmarco table2", *ROUND_1},
    "systems.backbone-round1.label": {"* msmarco table2", *CONTINUED, *ROUND_1},
    "systems.backbone-zeroshot.label": {
        "* msmarco table2",
        "table msmarco low_data",
        "table * adapt",
        "table * best",
        "figure * attention_entropy",
    },
    "systems.mlm-zeroshot.label": {"table * adapt"},
    "systems.stacked-zeroshot.label": {"table * adapt"},
    "systems.late.label": {"table * adapt"},
    "systems.distilled.label": {"table * adapt"},
    "systems.hybrid.label": {"table * adapt", "table * best"},
    "systems.hybrid-trained.label": {"table * best"},
    "systems.*-zeroshot.label": {"table * adapt", "figure * attention_entropy"},
    "systems.rerank-*.label": set(),  # the rows of table3 are mixed
    "systems.mixed-*.label": {"table * table3"},
    "systems.mixed-*.weights": {"fusion * {name} *"},
    "systems.mixed-*": {"fusion_weights * {name} *", "fusion * {name} *"},
    "systems.cocondenser-round2.label": {
        "* msmarco table2",
        "figure * loss_curve",
        "table * table3",
    },
    "systems.retriever.label": {"table * best"},
    "systems.retriever-first.label": set(),
    "systems.*.label": {"* msmarco table2", "figure * loss_curve"},
    "systems.bm25.*": {"bm25_run *"},  # an index of another language is a new job
    "systems.*-zeroshot.initial": {
        "encode * {name} *",
        "encode_queries * {name} *",
        "attention_entropy * {name} *",
    },
    "systems.*-zeroshot.recipe": {"encode_queries * {name} *"},
    "systems.rerank-ensemble.*": set(),
    "systems.rerank-*.candidates": {"rerank * {name} *"},
    "systems.rerank-*.depth": {"rerank * {name} *"},
    "systems.late.initial": {"late *", "encode * backbone-zeroshot *"},  # which then keeps no states
    "systems.late.*": {"late *"},
    "systems.hybrid.*": {"fusion * hybrid *"},
    "systems.hybrid-trained.*": {"fusion_weights * {name} *", "fusion * {name} *"},
    "systems.*": {"train * {name} *"},
    "shards": {"tokens *"},
    "auto_lengths.*": {"lengths *"},
    "encode.batch_tokens": {
        *("encode *", "encode_queries *", "attention_entropy *", "similarities *", "rerank *", "late *"),
        "export *",
    },
    "encode.separator": {"tokens *", "export *"},
    "encode.states_gb": {"encode * backbone-zeroshot *"},  # whose states `late` reads
    "encode.block_rows": {
        *("tokens *", "encode *", "encode_queries *", "search *", "rerank *", "late *", "export *"),
    },
    "metrics.relevant_grade": RELEVANT,
    "metrics.*": {"metrics *"},
    "audit.*": {"audit *"},
    "notes.*": {"table *", "export *"},
    "report.*": {"report *"},
    "significance.confidence": {"table *", "compare *", "figure *", "best_of *", "export *"},
    "significance.*": {"table *", "compare *", "figure *", "best_of *"},
    "tables.adapt.train_queries": set(),  # no row of it is trained
    "tables.table2.labels": {"* msmarco table2", "figure * loss_curve"},
    "tables.low_data.labels": {"* msmarco low_data"},
    "tables.continued.labels": {"* msmarco continued"},
    "tables.*.labels": set(),  # of a system without a row there
    "tables.low_data.by_dataset.stsb.*": {"table stsb low_data"},
    "tables.*.by_dataset.*": set(),  # of other data sets
    "tables.*.optional": set(),  # the configuration has none of them
    "tables.*.published": {"table msmarco {name}"},
    "tables.table2.rows": {"* msmarco table2", "figure * costs"},
    "tables.*": {"* msmarco {name}"},
    "figures.*.by_dataset.*": set(),  # of other data sets
    "figures.*": {"figure * {name}"},
}

# Another value, where `another` gives one that is refused or none.
VALUES: dict[str, Any] = {
    "*.min_span_tokens": 15,
    "systems.bm25.language": "de",
    "compute.device": "cpu",
    "compute.precision": "fp32",
    "downloads.mirror": ".",
    "datasets.*.bad_rows": "skip",
    "datasets.stsb.*_split": "dev",
    "datasets.wikisection.train_split": "validation",
    "datasets.wikisection.eval_split": "train",
    "recipes.*.similarities": ["cosine", "dot"],
    "recipes.stsb.margin": 1.0,
    "recipes.nli.margin": 1.0,
    "systems.*-sentences*.recipe": {"max_tokens": 100},
    "systems.*-sentences.first_on": "nli",
    "datasets.msmarco.measures": ["MRR@10", "R@100", "R@1000"],
    "datasets.msmarco.relevant_grade": 2,
    "datasets.*.queries": {"log": "tests/data/tiny/queries.jsonl"},
    "datasets.msmarco.split": {"words": 60, "stride": 30},
    "recipes.*.validation": {"negatives": 4, "keep": "better", "initial_share": 0.5, "standard_errors": 2.0},
    "recipes.*.positive_in_run": ["bm25"],
    "recipes.*.held_out": {"share": 0.2, "least": 5, "most": 9},
    "recipes.*.held_out.share": 0.2,
    "*.held_out": "rest",
    "models.adapted.of": ["backbone-zeroshot", "ict-zeroshot"],
    "*.best_of.queries": ["held-titles"],
    "models.adapted.queries": ["held-titles"],
    "*.voters": ["hybrid"],  # of no effect without `unjudged`
    "*.measure": "nDCG@10",
    "models.*.corpus": "msmarco",
    "models.*.seed": 7,
    "models.cocondenser.initial": "backbone",
    "*.skip_from": 2,
    "models.cocondenser.new_head": {"num_head_layers": 2, "skip_from": 3},
    "models.stacked.initial": "condenser",
    "models.condenser-ct.initial": "backbone",
    "models.ict.initial": "condenser",
    "models.mlm.initial": "condenser",
    "*.gradient_cache": "always",
    "systems.*-zeroshot.recipe": {"lengths": {"query": 24}},
    "systems.late.match": "exact",
    "expansions": {"mine": {"files": {"msmarco": "tests/data/tiny/queries.jsonl"}, "by": "id"}},
    "systems.late.recipe": {"lengths": {"query": 24}},
    "systems.*.recipe": {"learning_rate": 1.0e-3},
    "systems.late.initial": "condenser",
    "systems.distilled.initial": "condenser",
    "systems.distilled.distillation.teacher": "late",
    "systems.distilled.distillation.queries": "held-titles",
    "systems.rerank-*.pseudo_labels.teacher": "late",
    "systems.rerank-*.pseudo_labels.queries": "held-titles",
    "systems.hybrid.method": "rrf",
    "systems.hybrid*.weights": [1, 2, 1],
    "systems.mixed-both.weights": [1, 2, 1],
    "systems.mixed-*.weights": [1, 2],
    "systems.mixed-both.of": ["bm25", "rerank-backbone", "rerank-condenser"],
    "systems.mixed-*.of": ["bm25", "rerank-backbone"],
    "systems.backbone-*.initial": "condenser",
    "systems.retriever*.initial": "condenser",
    "systems.retriever*.negatives": ["backbone-round1"],
    "systems.*-round2*.negatives": ["bm25"],
    "systems.rerank-backbone.initial": "condenser",
    "systems.*.initial": "backbone",
    "systems.condenser-round1.negatives": ["cocondenser-round1"],
    "systems.*-round1.negatives": ["condenser-round1"],
    "systems.condenser-untied.negatives": ["condenser-round1"],
    "systems.rerank-*.negatives": ["bm25"],
    "systems.rerank-*.loss": "pointwise",
    "systems.rerank-*.candidates": "bm25",
    "systems.rerank-ensemble.of": ["rerank-condenser", "rerank-backbone"],
    "systems.rerank-ensemble.method": "rrf",
    "systems.rerank-ensemble.weights": [1, 2],
    "significance.confidence": 0.9,
    "significance.power": 0.9,
    "recipes.marco.negatives.depth": 100,
    "recipes.*.negatives.margin": 0.1,
    "recipes.marco.lengths.*": 24,
    "models.backbone.pooling": "cls",
    "models.backbone.normalised": False,
    "*.scale": 2.0,
    "encode.separator": "always",
    "audit.near_*": 0.7,
    "tables.*.by_dataset.stsb.rows": ["backbone-sentences"],
    "tables.*.by_dataset.*.measures": ["hits@20"],
    "tables.*.by_dataset.*.published": ["v1_table4"],
    "tables.*.labels": {"condenser-round1": "Mine"},
    "tables.*.by_dataset": {"msmarco": {"measures": ["MRR@100"]}},
    "tables.*.optional": ["nq", "dl19", "tqa"],
    "tables.table2.published": None,
    "tables.*.published": "cocondenser_table2",
    "tables.*.train_queries": [100, "all"],
    "tables.continued.seeds": [1, 2, 3],
    "tables.*.seeds": [1, 2],
    "tables.adapt.compare_with": ["bm25"],
    "tables.best.compare_with": ["bm25"],
    "tables.plain.compare_with": ["bm25"],
    "tables.plain.rows": ["hybrid", "late", "backbone-zeroshot", "bm25"],
    "tables.table3.compare_with": ["mixed-backbone"],
    "tables.table3.measures": ["nDCG@10"],
    "tables.table1.compare_with": ["bm25"],
    "tables.*.compare_with": ["backbone-round1"],
    "figures.*.table": "table7",
    "figures.*.by_dataset.*": "adapt",
    "figures.*.by_dataset": {"msmarco": "table7"},
    "models.*.epochs": 2,
    "recipes.*.updates.most": 40,
    "recipes.*.updates": {"most": 7},
    "recipes.stsb.epochs_by_size": {500: 2},
    "recipes.*.epochs_by_size": {250: 2},
    "figures.*.measures": ["MRR@10"],
    "figures.*.seeds": [1],
    "extracted.*.views": ["titles"],
    "extracted.*.passages": [0.2, 0.3],
}

# These name another kind, or need keys beside them: see BY_HAND.
NOT_ALONE = [
    "recipe", "*.source", "*.objective", "*.kind", "models.condenser.initial", "datasets.*.recipe",
    "datasets.*.keep_trained",  # test_reruns.py
    "datasets.*.documents", "datasets.*.path", "datasets.stsb.measures", "datasets.wikisection.measures",
    "datasets.nli.*", "datasets.*.other_eval_splits", "tables.*.by_dataset.stsb.measures",
    "tables.*.by_dataset.wikisection.*", "systems.*-zeroshot.first_on",
    "recipes.dpr.validation", "systems.*.expanded_*", "recipes.*.negatives.denoise",
    *(f"systems.late.{key}" for key in ("first_states", "negatives", "dim")),
    "systems.hybrid-trained.method", "systems.mixed-*.method",
    "systems.*.train", "systems.*-zeroshot.negatives", "systems.distilled.negatives",
    "systems.*.distillation", "systems.*.pseudo_labels",
    "systems.backbone-zeroshot.initial", "*.unjudged",
    *(f"models.adapted.{key}" for key in ("initial", "corpus", "seed")),
    *(f"models.backbone.{key}" for key in ("id", "revision", "path", "dataset", "system", "variant")),
    *(f"models.backbone.{key}" for key in ("vocab_size", "hidden_size")),
    *(f"models.backbone.{key}" for key in ("num_layers", "num_heads", "intermediate_size", "max_positions")),
]  # fmt: skip

ABOVE_TRAINING = {"collect", "checkpoint", "tokens", "query_tokens", "lengths", "bm25_index", "bm25_run"}
TRAINED = {"examples", "train", "encode", "encode_queries", "search", "merge", "metrics", "table"}
ALL = ABOVE_TRAINING | TRAINED | {"pretrain"}

MINE = {"source": "beir", "path": "tests/data/tiny"}
SCRATCH = {"source": "scratch", "vocab_size": 600, "hidden_size": 32, "num_layers": 4, "num_heads": 2,
           "intermediate_size": 64, "max_positions": 136}  # fmt: skip

# an overlay -> the rules of which at least one job reruns
BY_HAND: list[tuple[dict[str, Any], set[str]]] = [
    ({"seed": 7}, ALL - {"collect", "bm25_index", "bm25_run"}),
    ({"compute": {"threads": 2}}, ALL - ABOVE_TRAINING),
    ({"compute": {"precision": "fp32"}}, ALL - ABOVE_TRAINING),
    ({"sources": {"pydoc": {"eval_queries": 400}}}, ALL - {"checkpoint"}),
    ({"sources": {"pydoc": {"packages": ["scipy"]}}}, ALL - {"checkpoint"}),
    ({"datasets": {"msmarco": {"train_split": "other"}}}, ALL - {"checkpoint"}),
    ({"datasets": {"msmarco": {"eval_split": "other"}}}, ALL - {"checkpoint"}),
    ({"datasets": {"msmarco": MINE}}, ALL - {"checkpoint"}),  # another source
    ({"objectives": {"condenser": {"learning_rate": 1.0e-3}}}, {"pretrain"} | TRAINED),
    ({"models": {"condenser": {"epochs": 0.04}}}, {"pretrain"} | TRAINED),
    ({"objectives": {"cocondenser": {"span_tokens": [64, 128]}}}, {"pretrain"} | TRAINED),
    ({"models": {"cocondenser": {"seed": "each"}}}, {"pretrain"} | TRAINED),  # under another name
    ({"systems": {"bm25": {"k1": 0.9}}}, TRAINED | {"bm25_run"}),
    ({"systems": {"bm25": {"language": "de"}}}, TRAINED | {"bm25_index", "bm25_run"}),
    ({"models": {"backbone": {"prompts": {"query": "Q: "}}}}, ALL - {"collect", "bm25_index", "bm25_run"}),
    ({"systems": {"condenser-round1": {"recipe": {"depth": {"eval": 900}}}}},
     {"search", "merge", "metrics", "table"}),
    ({"systems": {"condenser-round2": {"recipe": {"epochs": 3}}}}, TRAINED - {"examples"}),
    ({"recipes": {"marco": {"negatives": {"sample": 20}}}}, TRAINED),
    ({"recipes": {"marco": {"epochs": 7}}}, TRAINED),
    ({"recipes": {"marco": {"tied": False}}}, TRAINED),
    ({"recipes": {"marco": {"lengths": {"query": 24}}}}, TRAINED),
    ({"recipes": {"marco": {"depth": {"train": 300}}}}, TRAINED | {"bm25_run"}),
    ({"recipes": {"marco": {"depth": {"eval": 900}}}}, {"bm25_run", "search", "merge", "metrics", "table"}),
    ({"encode": {"batch_tokens": 4096}}, TRAINED),
    ({"metrics": {"relevant_grade": 2}}, TRAINED),
    ({"shards": 3}, ALL - {"collect", "checkpoint", "query_tokens", "bm25_index", "bm25_run"}),
    ({"tables": {"table2": {"rows": ["condenser-round1"]}}}, {"table"}),
    ({"tables": {"table2": {"train_queries": [100, "all"]}}},
     TRAINED | {"subset"}),  # those of all queries stay
    ({"tables": {"table2": {"seeds": [42, 1]}}}, TRAINED),
    ({"systems": {"condenser-round1": {"label": "Another"}}}, {"table"}),
    ({"significance": {"permutations": 2000}}, {"table"}),
    ({"tables": {"table2": {"compare_with": ["bm25"]}}}, {"table"}),
    ({"models": {"backbone": SCRATCH}}, ALL - {"collect", "bm25_index", "bm25_run"}),
    ({"models": {"backbone": {"source": "hub", "id": "bert-base-uncased"}}},
     ALL - {"collect", "bm25_index", "bm25_run"}),
    # elsewhere with all that it needs; what starts from it here begins anew
    ({"datasets": {"mine": MINE}, "models": {"condenser": {"corpus": "mine"}}},
     ALL - {"query_tokens", "lengths", "bm25_index", "bm25_run"}),
    ({"datasets": {"mine": MINE}, "models": {"cocondenser": {"corpus": "mine"}}},
     ALL - {"query_tokens", "lengths", "bm25_index", "bm25_run"}),
    # all models elsewhere; the tokens and queries of its own are those of another folder's tokenizer
    ({"datasets": {"mine": MINE, "msmarco": {"documents": "mine"}}}, ALL - {"bm25_index", "bm25_run"}),
    # a bi-encoder that is not fine-tuned
    ({"systems": {"condenser-round1": {"train": False, "negatives": []},
                  "condenser-round2": {"negatives": ["bm25"]}}}, TRAINED - {"examples"}),
]  # fmt: skip

UNUSED: list[dict[str, Any]] = [
    {"datasets": {"mine": MINE}},
    {"models": {"another": {"objective": "checkpoint", "source": "embedded"}}},
    {"systems": {"another": {"kind": "bm25", "k1": 1.0, "b": 0.5}}},
    {"tables": {"another": {"rows": ["bm25"], "measures": ["MRR@10"]}}},
    {"recipes": {"another": {"depth": {"train": 300, "eval": 1000}}}},
]


def leaves(value: Any, key: str = "") -> dict[str, Any]:
    """All leaves by dotted key."""
    if not (isinstance(value, dict) and value):
        return {key: value}
    return {
        leaf: end
        for name, part in value.items()
        for leaf, end in leaves(part, f"{key}.{name}" if key else name).items()
    }


def nested(key: str, value: Any) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


def another(value: Any) -> Any:
    """A different value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value / 2 if value else 0.5
    if isinstance(value, list):
        *rest, last = value
        return [*rest, another(last)] if isinstance(last, int) else rest
    return f"{value}-other"


def matching(key: str, patterns: Any) -> str | None:
    return next((pattern for pattern in patterns if fnmatchcase(key, pattern)), None)


@pytest.mark.parametrize(
    "all_entries",  # weekly; else a key of entries with the same users in one of these alone
    [pytest.param(False, marks=pytest.mark.ci), pytest.param(True, marks=pytest.mark.weekly)],
)
@pytest.mark.parametrize("block", Written.model_fields)
def test_every_key_reruns_exactly_what_uses_it_and_what_is_below(
    load: Load, block: str, all_entries: bool
) -> None:
    default, seen = load(ONE_CELL), set[tuple[str, str]]()
    before, unused = default.hashes(*TARGETS), ONE_CELL
    for key, value in leaves(default.config[block], block).items():
        if matching(key, NOT_ALONE):
            continue
        given, user = matching(key, VALUES), matching(key, USED_BY)
        assert user is not None, f"{key}: say here what uses it"
        edit = nested(key, VALUES[given] if given else another(value))
        if not USED_BY[user]:
            unused = merged(unused, edit)
            continue
        alike = user, key.rpartition(".")[2]
        if alike in seen and not all_entries:
            continue
        seen.add(alike)
        name = key.split(".")[1] if "." in key else ""
        uses = {pattern.format(name=name) for pattern in USED_BY[user]}
        after = load(merged(ONE_CELL, edit))
        hashes = after.hashes(*TARGETS)
        new = set(hashes) - set(before)
        assert rerun(before, hashes) == after.below(uses | new, *TARGETS), key
    assert load(unused).hashes(*TARGETS) == before  # all that nothing uses, at once


def test_what_is_written_down_here_is_the_configuration(load: Load) -> None:
    config = load().config
    assert set(config) == set(Written.model_fields)
    keys = leaves(config)
    for patterns in (USED_BY, VALUES, NOT_ALONE):
        assert {matching(key, patterns) for key in keys} - {None} == set(patterns)


@pytest.mark.parametrize(("overlay", "expected"), BY_HAND, ids=[str(overlay)[:70] for overlay, _ in BY_HAND])
def test_a_main_key_reruns_the_rules_written_down_by_hand(
    load: Load, overlay: dict[str, Any], expected: set[str]
) -> None:
    assert rules(rerun(load().hashes(TARGET), load(overlay).hashes(TARGET))) == expected


@pytest.mark.parametrize(
    "named",
    [
        {"datasets": {"msmarco": {"recipe": "other"}}},
        {"datasets": {"msmarco": {"recipe": None}}, "recipe": "other"},
    ],
)
def test_another_recipe_reruns_what_its_values_change(load: Load, named: dict[str, Any]) -> None:
    default = load()
    other = {**copy.deepcopy(default.config["recipes"]["marco"]), "epochs": 9}
    changed = rerun(default.hashes(TARGET), load({"recipes": {"other": other}, **named}).hashes(TARGET))
    assert rules(changed) == TRAINED


@pytest.mark.parametrize("overlay", UNUSED, ids=str)
def test_what_a_table_does_not_use_reruns_nothing(load: Load, overlay: dict[str, Any]) -> None:
    default = load()
    if "recipes" in overlay:  # a whole second recipe
        overlay = {"recipes": {"another": {**copy.deepcopy(default.config["recipes"]["marco"]), "epochs": 9}}}
    assert load(overlay).hashes(TARGET) == default.hashes(TARGET)


@pytest.mark.parametrize("reverse", [True, False])
def test_the_order_of_keys_changes_no_spec(load: Load, reverse: bool) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in sorted(value, reverse=reverse)}
        return value

    default = load()
    given = copy.deepcopy(default.config)  # whole: an overlay keeps the order of what lies below it
    ordered = load(turned(given), replace=True)
    assert list(ordered.config["models"]) == sorted(given["models"], reverse=reverse)
    assert ordered.hashes(TARGET) == default.hashes(TARGET)


def test_two_files_of_ones_own_with_one_name_both_count(load: Load, tmp_path: Path) -> None:
    parts = [tmp_path / "wiki", tmp_path / "books"]
    for part in parts:
        part.mkdir()
        (part / "train-00000-of-00001.parquet").write_bytes(b"one")
    mine = {"source": "hub_text", "parts": [{"id": str(part)} for part in parts]}
    overlay = {"datasets": {"mine": mine}, "models": {"condenser": {"corpus": "mine"}}}

    def contents() -> dict[str, str]:
        graph = load(overlay)
        graph.jobs(TARGET)
        return graph.spec("collect mine")["contents"]

    before = contents()
    (parts[0] / "train-00000-of-00001.parquet").write_bytes(b"two")
    assert len(before) == 2
    assert [name for name, digest in contents().items() if before[name] != digest] == [
        "train-00000-of-00001.parquet"
    ]


def test_the_official_triples_rerun_nothing_above_the_trainings_on_them(load: Load) -> None:
    paper = "configs/paper.yaml"
    with_triples = load(configfile=paper)
    assert with_triples.config["datasets"]["msmarco"]["triples"] == "bm25"
    without = load({"datasets": {"msmarco": {"triples": None}}}, configfile=paper)
    changed = rerun(without.hashes(TARGET), with_triples.hashes(TARGET))
    assert rules(changed) == TRAINED | {"download"}


def test_jobs_read_how_long_the_texts_are_only_where_a_length_is_auto(load: Load) -> None:
    file, targets = "results/msmarco/tokens/backbone/lengths.json", [TARGET, "results/msmarco/table3.tsv"]

    def readers(lengths: dict[str, Any]) -> set[str]:
        graph = load({"recipes": {"marco": {"lengths": lengths}}})
        return rules({job for job in graph.hashes(*targets) if file in graph.inputs(job)})

    assert readers({}) == {"table"}
    assert readers({"query": "auto"}) == {"table", "train", "encode_queries", "rerank"}
    assert readers({"passage": "auto"}) == {"table", "train", "encode", "rerank"}
