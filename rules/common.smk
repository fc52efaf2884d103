# Shared by all rules: the validated configuration, the graph, the specs, and where results lie.

import gc
import json
import os
import re
import shlex
import sys
from pathlib import Path

from condenser import experiment, kinds
from condenser.config import validated
from condenser.data import sources
from condenser.objectives import checkpoint as checkpoints
from condenser.pipeline import environment, locks, specs
from condenser.pipeline.specs import Stage
from condenser.systems import FOLDER as SYSTEMS

try:
    config = validated(config)
    sources.check_local_files(config["datasets"])
except ValueError as error:
    sys.exit(f"error: config: {error}")

# A DAG is a million small objects that all stay; the garbage collector takes a tenth of the time.
gc.set_threshold(200_000)

ROOT = Path(workflow.basedir)
PROGRAMS = str(ROOT / "workflow_scripts")
WORK = "results/.work"
os.environ.update(environment.program_environment(root=ROOT, work=Path(WORK)))

# held open until Snakemake ends
FOLDER_LOCK = (
    locks.join_folder(Path(".snakemake")) if workflow.is_main_process else None
)

# Settings that change no result are options of the programs, and no part of a spec.
SAFETY = environment.flags(config["safety"])
DOWNLOADS = environment.flags(config["downloads"])
MIRROR = environment.flags({"mirror": config["downloads"]["mirror"]})
LAUNCH = environment.flags(
    {"device": config["compute"]["device"], "stop_timeout_s": 600}
)
THREADS = config["compute"]["threads"]
# What computes on a GPU asks for one; profiles give a training more. It starts a process for each,
# and one where there is none.
GPUS = 0 if config["compute"]["device"] == "cpu" else 1

def names(chosen):
    """A regular expression of names for a wildcard; of none it matches nothing."""
    return "|".join(map(re.escape, chosen)) or "(?!)"


SHARDS = experiment.token_shards(config)
TRAINING = ("torch", "transformers", "numpy")  # packages that decide the bytes of a training


wildcard_constraints:
    dataset=names(config["datasets"]),
    model=names(config["models"]),
    system=names(config["systems"]),
    table=names(config["tables"]),
    variant=experiment.VARIANT,
    split="[A-Za-z0-9_-]+",
    shard=r"\d+-of-\d+",


# ---- where results lie ---------------------------------------------------------------------------

DATA = "results/{dataset}/data/"
MODEL = "results/{dataset}/models/{model}"
TOKENS = "results/{dataset}/tokens/{model}/"
SYSTEM = "results/{dataset}/systems/{system}/{variant}/"


def data(name):
    """A canonical file of the job's data set; `{train}` stands for the name of its train split."""
    return lambda wildcards: (DATA + name).format(
        dataset=wildcards.dataset,
        split=wildcards.get("split"),
        train=split_of(wildcards.dataset, "train_split") if "{train}" in name else None,
    )


def split_of(dataset, key):
    """The `train_split` or `eval_split` of a data set."""
    entry = config["datasets"][dataset]
    if key not in entry:
        sys.exit(
            f"error: results/{dataset}: expected a data set with queries and judgements, "
            f"got one of texts alone (source {entry['source']})."
        )
    return entry[key]


def model_file(dataset, model, name="model.safetensors"):
    """A file of a model that is used for a data set."""
    home = experiment.home(config, model, dataset)
    return f"{MODEL}/{name}".format(dataset=home, model=model)


def token_file(dataset, model, part):
    """The tokens of a data set by the tokenizer of a model; `part` is `collection.0-of-2`, `queries.dev`."""
    tokenizer = experiment.root(config, model)
    return f"{TOKENS}{part}.tokens.npy".format(dataset=dataset, model=tokenizer)


def collection_tokens(dataset, model):
    return [token_file(dataset, model, f"collection.{shard}") for shard in SHARDS]


def system_file(dataset, system, variant, name):
    return (SYSTEM + name).format(dataset=dataset, system=system, variant=variant)


def run_file(dataset, system, variant, split):
    """The run of a system, which has no variants where no fine-tuning makes it."""
    variant = experiment.ranking_variant(config, system, variant)
    return system_file(dataset, system, variant, f"run.{split}.trec")


def subset_file(wildcards):
    """The train queries of a variant that has a number of them; none of the others."""
    if experiment.parse_variant(wildcards.variant)[0] is None:
        return []
    return f"results/{wildcards.dataset}/subsets/{wildcards.variant}.txt"


# ---- the graph, read off the rules ---------------------------------------------------------------

RULES = {}  # by the name of a rule: its stage, and the wildcards that its name stands for


def inputs_of(stage, wildcards):
    """The input files of a job."""
    name = next(
        name
        for name, (of, fixed) in RULES.items()
        if of == stage and fixed.items() <= wildcards.items()
    )
    files, *_ = workflow.get_rule(name).expand_input(wildcards)
    return [str(file) for file in files]


def owner_of(file):
    """The job that makes a file: its stage and wildcards; None of the user's own files."""
    for name, (stage, fixed) in RULES.items():
        maker = workflow.get_rule(name)
        if maker.is_producer(file):
            return stage, {**fixed, **maker.get_wildcards(file)}


SPECS = specs.Specs(
    config,
    root=ROOT,
    inputs=inputs_of,
    owner=owner_of,
    digest_cache=Path(WORK, "digests.json"),
)


def spec(stage, *, named=None, fixed=None, **declared):
    """The one param of a rule that decides reruns: the canonical spec of its job."""
    RULES[named or stage] = stage, fixed or {}
    SPECS.declare(stage, Stage(**declared))

    def of(wildcards, input):
        try:
            return SPECS.text(
                stage, {**(fixed or {}), **dict(wildcards.items())}, inputs=list(input)
            )
        except (LookupError, ValueError) as error:
            sys.exit(f"error: {stage}: {error}")

    return of


def work(stage):
    """The folder in which a long job keeps partial work, keyed by its spec."""
    return lambda wildcards, input: (
        f"{WORK}/{stage}-{SPECS.hash(stage, dict(wildcards.items()), inputs=list(input))[:16]}"
    )


def growing(first):
    """A resource of which a job asks for `first`, and for as much again at each further attempt."""
    return lambda wildcards, attempt: first * attempt


def manifest_of_job(stage, wildcards):
    """Where a job writes its manifest."""
    name = next(
        name
        for name, (of, fixed) in RULES.items()
        if of == stage and fixed.items() <= wildcards.items()
    )
    return workflow.get_rule(name).output.manifest.apply_wildcards(wildcards)
