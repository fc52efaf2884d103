# Late interaction. Needs: a pre-trained model, token shards, the runs of the systems whose first hits are
# scored, and the token states that one of them keeps, if one has the same model. Makes: a run of these hits.


rule late:
    input:
        model=encoder_of,
        candidates=runs_of_parts("candidates"),
        states=kept_states("states"),
        starts=kept_states("starts"),
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
        "results/{dataset}/logs/late.{system}.{variant}.{split}.log",
    benchmark:
        "results/{dataset}/benchmarks/late.{system}.{variant}.{split}.tsv"
    wildcard_constraints:
        system=names(config.systems_of_kind("late")),
    conda:
        "../../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(16000),
        runtime=growing(1440),
    params:
        job=SPECS.job(
            "late",
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
