# Fine-tuning, one rule for all kinds of systems: from a pre-trained model and the examples of the systems
# whose negatives it learns from. A second round is this rule for another system of the configuration: it
# starts from the pre-trained model again and reads one more file of examples.


FINE_TUNING = (  # what of a recipe a training reads
    "tied",
    "lengths",
    "batch_size",
    "passages_per_query",
    "rows_per_chunk",
    "epochs",
    "updates",
    "scale",
    "learning_rate",
    "weight_decay",
    "warmup_ratio",
    "max_grad_norm",
    "drop_last",
)


rule train:
    input:
        initial=initial_file,
        tokens=lambda wildcards: collection_tokens(
            wildcards.dataset, initial_of(wildcards)
        ),
        query_tokens=lambda wildcards: token_file(
            wildcards.dataset,
            initial_of(wildcards),
            f"queries.{split_of(wildcards.dataset, 'train_split')}",
        ),
        doc_ids=data("doc_ids.txt"),
        queries=data("queries.{train}.jsonl"),
        examples=examples_of,
        lengths=lengths_if_auto("query", "passage"),
    output:
        model="results/{dataset}/systems/{system}/{variant}/model/model.safetensors",
        losses="results/{dataset}/systems/{system}/{variant}/model/losses.jsonl",
        manifest="results/{dataset}/systems/{system}/{variant}/model.manifest.json",
    log:
        "results/{dataset}/logs/train.{system}.{variant}.log",
    benchmark:
        "results/{dataset}/benchmarks/train.{system}.{variant}.tsv"
    wildcard_constraints:
        system=names(TRAINED),
    conda:
        "../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(16000),
        runtime=growing(1440),
    params:
        program=launched("train"),
        options=SAFETY,
        spec=spec(
            "train",
            settings=[
                "system",
                *(f"recipe.{key}" for key in FINE_TUNING),
                "compute",
                "seed",
            ],
            packages=TORCH,
            modules=lambda settings: [
                kinds.module_name(SYSTEMS, settings["system"]["kind"])
            ],
        ),
        work=work("train"),
        lengths=given("lengths"),
        folder=lambda wildcards, output: os.path.dirname(output.model),
        query_prefix=lambda wildcards, input: input.query_tokens.removesuffix(
            ".tokens.npy"
        ),
    shell:
        "{params.program} --spec {params.spec:q} --initial $(dirname {input.initial:q})"
        " --collection-tokens {input.tokens:q} --query-tokens {params.query_prefix:q}"
        " --doc-ids {input.doc_ids:q} --queries {input.queries:q} --examples {input.examples:q} {params.lengths}"
        " --output {params.folder:q} --work-folder {params.work:q}"
        " --manifest {output.manifest:q} {params.options} 2>&1 | tee {log:q}"
