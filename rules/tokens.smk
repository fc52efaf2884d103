# Needs: the collection and a tokenizer. Makes: memory-mapped 16-bit token shards.


rule tokens:
    input:
        collection=data("collection.jsonl"),
        doc_ids=data("doc_ids.txt"),
        tokenizer=lambda wildcards: (
            f"{model_folder(wildcards.dataset, 'backbone')}/tokenizer.json"
        ),
    output:
        token_parts("results/{dataset}/tokens/collection.{shard}"),
        manifest="results/{dataset}/tokens/collection.{shard}.manifest.json",
    log:
        "results/{dataset}/logs/tokens.{shard}.log",
    benchmark:
        "results/{dataset}/benchmarks/tokens.{shard}.tsv"
    conda:
        "../envs/torch.yaml"
    threads: THREADS
    resources:
        mem_mb=growing(4000),
        runtime=growing(240),
    params:
        spec=spec("tokens"),
    shell:
        "python $PROGRAMS/tokens.py --spec {params.spec:q} --collection {input.collection:q}"
        " --doc-ids {input.doc_ids:q} --backbone $(dirname {input.tokenizer:q})"
        " --shard {wildcards.shard}"
        " --output-prefix results/{wildcards.dataset}/tokens/collection.{wildcards.shard}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"


# All shards as one input of the many jobs that read them all: n jobs with n inputs each would make
# a DAG of hundreds of shards slow to build. Whoever deletes token shards must delete this file, too.
rule token_shards:
    input:
        token_files,
    output:
        touch("results/{dataset}/tokens/collection.complete"),
    localrule: True


rule query_tokens:
    input:
        queries=data("queries.{split}.jsonl"),
        tokenizer=lambda wildcards: (
            f"{model_folder(wildcards.dataset, 'backbone')}/tokenizer.json"
        ),
    output:
        token_parts("results/{dataset}/tokens/queries.{split}"),
        manifest="results/{dataset}/tokens/queries.{split}.manifest.json",
    log:
        "results/{dataset}/logs/query_tokens.{split}.log",
    conda:
        "../envs/torch.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),
    params:
        spec=spec("query_tokens"),
    shell:
        "python $PROGRAMS/query_tokens.py --spec {params.spec:q} --queries {input.queries:q}"
        " --backbone $(dirname {input.tokenizer:q})"
        " --output-prefix results/{wildcards.dataset}/tokens/queries.{wildcards.split}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"
