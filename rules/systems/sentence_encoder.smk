# Encoders of sentences. Needs: a pre-trained model, and pairs or triplets. Makes: a fine-tuned model,
# similarities, and (also of word vectors) metrics.

SENTENCE_ENCODERS = experiment.systems_of_kind(config, "sentence_encoder")


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
        system=names(
            name for name in SENTENCE_ENCODERS if experiment.is_trained(config, name)
        ),
    conda:
        "../../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(8000),
        runtime=growing(1440),
    params:
        program=program("train_sentences"),
        options=SAFETY,
        spec=spec(
            "train_sentences",
            settings=["dataset.source", "recipe", "compute", "seed"],
            packages=SENTENCE_PACKAGES,
            modules=source_module,
        ),
        work=work("train_sentences"),
        folder=lambda wildcards, output: os.path.dirname(output.model),
        subset=given("subset"),
    shell:
        "{params.program} --spec {params.spec:q} --initial $(dirname {input.initial:q})"
        " --items {input.sentences:q} {params.subset} --output {params.folder:q}"
        " --work-folder {params.work:q} --manifest {output.manifest:q} {params.options}"
        " 2>&1 | tee {log:q}"


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
        program=program("similarities"),
        spec=spec(
            "similarities",
            settings=[
                "dataset.source",
                "recipe.max_tokens",
                "encode.batch_tokens",
                "compute",
            ],
            packages=SENTENCE_PACKAGES,
            modules=source_module,
        ),
    shell:
        "{params.program} --spec {params.spec:q} --encoder $(dirname {input.model:q})"
        " --items {input.sentences:q} --output {output.similarities:q}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"


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
        system=names(name for name in config["systems"] if name not in RANKERS),
    conda:
        "../../envs/search.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),
    params:
        program=program("sentence_metrics"),
        spec=spec(
            "sentence_metrics",
            settings=["metrics.measures"],
            packages=["numpy"],
            modules=measure_modules,
        ),
    shell:
        "{params.program} --spec {params.spec:q} --similarities {input.similarities:q}"
        " --items {input.sentences:q} --output {output.metrics:q}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"
