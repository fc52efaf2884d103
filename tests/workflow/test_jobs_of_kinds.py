"""What single jobs of each kind of row read, and what an edit of a key reruns."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import every_kind
import pytest
from graphs import Graph, Load, rerun, rules

from condenser.pipeline import costs
from condenser.settings import merged
from condenser.shown import table_notes

ALL_SHARDS = {"tokens tiny backbone", "query_tokens tiny backbone train", "collect tiny"}
MORE = [  # of a train size
    *("rerank-backbone/n30-seed7/run.train.trec", "deepct/n30-seed7/run.dev.trec"),
    *("hybrid-trained/n30-seed7/run.dev.trec", "hybrid-trained/n500-seed7/run.dev.trec"),
    "next/n30-seed7/model/model.safetensors",
]
PARENTS = {
    # what learns
    "train tiny distilled seed42": {
        *("checkpoint tiny backbone", "tokens tiny backbone", "collect tiny", "extracted tiny practice"),
        *("query_tokens tiny backbone practice", "fusion tiny hybrid untrained practice"),
    },
    "train tiny next seed42": ALL_SHARDS | {
        *("train tiny cocondenser-round1 seed42", "examples tiny cocondenser-round1 seed42"),
    },
    "train tiny next n30-seed7": ALL_SHARDS
    | {
        *("train tiny cocondenser-round1 n30-seed7", "examples tiny cocondenser-round1 n30-seed7"),
    },
    "train tiny augmented seed42": ALL_SHARDS | {
        *("checkpoint tiny backbone", "examples tiny teacher seed42"),
        *("pseudo_labels tiny labeller seed42 log", "queries tiny log", "query_tokens tiny backbone log"),
    },
    "train tiny each-round1 n30-seed2": ALL_SHARDS | {
        *("pretrain tiny each-seed2", "examples tiny bm25 n30-seed2"),
    },
    "term_weights tiny n30-seed7 weights": ALL_SHARDS | {
        *("checkpoint tiny backbone", "subset tiny n30-seed7"),
    },
    "train_sentences stsb condenser-sentences n12-seed1": {
        *("collect stsb", "pretrain tiny condenser", "subset stsb n12-seed1"),
    },
    "pretrain mine again": {"checkpoint mine moved", "collect mine", "tokens mine moved"},
    "checkpoint mine moved": {"train tiny cocondenser-round1 seed42"},
    "fusion_weights split outer seed42": {
        *("fusion split inner crossfit-seed42 train.held_out",
          "merge split learnt crossfit-seed42 train.held_out"),
        *("held_out split seed42", "collect split"),
    },
    "fusion_weights tiny hybrid-trained n500-seed7": {
        *("merge tiny retriever crossfit-n500-seed7 train.held_out",
         "late tiny late crossfit-n500-seed7 train.held_out"),
        *("bm25_run tiny bm25 untrained train", "held_out tiny n500-seed7", "collect tiny"),
    },
    "fusion_weights tiny hybrid-trained n30-seed7": {  # too few to hold any out
        *("held_out tiny n30-seed7", "collect tiny"),
    },
    # what judges: a teacher is compared with its candidates on held-out queries, by twins that never saw them
    "examples tiny teacher seed42": {
        *("rerank tiny teacher seed42 train", "merge tiny backbone-round1 seed42 train"),
        *("rerank tiny teacher crossfit-seed42 train.held_out",
          "merge tiny backbone-round1 crossfit-seed42 train.held_out"),
        *("held_out tiny seed42", "collect tiny"),
    },
    "pseudo_labels tiny labeller seed42 log": {
        *("rerank tiny labeller crossfit-seed42 train.held_out", "merge tiny denoised seed42 train"),
        "merge tiny denoised crossfit-seed42 train.held_out",
        *("held_out tiny seed42", "collect tiny", "rerank tiny labeller seed42 log", "queries tiny log"),
    },
    "pseudo_labels tiny backbone-zeroshot seed42 practice": {  # no judgement
        *("merge tiny backbone-zeroshot untrained practice", "extracted tiny practice", "collect tiny"),
    },
    "best_of texts adapted": {
        *(f"merge texts {model}-zeroshot untrained held-{name}" for name in ("titles", "sentences",
         "keywords")
          for model in ("backbone", "ict", "condenser", "cocondenser", "stacked")),
        *(f"pretrain texts {model}" for model in ("ict", "condenser", "cocondenser", "stacked")),
        *(f"extracted texts held-{name}" for name in ("titles", "sentences", "keywords")),
        "checkpoint texts backbone",
    },
    # what ranks
    "late tiny late untrained dev": {
        *("merge tiny backbone-zeroshot untrained dev", "bm25_run tiny bm25 untrained dev", "collect tiny"),
        *("checkpoint tiny backbone", "tokens tiny backbone", "query_tokens tiny backbone dev"),
        "encode tiny backbone-zeroshot untrained",
    },
    "late tiny late crossfit-n500-seed7 train.held_out": ALL_SHARDS | {
        *("merge tiny backbone-zeroshot untrained train", "bm25_run tiny bm25 untrained train"),
        *("checkpoint tiny backbone", "held_out tiny n500-seed7"),
        "encode tiny backbone-zeroshot untrained",
    },
    "rerank tiny labeller seed42 log": {  # the model of another
        *("train tiny teacher seed42", "merge tiny denoised seed42 log", "tokens tiny backbone"),
        *("query_tokens tiny backbone log", "queries tiny log", "collect tiny"),
    },
    "rerank tiny rerank-backbone n30-seed7 train": ALL_SHARDS | {
        *("train tiny rerank-backbone n30-seed7", "merge tiny cocondenser-round2 n30-seed7 train"),
        "subset tiny n30-seed7",
    },
    "bm25_index tiny index.weights.n30-seed7": {"collect tiny", "term_weights tiny n30-seed7 weights"},
    "bm25_index tiny index.queries-own": {"collect tiny", "generate tiny queries-own passages"},
    "bm25_run tiny own untrained dev": {
        *("bm25_index tiny index.queries-own", "collect tiny", "generate tiny answers-own queries.dev"),
    },
    "encode tiny each-zeroshot seed2 0-of-2": {
        *("pretrain tiny each-seed2", "tokens tiny backbone", "collect tiny"),
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def every(load_every_kind: Callable[..., Graph]) -> Graph:
    graph = load_every_kind()
    graph.jobs(*every_kind.TARGETS, *(f"results/tiny/systems/{file}" for file in MORE))
    return graph


@pytest.mark.parametrize("job", PARENTS)
def test_a_job_reads_what_these_make_and_nothing_else(every: Graph, job: str) -> None:
    assert {re.sub(r" \d+-of-\d+$", "", parent) for parent in every.parents(job)} == PARENTS[job]


# ---- what an edit reruns -------------------------------------------------------------------------

OF_RUN = {"encode", "encode_queries", "search", "merge", "metrics", "table"}
OF_MODEL = {"train", *OF_RUN}
LEARNT, FREE, MOVED = "tiny/learnt.tsv", "tiny/free.tsv", "mine/moved.tsv"
PRACTICE = "tiny/systems/hybrid/untrained/run.practice.trec"
OF_PRACTICE = {*OF_RUN - {"encode", "metrics", "table"}, "query_tokens", "bm25_run", "late", "fusion"}


@pytest.mark.parametrize(
    ("target", "key", "value", "expected"),
    [
        *((FREE, f"systems.distilled.{key}", value, OF_MODEL) for key, value in [
            ("distillation.own_passage", False), ("distillation.temperature", 0.5),
            ("distillation.initial_share", 0.5), ("distillation.teacher", "late"), ("recipe.updates", 9),
            ("recipe.batch_size", 8), ("recipe.scale", 10.0), ("recipe.tied", False),
        ]),
        (FREE, "systems.late.special_tokens", False, {"late", "fusion", *OF_MODEL}),
        (FREE, "systems.hybrid.weights", [1, 2, 0.5], {"fusion", *OF_MODEL}),
        (FREE, "expansions.predicted.by", "row", {"bm25_index", "bm25_run", "metrics", "table"}),
        (FREE, "expansions.contexts.field", "title", {"bm25_run", "metrics", "table"}),
        (FREE, "expansions.predicted.files.other", "gone", set()),  # of another data set
        (FREE, "expansions.queries-own.generated.samples", 4,
         {"generate", "bm25_index", "bm25_run", "metrics", "table"}),
        (FREE, "expansions.answers-own.generated.prefix", "?", {"generate", "bm25_run", "metrics", "table"}),
        (FREE, "recipes.marco.epochs", 7, set()),  # no row is fine-tuned on judgements
        ("tiny/systems/deepct/seed42/run.dev.trec", "expansions.weights.trained.learning_rate", 2.0e-3,
         {"term_weights", "bm25_index", "bm25_run"}),
        ("tiny/systems/deepct/seed42/run.dev.trec", "expansions.weights.trained.initial", "mlm",
         {"term_weights", "bm25_index", "bm25_run", "pretrain"}),
        ("tiny/systems/deepct/seed42/run.dev.trec", "expansions.weights.weights", 50, {"bm25_index",
         "bm25_run"}),
        *((LEARNT, f"systems.first.{key}", value, {"late", "metrics", "table"}) for key, value in [
            ("depth", 30), ("candidates", ["denoised"]),
        ]),
        *((LEARNT, f"systems.first.{key}", value, {"train", "late", "metrics", "table"}) for key, value in [
            ("punctuation", False), ("dim", 32), ("first_states", 4), ("recipe", {"learning_rate": 2.0e-3}),
        ]),
        (LEARNT, "systems.teacher.recipe.negatives.denoise.negative_below", 0.2, {"examples", *OF_MODEL,
         "rerank", "pseudo_labels"}),
        (LEARNT, "systems.labeller.recipe.negatives.denoise.positive_above", 0.8,
         {"pseudo_labels", *OF_MODEL}),
        ("tiny/table3.tsv", "systems.rerank-backbone.depth", 50,
         {"rerank", "fusion_weights", "fusion", "metrics", "table"}),
        ("tiny/table3.tsv", "systems.rerank-backbone.candidates", "cocondenser-round1",
         {"encode_queries", "search", "merge", "rerank", "fusion_weights", "fusion", "metrics", "table"}),
        ("texts/models/adapted/model.safetensors", "models.adapted.least_gain", 0.5, {"best_of"}),
        *((PRACTICE, f"extracted.practice.{key}", value, {"extracted", *OF_PRACTICE}) for key, value in [
            ("views", ["keywords"]), ("passages", [0, 1]), ("count", 5), ("seed", 9),
        ]),
        (PRACTICE, "extraction.words", [5, 30], {"extracted", *OF_PRACTICE}),
        (PRACTICE, "extracted.held-titles.count", 5, set()),
        ("tiny/systems/bm25/untrained/run.log.trec", "datasets.tiny.bad_rows", "skip",
         {"collect", "queries", "bm25_index", "bm25_run"}),
        (MOVED, "systems.cocondenser-round1.recipe", {"learning_rate": 2.0e-3},
         {"checkpoint", "pretrain", "tokens", "query_tokens", *OF_MODEL, "lengths"}),
    ],
)  # fmt: skip
def test_a_key_of_a_kind_reruns_what_reads_it(
    load_every_kind: Callable[..., Graph], every: Graph, target: str, key: str, value: Any, expected: set[str]
) -> None:
    edit = value
    for part in reversed(key.split(".")):
        edit = {part: edit}
    file = f"results/{target}"
    assert rules(rerun(every.hashes(file), load_every_kind(edit).hashes(file))) == expected


# ---- single cases --------------------------------------------------------------------------------


def test_a_table_asks_for_each_size_and_seed_once_and_tokenises_nothing_twice(load: Load) -> None:
    jobs = load().jobs("results/msmarco/low_data.tsv")
    variants = {f"n{size}-seed{seed}" for size in (250, 1000) for seed in (1, 2)}
    trained = [tuple(job.split()[2:]) for job in jobs if job.startswith("train ")]
    systems = ("backbone-round1", "condenser-round1")
    assert sorted(trained) == sorted((system, variant) for system in systems for variant in variants)
    assert {job.split()[2] for job in jobs if job.startswith("subset ")} == variants
    counts = [
        sum(job.startswith(f"{rule} ") for job in jobs) for rule in ("tokens", "query_tokens", "bm25_run")
    ]
    assert counts == [1, 2, 1]  # queries of train and dev


def test_train_size_and_seed_stand_in_the_spec_of_what_draws(every: Graph) -> None:
    assert every.spec("subset tiny n30-seed7")["config"] == {"train_queries": 30, "seed": 7}
    assert every.spec("train tiny cocondenser-round1 n30-seed7")["config"]["seed"] == 7
    assert every.spec("examples tiny bm25 n30-seed42")["config"]["seed"] == 42
    assert every.spec("pretrain tiny cocondenser")["config"]["seed"] == 42  # the configuration's
    assert every.spec("pretrain tiny each-seed2")["config"]["seed"] == 2


def test_a_variant_of_fewer_queries_reads_its_subset_wherever_it_reads_train_queries(load: Load) -> None:
    table = {
        "rows": ["cocondenser-round2", "bm25"],
        "measures": ["MRR@10"],
        "train_queries": [30],
        "seeds": [7],
    }
    graph = load({"tables": {"few": table}}, configfile="configs/tiny.yaml")
    jobs, subset = graph.jobs("results/tiny/few.tsv"), "results/tiny/subsets/n30-seed7.txt"
    readers = {job for job in jobs if subset in graph.inputs(job)}
    assert readers == {
        *("examples tiny bm25 n30-seed7", "examples tiny cocondenser-round1 n30-seed7"),
        "encode_queries tiny cocondenser-round1 n30-seed7 train",
        "merge tiny cocondenser-round1 n30-seed7 train",
    }


def test_a_model_that_starts_from_one_of_all_seeds_may_have_its_own(load: Load) -> None:
    graph = load({"models": {"cocondenser": {"seed": "each"}}})
    target = "results/msmarco/models/cocondenser-seed3/model.safetensors"
    assert [job for job in graph.jobs(target) if job.startswith("pretrain ")] == [
        "pretrain msmarco condenser", "pretrain msmarco cocondenser-seed3"
    ]  # fmt: skip
    assert graph.owner("results/msmarco/models/cocondenser/model.safetensors") is None
    assert "pretrain msmarco cocondenser-seed42" in graph.jobs("results/msmarco/table2.tsv")


def test_a_set_without_a_seed_has_that_of_the_configuration(load: Load) -> None:
    for seed in (7, 8):
        graph = load({"extracted": {"practice": {"seed": None}}, "seed": seed})
        graph.jobs("results/msmarco/systems/bm25/untrained/run.practice.trec")
        assert graph.spec("extracted msmarco practice")["config"]["query_set"]["seed"] == seed


def test_judged_queries_come_first_where_a_reranker_learns_from_both(load: Load) -> None:
    graph = load(configfile="docs/studies/papers_in_small/extracted_reranker.yaml")
    graph.jobs("results/msmarco/reranker.tsv")
    files = graph.inputs("train msmarco reranker-both seed42")
    judged, made = (
        files.index(f"results/msmarco/tokens/backbone/queries.{split}.tokens.npy")
        for split in ("train", "all-passages")
    )
    assert judged < made


def test_a_chain_of_rounds_has_the_model_and_trainings_of_all_of_it(load: Load) -> None:
    systems = {
        "second": {"kind": "biencoder", "initial": "backbone-round1", "negatives": ["backbone-round1"]},
        "third": {"kind": "biencoder", "initial": "second", "negatives": ["second"]},
        "condenser": {"kind": "biencoder", "initial": "backbone", "negatives": ["bm25"]},
    }
    config = load(
        {"systems": systems, "tables": {"few": {"rows": ["third"], "measures": ["MRR@10"]}}}
    ).settings
    third = config.systems["third"]
    assert (third.start_system.key, third.start_model.key) == ("second", "backbone")
    assert config.systems["condenser-round1"].start_system is None  # a model wins where a system has its name
    assert "backbone" in config.datasets["msmarco"].checkpoints
    trained = [one["system"] for one in table_notes(config, "msmarco", "few")["trainings"]]
    assert trained == ["backbone-round1", "second", "third"]


@pytest.mark.parametrize(
    ("system", "maker"),
    [
        ("cocondenser-round2", "train msmarco cocondenser-round2 n250-seed1"),
        ("distilled", "train msmarco distilled seed42"),
        ("colbert", "train msmarco colbert seed42"),
    ],
)
def test_a_system_of_any_kind_and_variant_can_be_a_model_elsewhere(
    load: Load, system: str, maker: str
) -> None:
    late = {"kind": "late", "initial": "backbone", "candidates": ["bm25"], "depth": 9, "train": True}
    model = {"objective": "checkpoint", "source": "system", "dataset": "msmarco", "system": system}
    if "n250" in maker:
        model["variant"] = "n250-seed1"
    mine = {"source": "beir", "path": "tests/data/tiny"}
    overlay = {"models": {"moved": model}, "systems": {"colbert": {**late, "negatives": ["bm25"]}}}
    target = "results/mine/models/moved/model.safetensors"
    graph = load({**overlay, "datasets": {"mine": mine}})
    graph.jobs(target)
    assert graph.parents("checkpoint mine moved") == {maker}
    there = load({"datasets": {"mine": mine}, **overlay, "models": {"moved": {**model, "corpus": "msmarco"}}})
    assert there.owner(target) is None or "checkpoint msmarco moved" in there.jobs(
        target.replace("mine", "msmarco")
    )


def test_the_plan_knows_the_size_of_a_model_of_another_data_set(
    load_every_kind: Callable[..., Graph],
) -> None:
    jobs = load_every_kind().planned_jobs("mine", "moved")
    sizes = costs.Sizes(jobs)

    def size(rule: str, **wildcards: str) -> Any:
        (job,) = (one for one in jobs if one.rule == rule and wildcards.items() <= one.wildcards.items())
        return sizes.model(job)

    start = size("checkpoint", model="backbone", dataset="mine")
    assert size("checkpoint", model="moved") == size("train", system="moved-tuned") == start
    assert size("pretrain", model="again") == start


@pytest.mark.parametrize("dataset", ["texts", "hub"])
def test_without_queries_a_table_makes_the_models_of_its_rows_and_the_index(load: Load, dataset: str) -> None:
    texts = {"source": "beir", "path": "tests/data/tiny", "train_split": None, "eval_split": None}
    hub = {"source": "hub_text", "parts": [{"id": "a/b"}]}
    graph = load({"datasets": {"texts": texts, "hub": hub}})
    jobs = graph.jobs(f"results/{dataset}/adapt.tsv")
    made = {job.split()[2] for job in jobs if job.startswith(("pretrain ", "checkpoint "))}
    assert made == {"backbone", "mlm", "ict", "stacked", "condenser", "cocondenser"}
    assert rules(set(jobs)) == {
        *("collect", "checkpoint", "tokens", "lengths", "pretrain", "bm25_index", "table"),
        # the distilled row learns from a ranking of queries that are made from the texts
        *("extracted", "query_tokens", "bm25_run", "encode", "encode_queries", "search", "merge"),
        *("late", "fusion", "train", "best_of"),
    }
    assert {"pretrain mlm", "bm25_index index"} <= set(graph.spec(f"table {dataset} adapt")["lineage"])
    assert graph.plan(dataset, "adapt")[-1]["seconds"] > 60


def test_with_train_queries_alone_systems_are_trained_and_not_measured(load: Load) -> None:
    mine = {"source": "beir", "path": "tests/data/tiny", "eval_split": None}
    jobs = load({"datasets": {"mine": mine}}).jobs("results/mine/table2.tsv")
    assert sum(job.startswith("train ") for job in jobs) == 5
    assert not [job for job in jobs if job.startswith("metrics ")]


def test_a_table_reads_the_counts_behind_its_rows(every: Graph) -> None:
    manifests = {file for file in every.inputs("table tiny table3") if file.endswith(".manifest.json")}
    assert not [file for file in manifests if "run.train" in file]
    assert {
        "results/tiny/models/cocondenser.manifest.json",
        "results/tiny/systems/bm25/seed42/examples.jsonl.manifest.json",
        "results/tiny/systems/cocondenser-round2/seed42/model.manifest.json",
        "results/tiny/systems/cocondenser-round2/seed42/embeddings/collection.0-of-2.manifest.json",
    } <= manifests


def test_a_table_of_sentences_trains_each_size_and_seed_once_and_ranks_nothing(load: Load) -> None:
    graph = load()
    jobs = graph.jobs("results/stsb/low_data.tsv")
    assert rules(set(jobs)) == {
        *("download", "collect", "checkpoint", "tokens", "pretrain", "subset"),
        *("train_sentences", "similarities", "sentence_metrics", "table"),
    }
    variants = {f"{size}seed{seed}" for size in ("n500-", "n1000-", "") for seed in (1, 2, 3)}
    trained = [tuple(job.split()[2:]) for job in jobs if job.startswith("train_sentences ")]
    systems = ("backbone-sentences", "condenser-sentences")
    assert sorted(trained) == sorted((system, variant) for system in systems for variant in variants)
    rows = graph.spec(jobs[-1])["config"]["table"]
    assert [column["name"] for column in rows["columns"]] == ["spearman"]
    assert rows["starts"] == [None, *[0] * 6]


def test_an_encoder_is_trained_on_nli_first_with_one_seed_for_all_its_variants(load: Load) -> None:
    graph = load()
    job = "train_sentences stsb backbone-nli-sentences n500-seed3"
    jobs = graph.jobs("results/stsb/systems/backbone-nli-sentences/n500-seed3/model/model.safetensors")
    before = "train_sentences nli backbone-nli-sentences seed42"
    assert jobs[-1] == job and before in graph.parents(job)
    assert "checkpoint nli backbone" in graph.parents(before)
    assert [graph.spec(name)["config"]["recipe"]["epochs"] for name in (before, job)] == [1, 4]


def test_an_lstm_starts_from_the_users_file_and_serves_other_data_sets_as_a_model(load: Load) -> None:
    lstm = {"source": "lstm", "path": "config.yaml", "vocab_size": 99, "hidden_size": 4, "pooling": "max"}
    of_nli = {"source": "system", "dataset": "nli", "system": "trained"}
    kind = {"objective": "checkpoint"}
    graph = load({
        "models": {"lstm": {**kind, **lstm}, "of-nli": {**kind, **of_nli}},
        "systems": {
            "trained": {"kind": "sentence_encoder", "initial": "lstm"},
            "infersent": {"kind": "sentence_encoder", "initial": "of-nli", "train": False},
        },
    })  # fmt: skip
    jobs = graph.jobs("results/stsb/systems/infersent/untrained/metrics.test.json")
    assert [job for job in jobs if job.startswith(("checkpoint", "train", "similarities"))] == [
        *("checkpoint nli lstm", "train_sentences nli trained seed42", "checkpoint stsb of-nli"),
        "similarities stsb infersent untrained test",
    ]
    spec = graph.spec("checkpoint nli lstm")
    assert spec["contents"].keys() == {"config.yaml"} and "sentence-transformers" in spec["versions"]


def test_attention_is_measured_before_and_after_fine_tuning_on_the_same_passages(load: Load) -> None:
    graph = load()
    jobs = graph.jobs("results/msmarco/attention_entropy.svg")
    assert {tuple(job.split()[2:]) for job in jobs if job.startswith("attention_entropy ")} == {
        (f"{model}-{name}", variant, "1000", "42")
        for model in ("backbone", "ict", "condenser", "cocondenser")
        for name, variant in (("zeroshot", "untrained"), ("round1", "seed42"))
    }
    assert not {"encode", "search", "table"} & rules(set(jobs))
    seeds = {"figures": {"attention_entropy": {"seeds": [1, 2]}}, "models": {"ict": {"seed": "each"}}}
    graph = load(merged(seeds, {"models": {"stacked": {"seed": "each"}}}))
    graph.jobs("results/msmarco/attention_entropy.svg")
    read = graph.inputs("figure msmarco attention_entropy")
    assert [file.split("/")[4] for file in read if "/ict-" in file] == ["seed1", "seed2"] * 2


def test_costs_read_the_manifests_of_all_jobs_behind_the_table(every: Graph) -> None:
    behind = set(every.jobs("results/tiny/table2.tsv")) - {"table tiny table2"}
    assert set(every.jobs("results/tiny/costs.svg")) == behind | {"figure tiny costs"}
    *manifests, published = every.inputs("figure tiny costs")
    assert len(manifests) == len(behind) and published.endswith("condenser/evaluate/figures/costs.tsv")


def test_the_official_queries_without_judgement_rerun_nothing_else(load: Load) -> None:
    paper, target = "configs/paper.yaml", "results/msmarco/table2.tsv"
    graph = load({"datasets": {"msmarco": {"unjudged": "rest"}}}, configfile=paper)
    assert graph.hashes(target) == load(configfile=paper).hashes(target)
    graph.jobs("results/msmarco/systems/condenser-round1/seed42/run.rest.trec")
    assert graph.inputs("queries msmarco rest") == ["results/downloads/collectionandqueries.tar.gz"]
    assert graph.spec("search msmarco condenser-round1 seed42 rest 0-of-16")["config"]["depth"] == 210


def test_weights_are_asked_for_by_the_variant_of_their_train_queries(every: Graph) -> None:
    known = every.known()
    weights = known["tiny"]["systems"]["outer"]["files"]["weights"]
    assert weights == ["results/tiny/systems/outer/{variant}/weights.json"]


def test_an_audit_trains_and_ranks_nothing(load: Load) -> None:
    assert rules(set(load().jobs("results/msmarco/audit.tsv"))) == {
        *("audit", "collect", "checkpoint", "tokens", "query_tokens", "lengths"),  # how much is read
    }


def test_files_of_the_user_and_of_the_package_have_no_maker(every: Graph) -> None:
    for file in (
        *("tests/data/tiny/corpus.jsonl", "condenser/evaluate/published/cocondenser_table2.tsv"),
        *("results/tiny/stray.npy", "results/tiny/systems/bm25/untrained/export/agreement.json"),
    ):
        assert every.owner(file) is None
    with pytest.raises(LookupError, match="expected a job of the workflow, got gone"):
        every.manifest("gone", {"dataset": "tiny"})
