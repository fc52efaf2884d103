# Where results lie.

import sys

from condenser import shown, variants
from condenser.data import sources


def data(name):
    """A canonical file of the job's data set; `{train}` stands for the name of its train split."""
    place = f"results/{{dataset}}/data/{name}"
    if "{train}" not in name and "{split}" not in name:
        return place
    if name == "queries.{split}.jsonl":
        return queries_of
    return lambda wildcards: place.format(
        dataset=wildcards.dataset,
        split=(judged_split(wildcards.dataset, wildcards.split) if "{split}" in name else None),
        train=split_of(wildcards.dataset, "train_split") if "{train}" in name else None,
    )


def queries_of(wildcards):
    """The queries of a job's split, which may have no judgements."""
    return queries_of_split(wildcards.dataset, variants.whole_split(wildcards.split))


def queries_of_split(dataset, split):
    """The queries of a split of a data set."""
    if split in unjudged_of(dataset):
        return f"results/{dataset}/queries/{split}/queries.{split}.jsonl"
    return f"results/{dataset}/data/queries.{judged_split(dataset, split)}.jsonl"


def unjudged_of(dataset):
    """The names of the queries without judgements that a data set has: the user's, and what is made from its texts."""
    return [*sources.unjudged_names(config.datasets[dataset]), *config.extracted]


def split_of(dataset, key):
    """The `train_split` or `eval_split` of a data set."""
    split = vars(config.datasets[dataset]).get(key)
    if split is None:
        targets = [f"results/{dataset}/{name}.tsv" for name in shown.untrained_tables(config, dataset)]
        advice = (
            f"Ask for {' or '.join(targets)}, whose systems need no train query."
            if targets
            else "Ask for its models, or for a table of systems with train: false."
        )
        sys.exit(
            f"error: results/{dataset}: expected a data set with queries and judgements, got one without "
            f"{key}. {advice}"
        )
    return split


def judged_split(dataset, split):
    """A split that its data set must have, with judgements."""
    entry = config.datasets[dataset]
    known, unjudged = entry.splits, unjudged_of(dataset)
    if split in unjudged:
        sys.exit(
            f"error: results/{dataset}: expected a split with judgements, got {split}, "
            f"queries without any. Ask for a run: results/{dataset}/systems/<system>/<variant>/"
            f"run.{split}.trec."
        )
    if not known and not sources.unjudged_names(entry):
        split_of(dataset, "eval_split")
    if split not in known:
        sys.exit(
            f"error: results/{dataset}: expected a split of the data set ({', '.join([*known, *sources.unjudged_names(entry)])}), "
            f"got {split}. Ask for one of these, or set eval_split."
        )
    return split


def model_file(dataset, model, name="model.safetensors", *, seed=None):
    """A file of a model that is used for a data set, by a job of this seed."""
    try:
        folder = config.models[model].folder(seed)
    except LookupError as error:
        sys.exit(f"error: results/{dataset}: {error}")
    return f"results/{config.models[model].corpus_for(dataset)}/models/{folder}/{name}"


def file_of_model(name):
    """A file of the model that a job's path names."""
    return lambda wildcards: model_file(wildcards.dataset, wildcards.model, name)


def token_file(dataset, model, part):
    """The tokens of a data set by the tokenizer of a model; `part` is `collection.0-of-2`, `queries.dev`."""
    return f"results/{dataset}/tokens/{config.models[model].root.key}/{part}.tokens.npy"


def collection_tokens(dataset, model):
    """All token shards of a collection, in order."""
    return [token_file(dataset, model, f"collection.{shard}") for shard in SHARDS]


def lengths_file(dataset, model):
    """How long the texts of a data set are by the tokenizer of a model."""
    return f"results/{dataset}/tokens/{config.models[model].root.key}/lengths.json"


def tokenizer_file(dataset, model):
    """The tokenizer that makes the tokens of a data set for a model."""
    return model_file(dataset, config.models[model].root.key, "tokenizer.json")


def system_file(dataset, system, variant, name):
    """A file of one variant of a system."""
    return f"results/{dataset}/systems/{system}/{variant}/{name}"


def last_rows_of(dataset, system, variant, shard):
    """The folder that keeps what was encoded last, of which the next encoding copies rows."""
    return f"results/{dataset}/last/{system}.{variant}.{shard}"


def learnt_of(rule_name, wildcards):
    """The file that says from which passages a model has learnt."""
    names = ".".join(wildcards[key] for key in ("model", "system", "variant") if key in wildcards)
    return f"results/{wildcards['dataset']}/last/{names}.learnt.npy"


def run_file(dataset, system, variant, split):
    """The run of a system, which has no variants where no fine-tuning makes it.

    Of the held-out queries alone where the system ranks these alone.
    """
    if not (variants.is_held_out(split) and config.systems[system].ranks_held_out(variant)):
        split = variants.whole_split(split)
        variant = config.systems[system].ranking_variant(variant)
    return system_file(dataset, system, variant, f"run.{split}.trec")


def subset_file(wildcards):
    """The train queries of a variant that has a number of them; none of the others."""
    if variants.parse_variant(wildcards.variant)[0] is None:
        return []
    return f"results/{wildcards.dataset}/subsets/{wildcards.variant.removeprefix(variants.CROSSFIT)}.txt"


def train_items(wildcards):
    """What a data set trains on: queries, or sentences."""
    of_sentences = config.datasets[wildcards.dataset].TASK
    return data("items.{train}.jsonl" if of_sentences else "queries.{train}.jsonl")(wildcards)
