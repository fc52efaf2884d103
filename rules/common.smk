# Shared by all rules: the validated configuration, the specs, and where things stand.

import gc
import os
import sys
from functools import cache

import yaml

from condenser.config import validated
from condenser.data import sources
from condenser.pipeline import environment, locks, overlays, specs, stages

for file in workflow.configfiles:
    text = Path(file).read_text(encoding="utf-8")
    if error := overlays.template_error(file, text, yaml=yaml):
        sys.exit(f"error: config: {error}")
try:
    config = validated(config)
    sources.check_local_files(config["datasets"])
except ValueError as error:
    sys.exit(f"error: config: {error}")

# A DAG is a million small objects that all stay; looking for waste among them takes a tenth of the time.
gc.set_threshold(200_000)

WORK = "results/.work"
os.environ.update(
    environment.program_environment(
        config, root=Path(workflow.basedir), work=Path(WORK)
    ),
    LAUNCH_FLAGS=f"--device {config['compute']['device']} --stop-timeout-s 600",
)

# held open until Snakemake ends
FOLDER_LOCK = (
    locks.join_folder(Path(".snakemake")) if workflow.is_main_process else None
)

SPECS = specs.Specs(
    config, root=Path(workflow.basedir), digest_cache=Path(WORK, "digests.json")
)
THREADS = config["compute"]["threads"]
# What computes on a GPU asks for one; profiles give a training more. It starts a process for each,
# and one where there is none.
GPUS = 0 if config["compute"]["device"] == "cpu" else 1


wildcard_constraints:
    dataset="|".join(map(re.escape, config["datasets"])),
    split="[A-Za-z0-9_-]+",
    shard=r"\d+-of-\d+",
    system=r"bm25|(backbone|condenser|cocondenser)-round[1-9]\d*",


def spec(stage):
    """The param of a rule: the canonical spec of its job."""

    def of(wildcards):
        try:
            return SPECS.text(stage, dict(wildcards.items()))
        except (LookupError, ValueError) as error:
            sys.exit(f"error: {error}")

    return of


def work(stage):
    """The folder in which a long job keeps what it has done so far, keyed by its spec."""
    return (
        lambda wildcards: f"{WORK}/{stage}-{SPECS.hash(stage, dict(wildcards.items()))[:16]}"
    )


def growing(first):
    """A resource of which a job asks for `first`, and for as much again at each further attempt."""
    return lambda wildcards, attempt: first * attempt


def data(name):
    """A canonical file of the job's data set."""
    return f"results/{{dataset}}/data/{name}"


def split_of(dataset, which):
    return config["datasets"][dataset][f"{which}_split"]


def token_parts(prefix):
    """The three files of one token shard."""
    return multiext(
        prefix, ".tokens.npy", ".sentence_lengths.npy", ".num_sentences.npy"
    )


@cache
def token_prefixes(dataset):
    """The shard prefixes of a data set's collection, in row order."""
    return [
        f"results/{dataset}/tokens/collection.{shard}"
        for shard in stages.shards(config, "tokens")
    ]


def token_files(wildcards):
    return [f"{prefix}.tokens.npy" for prefix in token_prefixes(wildcards.dataset)]


def model_folder(dataset, pretrained):
    """Where the pre-trained model used for a data set stands."""
    return f"results/{stages.home(config, dataset, pretrained)}/models/{pretrained}"


def weights(pretrained):
    """Input function: the weights of a pre-trained model."""
    return (
        lambda wildcards: f"{model_folder(wildcards.dataset, pretrained)}/model.safetensors"
    )


def head(pretrained, name):
    """Input function: a head of a pre-trained model."""
    return (
        lambda wildcards: f"{model_folder(wildcards.dataset, pretrained)}/{name}.safetensors"
    )


def run_file(dataset, system, split):
    return f"results/{dataset}/runs/{system}.{split}.trec"


def backbone_inputs(wildcards):
    if config["backbone"]["source"] == "scratch":
        return {"collection": f"results/{wildcards.dataset}/data/collection.jsonl"}
    return {}


def collect_inputs(dataset):
    """The files a data set is made from: official downloads and the user's own."""
    entry = config["datasets"][dataset]
    downloads = [f"results/downloads/{name}" for name in sources.raw_files(entry)]
    return [*downloads, *map(str, sources.local_files(entry))]


def collect_outputs(dataset):
    entry = config["datasets"][dataset]
    splits = [entry[key] for key in ("train_split", "eval_split") if key in entry]
    names = ["collection.jsonl", "doc_ids.txt", "rejected.jsonl", "counts.json"]
    names += [f"queries.{split}.jsonl" for split in splits]
    names += [f"qrels.{split}.tsv" for split in splits]
    return [f"results/{dataset}/data/{name}" for name in names]


def table2_metrics(wildcards):
    split = split_of(wildcards.dataset, "eval")
    return {
        system.replace(
            "-", "_"
        ): f"results/{wildcards.dataset}/metrics/{system}.{split}.json"
        for system in [*stages.systems(config), "bm25"]
    }


def prefetch_inputs(wildcards):
    """Official files; texts that the hub's client streams; the backbone where it comes from the hub."""
    files = []
    for dataset, entry in config["datasets"].items():
        files += [f"results/downloads/{name}" for name in sources.raw_files(entry)]
        if entry.get("triples"):
            files.append(f"results/downloads/{stages.TRIPLES}")
        if entry["source"] == "hub_text":
            files.append(f"results/{dataset}/data/collection.jsonl")
        if config["backbone"]["source"] == "hub" and "train_split" in entry:
            files.append(f"{model_folder(dataset, 'backbone')}/model.safetensors")
    return files
