# Inputs of the rules in rules/models.smk.

from condenser.config.positions import layers_and_positions
from condenser.objectives import checkpoint as checkpoints


def folder_files(wildcards):
    """The user's own files of a checkpoint; a folder that cannot be used ends what needs it with a line."""
    model = config.models[wildcards.model]
    try:
        layers_and_positions(model)
        return list(map(str, checkpoints.local_files(model)))
    except ValueError as error:
        sys.exit(f"error: config: {error}")
    except OSError as error:
        sys.exit(
            f"error: config: models.{model.key}.path: expected to list {error.filename}, got: {error.strerror}. "
            "Correct the rights."
        )


def vocabulary_texts(wildcards):
    """The collection, where a new vocabulary is learnt from it."""
    if checkpoints.learns_vocabulary(config.models[wildcards.model]):
        return f"results/{wildcards.dataset}/data/collection.jsonl"
    return []


def weights_of_system(wildcards):
    """The weights of a system of any data set, where a checkpoint is its model."""
    entry = config.models[wildcards.model]
    if not entry.is_of_system:
        return []
    return encoder_file(entry.dataset, entry.system, entry.variant or f"seed{config.seed}")


def candidates_of(wildcards):
    """The weights of the candidates that a model is chosen from, in order."""
    dataset, asked = wildcards.dataset, f"seed{config.seed}"
    return [
        encoder_file(dataset, system, config.systems[system].ranking_variant(asked))
        for system in config.models[wildcards.model].of
    ]


def to_choose_by(name):
    """Of each set of queries in turn: its queries, the candidates' runs, or the voters' where they judge."""

    def of(wildcards):
        entry, dataset = config.models[wildcards.model], wildcards.dataset
        sets = entry.unjudged if name == "votes" else [*entry.queries, *entry.unjudged]
        if name == "queries":
            return [queries_of_split(dataset, split) for split in sets]
        systems = entry.voters if name == "votes" else entry.of
        return [
            run_file(dataset, system, f"seed{config.seed}", split) for split in sets for system in systems
        ]

    return of


def tokens_to_learn_from(wildcards):
    """The token shards of a model's corpus."""
    model, _ = config.model_of(wildcards.model)
    return collection_tokens(wildcards.dataset, model.key)
