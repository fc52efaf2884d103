# Encoders of sentences. Needs: a pre-trained model, and pairs or triplets. Makes: a fine-tuned model,
# similarities, and (also of word vectors) metrics.

SENTENCE_ENCODERS = config.systems_of_kind("sentence_encoder")


rule train_sentences:
    input:
        initial=start_of_sentences,
        sentences=data("items.{train}.jsonl"),
        subset=subset_file,
    output:
        model="results/{dataset}/systems/{system}/{variant}/model/model.safetensors",
        losses="results/{dataset}/systems/{system}/{variant}/model/losses.jsonl",
        manifest="results/{dataset}/systems/{system}/{variant}/model.manifest.json",
    log:
        "results/{dataset}/logs/train_sentences.{system}.{variant}.log",
    benchmark:
        "results/{dataset}/benchmarks/train_sentences.{system}.{variant}.tsv"
    wildcard_constraints:
        system=names(name for name in SENTENCE_ENCODERS if config.systems[name].is_trained),
    conda:
        "../../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(8000),
        runtime=growing(1440),
    params:
        job=SPECS.job(
            "train_sentences",
            settings=["dataset.source", "recipe", "compute", "seed"],
            packages=SENTENCE_PACKAGES,
            modules=source_module,
            options=vars(config.safety),
        ),
    shell:
        RUN


rule similarities:
    input:
        model=long_encoder_of,
        sentences=data("items.{split}.jsonl"),
    output:
        similarities="results/{dataset}/systems/{system}/{variant}/similarities.{split}.tsv",
        manifest="results/{dataset}/systems/{system}/{variant}/similarities.{split}.tsv.manifest.json",
    log:
        "results/{dataset}/logs/similarities.{system}.{variant}.{split}.log",
    benchmark:
        "results/{dataset}/benchmarks/similarities.{system}.{variant}.{split}.tsv"
    wildcard_constraints:
        system=names(SENTENCE_ENCODERS),
    conda:
        "../../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(8000),
        runtime=growing(240),
    params:
        job=SPECS.job(
            "similarities",
            settings=[
                "dataset.source",
                "recipe.max_tokens",
                "similarities",
                "encode.batch_tokens",
                "compute",
            ],
            packages=SENTENCE_PACKAGES,
            modules=source_module,
        ),
    shell:
        RUN


rule sentence_metrics:
    input:
        similarities="results/{dataset}/systems/{system}/{variant}/similarities.{split}.tsv",
        sentences=data("items.{split}.jsonl"),
    output:
        metrics="results/{dataset}/systems/{system}/{variant}/metrics.{split}.json",
        manifest="results/{dataset}/systems/{system}/{variant}/metrics.{split}.json.manifest.json",
    log:
        "results/{dataset}/logs/sentence_metrics.{system}.{variant}.{split}.log",
    wildcard_constraints:
        system=names(name for name in config.systems if name not in RANKERS),
    conda:
        "../../envs/search.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),
    params:
        job=SPECS.job(
            "sentence_metrics", settings=["metrics.measures"], packages=["numpy"], modules=measure_modules
        ),
    shell:
        RUN
