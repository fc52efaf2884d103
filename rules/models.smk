# Models: checkpoints, and what objectives make of them. Each is a Hugging Face folder with its heads in
# files of their own, under the results of the data set that is its corpus.


# Needs: the network for a model of the hub, the collection for a new vocabulary, vectors of words for an LSTM, a
# fine-tuned system for a copy of it, else nothing.
rule checkpoint:
    input:
        unpack(
            unless_kept(
                "checkpoint", collection=vocabulary_texts, files=folder_files, system=weights_of_system
            )
        ),
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


# Needs: token shards and the model to start from. One rule for all objectives; a model that is pre-trained
# for each seed has it in its name.
rule pretrain:
    input:
        unpack(
            unless_kept(
                "pretrain", tokens=tokens_to_learn_from, doc_ids=data("doc_ids.txt"), initial=initial_file
            )
        ),
    output:
        model="results/{dataset}/models/{model}/model.safetensors",
        losses="results/{dataset}/models/{model}/losses.jsonl",
        manifest="results/{dataset}/models/{model}.manifest.json",
    log:
        "results/{dataset}/logs/pretrain.{model}.log",
    benchmark:
        "results/{dataset}/benchmarks/pretrain.{model}.tsv"
    wildcard_constraints:
        model=rf"{names(ONCE)}|({names(FOR_EACH_SEED)}){variants.SEED}",
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
        unpack(
            unless_kept(
                "best_of",
                queries=to_choose_by("queries"),
                runs=to_choose_by("runs"),
                votes=to_choose_by("votes"),
                models=candidates_of,
            )
        ),
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
