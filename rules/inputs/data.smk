# Inputs of the rules in rules/data.smk.

from condenser.data import sources
from condenser.objectives import checkpoint as checkpoints


def prefetch_inputs(wildcards):
    """Official files, texts that are read from a network, and checkpoints of the hub.

    Of the data sets of sentences only those that an overlay speaks of.
    """
    files = set()
    spoken_of = workflow.config_settings.overwrite_config.get("datasets") or {}
    for dataset, entry in config.datasets.items():
        if entry.TASK and dataset not in spoken_of:
            continue
        raw = [*entry.raw_files(), *entry.unjudged_files()]
        for system in config.systems:
            raw += entry.example_files(system)
        files.update(f"results/downloads/{name}" for name in raw)
        if entry.NEEDS_NETWORK:
            files.add(f"results/{dataset}/data/collection.jsonl")
        for model in CHECKPOINTS:
            if checkpoints.needs_network(config.models[model]):
                files.add(model_file(dataset, model))
    return sorted(files)


def given_examples(wildcards):
    """The examples of all train queries by the first system whose negatives official files give; else none."""
    entry = config.datasets[wildcards.dataset]
    _, seed = variants.parse_variant(wildcards.variant)
    return next(
        (
            system_file(wildcards.dataset, name, f"seed{seed}", "examples.jsonl")
            for name in config.systems
            if entry.example_files(name)
        ),
        [],
    )
