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


def rankings_to_choose_by(wildcards):
    """For one set of queries after another: its queries, the candidates' runs, and the voters' where they judge."""
    entry, dataset = config.models[wildcards.model], wildcards.dataset
    sets, asked = [*entry.queries, *entry.unjudged], f"seed{config.seed}"

    def runs(splits, systems):
        return [run_file(dataset, system, asked, split) for split in splits for system in systems]

    return {
        "queries": [queries_of_split(dataset, split) for split in sets],
        "runs": runs(sets, entry.of),
        "votes": runs(entry.unjudged, entry.voters),
    }


def tokens_to_learn_from(wildcards):
    """The token shards of a model's corpus."""
    model, _ = config.model_of(wildcards.model)
    return collection_tokens(wildcards.dataset, model.key)
