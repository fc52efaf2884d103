# Inputs that rules of several files have. Those that the rules of one file have alone are in rules/inputs/.

import sys

from condenser import variants
from condenser.config.positions import check_longest_row
from condenser.settings import AUTO


def default_tables(overlay, dataset, table):
    """The tables that are made without a target: those of the data sets and tables that an overlay speaks of."""
    spoken_of = overlay.get("datasets") or [dataset]
    measured = [name for name in spoken_of if config.datasets[name].is_measured]
    return [
        f"results/{of}/{name}.tsv"
        for of in measured or spoken_of
        for name in overlay.get("tables") or tables_of_sentences(of) or [table]
    ]


def tables_of_sentences(dataset):
    """The tables that have rows for a data set of sentences; none of one with queries."""
    entry = config.datasets.get(dataset)
    if entry is None or entry.TASK is None:
        return []
    return [name for name, one in config.tables.items() if dataset in one.by_dataset]


def tokens_of_system(wildcards):
    """The token shards of the collection, by the tokenizer of a system's model."""
    return collection_tokens(wildcards.dataset, initial_of(wildcards))


def runs_of(wildcards, key, split=None, variant=None):
    """The runs of the systems that a key of a system names, in order; of the job's split and variant by default."""
    return [
        run_file(wildcards.dataset, system, variant or wildcards.variant, split or wildcards.split)
        for system in vars(config.systems[wildcards.system])[key]
    ]


def runs_of_parts(key):
    """The runs of the systems that this key of a job's system names."""
    return lambda wildcards: runs_of(wildcards, key)


def initial_of(wildcards):
    """The model that a system starts from, itself or through other systems."""
    return config.systems[wildcards.system].start_model.key


def initial_file(wildcards):
    """The weights that a pre-training or the fine-tuning of a system starts from."""
    if wildcards.get("model") is not None:
        model, seed = config.model_of(wildcards.model)
        return model_file(wildcards.dataset, model.initial, seed=seed)
    return start_of(wildcards.dataset, wildcards.system, wildcards.variant)


def start_of(dataset, system, variant):
    """The weights that a variant of a system starts from: of a model, or of the same variant of a system."""
    if other := config.systems[system].start_system:
        return encoder_file(dataset, other.key, other.ranking_variant(variant))
    _, seed = variants.parse_variant(variant)
    return model_file(dataset, config.systems[system].initial, seed=seed)


def held_out_file(dataset, variant):
    """The train queries that no training of a variant sees; none where all are trained on."""
    if not config.datasets[dataset].leaves_out(variant):
        return []
    return f"results/{dataset}/held_out/{variant.removeprefix(variants.CROSSFIT)}.txt"


def held_out_of_variant(wildcards):
    """The train queries that no training of a job's variant sees; none where all are trained on."""
    return held_out_file(wildcards.dataset, wildcards.variant)


def encoder_of(wildcards):
    """The weights of a bi-encoder: its own, or those of the model that it is without fine-tuning."""
    return encoder_file(wildcards.dataset, wildcards.system, wildcards.variant)


def encoder_file(dataset, system, variant):
    """The weights of one variant of a bi-encoder."""
    if config.systems[system].is_trained:
        return system_file(dataset, system, variant, "model/model.safetensors")
    return start_of(dataset, system, variant)


def lengths_if_auto(*texts):
    """An input: how long the texts are, where the recipe says `auto` for these; else none."""

    def of(wildcards):
        system = config.systems[wildcards.system]
        lengths = config.datasets[wildcards.dataset].recipe_of(system).lengths
        if AUTO in [vars(lengths)[text] for text in texts]:
            return lengths_file(wildcards.dataset, initial_of(wildcards))
        return []

    return of


def long_encoder_of(wildcards):
    """The weights of an encoder whose rows may be longer than a passage, if it has positions for them."""
    refuse_few_positions(wildcards)
    return encoder_of(wildcards)


def refuse_few_positions(wildcards):
    """End with a line where a system has too few positions for its longest row."""
    try:
        check_longest_row(config, wildcards.dataset, wildcards.system)
    except ValueError as error:
        sys.exit(f"error: config: {error}")


def check_rows_fit(dataset, name, systems):
    """See that what a table or figure shows are systems for what its data set has: queries, or sentences."""
    for row in systems:
        if not config.systems[row].supports_task_of(config.datasets[dataset]):
            has = config.datasets[dataset].TASK
            sys.exit(
                f"error: results/{dataset}/{name}: expected rows of systems for "
                f"{'sentences' if has else 'queries'}, got {row}. Ask for another table or figure."
            )


def subset_of_split(wildcards):
    """Of the train queries, only those of the variant, or the held-out ones of these, are encoded and searched."""
    if variants.is_held_out(wildcards.split):
        return held_out_file(wildcards.dataset, wildcards.variant)
    train_split = config.datasets[wildcards.dataset].learns_on
    return subset_file(wildcards) if wildcards.split == train_split else []


def query_tokens_of(wildcards):
    """The tokens of the queries of a job's split, by the tokenizer of its system's model."""
    split = variants.whole_split(wildcards.split)
    return token_file(wildcards.dataset, initial_of(wildcards), f"queries.{split}")
