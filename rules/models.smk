# Models: checkpoints, and what objectives make of them. Each is a Hugging Face folder with its heads in
# files of their own, under the results of the data set that is its corpus.

from condenser.config.positions import layers_and_positions
from condenser.objectives import checkpoint as checkpoints


def folder_files(wildcards):
    """The user's own files of a checkpoint; a folder that cannot be used ends what needs it with a line."""
    name = wildcards.model
    try:
        layers_and_positions(config.models[name], f"models.{name}")
        return list(map(str, checkpoints.local_files(config.models[name])))
    except ValueError as error:
        sys.exit(f"error: config: {error}")
    except OSError as error:
        sys.exit(
            f"error: config: models.{name}.path: expected to list {error.filename}, got: {error.strerror}. "
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
    if not config.models[wildcards.model].is_of_system:
        return []
    return encoder_file(entry.dataset, entry.system, entry.variant or f"seed{config.seed}")


def candidates_of(wildcards):
    """The weights of the candidates that a model is chosen from, in order."""
    dataset, asked = wildcards.dataset, f"seed{config.seed}"
    return [
        encoder_file(dataset, system, experiment.ranking_variant(config, system, asked))
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


# Needs: the network for a model of the hub, the collection for a new vocabulary, vectors of words for an LSTM, a
# fine-tuned system for a copy of it, else nothing.
rule checkpoint:
    input:
        collection=vocabulary_texts,
        files=folder_files,
        system=weights_of_system,
    output:
        model="results/{dataset}/models/{model}/model.safetensors",
        tokenizer="results/{dataset}/models/{model}/tokenizer.json",
        manifest="results/{dataset}/models/{model}.manifest.json",
    log:
        "results/{dataset}/logs/checkpoint.{model}.log",
    wildcard_constraints:
        model=names(CHECKPOINTS),
    localrule: any(checkpoints.needs_network(config.models[name]) for name in CHECKPOINTS)
    conda:
        "../envs/torch.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),
    params:
        job=SPECS.job(
            "checkpoint",
            settings=["model", "seed"],
            packages=lambda settings: checkpoints.packages(settings.model),
            options={"mirror": config.downloads.mirror},
        ),
    shell:
        RUN


FOR_EACH_SEED = [name for name in config.models if config.models[name].is_seeded]
CHOSEN = [name for name in config.models if config.models[name].is_chosen]
ONCE = set(config.models) - set(CHECKPOINTS) - set(FOR_EACH_SEED) - set(CHOSEN)


def tokens_to_learn_from(wildcards):
    """The token shards of a model's corpus."""
    model, _ = experiment.model_of(config, wildcards.model)
    return collection_tokens(wildcards.dataset, model)


# Needs: token shards and the model to start from. One rule for all objectives; a model that is pre-trained
# for each seed has it in its name.
rule pretrain:
    input:
        tokens=tokens_to_learn_from,
        doc_ids=data("doc_ids.txt"),
        initial=initial_file,
    output:
        model="results/{dataset}/models/{model}/model.safetensors",
        losses="results/{dataset}/models/{model}/losses.jsonl",
        manifest="results/{dataset}/models/{model}.manifest.json",
    log:
        "results/{dataset}/logs/pretrain.{model}.log",
    benchmark:
        "results/{dataset}/benchmarks/pretrain.{model}.tsv"
    wildcard_constraints:
        model=rf"{names(ONCE)}|({names(FOR_EACH_SEED)}){experiment.SEED}",
    priority: 1  # others wait for what it makes
    conda:
        "../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(32000),
        runtime=growing(1440),
    params:
        job=SPECS.job(
            "pretrain",
            settings=["model", "compute", "seed"],
            packages=TORCH,
            modules=lambda settings: [kinds.module_name("objectives", settings.model.objective)],
            options=vars(config.safety),
            processes=True,
        ),
    shell:
        RUN


# Needs: runs of the candidates for queries that are made from passages. Makes: a copy of the best candidate,
# and what speaks for it as a table and a picture.
rule best_of:
    input:
        unpack(rankings_to_choose_by),
        models=candidates_of,
    output:
        model="results/{dataset}/models/{model}/model.safetensors",
        tokenizer="results/{dataset}/models/{model}/tokenizer.json",
        table="results/{dataset}/models/{model}.tsv",
        picture="results/{dataset}/models/{model}.svg",
        manifest="results/{dataset}/models/{model}.manifest.json",
    log:
        "results/{dataset}/logs/best_of.{model}.log",
    wildcard_constraints:
        model=names(CHOSEN),
    conda:
        "../envs/figures.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),
    params:
        job=SPECS.job(
            "best_of",
            settings=["model", "significance", "dataset.split"],
            packages=["matplotlib", "numpy", "pandas", "scipy"],
        ),
    shell:
        RUN
