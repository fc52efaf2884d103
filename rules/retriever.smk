# Needs: a pre-trained model and training examples. Makes: a tied bi-encoder. Round 2 is this rule
# with another wildcard: it starts from the pre-trained model again and reads one more examples file.


rule retriever:
    input:
        initial=lambda wildcards: weights(stages.system_parts(wildcards.system)[0])(
            wildcards
        ),
        tokens=token_files,
        query_tokens=lambda wildcards: (
            f"results/{wildcards.dataset}/tokens/"
            f"queries.{split_of(wildcards.dataset, 'train')}.tokens.npy"
        ),
        doc_ids=data("doc_ids.txt"),
        queries=lambda wildcards: data(
            f"queries.{split_of(wildcards.dataset, 'train')}.jsonl"
        ),
        examples=lambda wildcards: [
            f"results/{wildcards.dataset}/examples/{system}.jsonl"
            for system in stages.example_systems(
                config, wildcards.dataset, wildcards.system
            )
        ],
    output:
        model="results/{dataset}/models/{system}/model.safetensors",
        config="results/{dataset}/models/{system}/config.json",
        losses="results/{dataset}/models/{system}/losses.jsonl",
        manifest="results/{dataset}/models/{system}.manifest.json",
    log:
        "results/{dataset}/logs/retriever.{system}.log",
    benchmark:
        "results/{dataset}/benchmarks/retriever.{system}.tsv"
    conda:
        "../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(16000),
        runtime=growing(1440),
    params:
        spec=spec("retriever"),
        work=work("retriever"),
        prefixes=lambda wildcards: token_prefixes(wildcards.dataset),
        query_prefix=lambda wildcards, input: input.query_tokens.removesuffix(
            ".tokens.npy"
        ),
    shell:
        "python $PROGRAMS/launch.py --processes {resources.gpu} $LAUNCH_FLAGS --"
        " $PROGRAMS/retriever.py --spec {params.spec:q} --initial $(dirname {input.initial:q})"
        " --collection-tokens {params.prefixes:q} --query-tokens {params.query_prefix:q}"
        " --doc-ids {input.doc_ids:q} --queries {input.queries:q} --examples {input.examples:q}"
        " --output $(dirname {output.model:q}) --work-folder {params.work:q}"
        " --manifest {output.manifest:q}"
        " $SAFETY_FLAGS 2>&1 | tee {log:q}"
