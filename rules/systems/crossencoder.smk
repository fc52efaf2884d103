# Cross-encoders. Needs: a fine-tuned cross-encoder, token shards, and the run of the system whose first hits
# it reranks. Makes: a run of these hits.


rule rerank:
    input:
        model=long_encoder_of,
        candidates=hits_to_rerank,
        tokens=tokens_of_system,
        query_tokens=query_tokens_of,
        doc_ids=data("doc_ids.txt"),
        queries=data("queries.{split}.jsonl"),
        subset=subset_of_split,
        lengths=lengths_if_auto("query", "passage"),
    output:
        run="results/{dataset}/systems/{system}/{variant}/run.{split}.trec",
        manifest="results/{dataset}/systems/{system}/{variant}/run.{split}.trec.manifest.json",
    log:
        "results/{dataset}/logs/rerank.{system}.{variant}.{split}.log",
    benchmark:
        "results/{dataset}/benchmarks/rerank.{system}.{variant}.{split}.tsv"
    wildcard_constraints:
        system=names(config.systems_of_kind("crossencoder")),
    conda:
        "../../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(16000),
        runtime=growing(1440),
    params:
        job=SPECS.job(
            "rerank",
            settings=[
                "dataset.split",
                "system",
                "depth",
                "recipe.lengths",
                "encode.batch_tokens",
                "encode.block_rows",
                "compute",
            ],
            packages=TORCH,
        ),
    shell:
        RUN
