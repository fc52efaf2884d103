# Where results lie.

import sys

from condenser import experiment
from condenser.data import sources


def data(name):
    """A canonical file of the job's data set; `{train}` stands for the name of its train split."""
    place = f"results/{{dataset}}/data/{name}"
    if "{train}" not in name and "{split}" not in name:
        return place
    return lambda wildcards: place.format(
        dataset=wildcards.dataset,
        split=known_split(wildcards) if "{split}" in name else None,
        train=split_of(wildcards.dataset, "train_split") if "{train}" in name else None,
    )


def split_of(dataset, key):
    """The `train_split` or `eval_split` of a data set."""
    split = config["datasets"][dataset].get(key)
    if split is None:
        sys.exit(
            f"error: results/{dataset}: expected a data set with queries and judgements, got one without "
            f"{key}. Ask for its models, or for a table of systems with train: false."
        )
    return split


def known_split(wildcards):
    """The split of a job, which its data set must have."""
    known = sources.splits(config["datasets"][wildcards.dataset])
    if not known:
        split_of(wildcards.dataset, "eval_split")
    if wildcards.split not in known:
        sys.exit(
            f"error: results/{wildcards.dataset}: expected a split of the data set ({', '.join(known)}), "
            f"got {wildcards.split}. Ask for one of these, or set eval_split."
        )
    return wildcards.split


def model_file(dataset, model, name="model.safetensors", *, seed=None):
    """A file of a model that is used for a data set, by a job of this seed."""
    try:
        folder = experiment.model_name(config, model, seed)
    except LookupError as error:
        sys.exit(f"error: results/{dataset}: {error}")
    return f"results/{experiment.home(config, model, dataset)}/models/{folder}/{name}"


def token_file(dataset, model, part):
    """The tokens of a data set by the tokenizer of a model; `part` is `collection.0-of-2`, `queries.dev`."""
    return (
        f"results/{dataset}/tokens/{experiment.root(config, model)}/{part}.tokens.npy"
    )


def collection_tokens(dataset, model):
    """All token shards of a collection, in order."""
    return [token_file(dataset, model, f"collection.{shard}") for shard in SHARDS]


def lengths_file(dataset, model):
    """How long the texts of a data set are by the tokenizer of a model."""
    return f"results/{dataset}/tokens/{experiment.root(config, model)}/lengths.json"


def system_file(dataset, system, variant, name):
    """A file of one variant of a system."""
    return f"results/{dataset}/systems/{system}/{variant}/{name}"


def run_file(dataset, system, variant, split):
    """The run of a system, which has no variants where no fine-tuning makes it."""
    variant = experiment.ranking_variant(config, system, variant)
    return system_file(dataset, system, variant, f"run.{split}.trec")


def subset_file(wildcards):
    """The train queries of a variant that has a number of them; none of the others."""
    if experiment.parse_variant(wildcards.variant)[0] is None:
        return []
    return f"results/{wildcards.dataset}/subsets/{wildcards.variant}.txt"


def train_items(wildcards):
    """What a data set trains on: queries, or sentences."""
    of_sentences = sources.task(config["datasets"][wildcards.dataset])
    return data("items.{train}.jsonl" if of_sentences else "queries.{train}.jsonl")(
        wildcards
    )
