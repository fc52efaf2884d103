# Needs: a retriever and token shards. Makes: embeddings, and by exhaustive search a run.


rule encode:
    input:
        model="results/{dataset}/models/{system}/model.safetensors",
        tokens="results/{dataset}/tokens/collection.complete",
        doc_ids=data("doc_ids.txt"),
    output:
        embeddings="results/{dataset}/embeddings/{system}/collection.{shard}.npy",
        manifest="results/{dataset}/embeddings/{system}/collection.{shard}.manifest.json",
    log:
        "results/{dataset}/logs/encode.{system}.{shard}.log",
    benchmark:
        "results/{dataset}/benchmarks/encode.{system}.{shard}.tsv"
    conda:
        "../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(8000),
        runtime=growing(240),
    params:
        spec=spec("encode"),
        work=work("encode"),
        prefixes=lambda wildcards: token_prefixes(wildcards.dataset),
    shell:
        "python $PROGRAMS/encode.py --spec {params.spec:q} --retriever $(dirname {input.model:q})"
        " --tokens {params.prefixes:q} --shard {wildcards.shard} --doc-ids {input.doc_ids:q}"
        " --output {output.embeddings:q} --work-folder {params.work:q} --manifest {output.manifest:q} 2>&1 | tee {log:q}"


rule encode_queries:
    input:
        model="results/{dataset}/models/{system}/model.safetensors",
        tokens="results/{dataset}/tokens/queries.{split}.tokens.npy",
        queries=data("queries.{split}.jsonl"),
    output:
        embeddings="results/{dataset}/embeddings/{system}/queries.{split}.npy",
        manifest="results/{dataset}/embeddings/{system}/queries.{split}.manifest.json",
    log:
        "results/{dataset}/logs/encode_queries.{system}.{split}.log",
    benchmark:
        "results/{dataset}/benchmarks/encode_queries.{system}.{split}.tsv"
    conda:
        "../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(8000),
        runtime=growing(240),
    params:
        spec=spec("encode_queries"),
        work=work("encode_queries"),
        prefix=lambda wildcards, input: input.tokens.removesuffix(".tokens.npy"),
    shell:
        "python $PROGRAMS/encode_queries.py --spec {params.spec:q}"
        " --retriever $(dirname {input.model:q}) --tokens {params.prefix:q}"
        " --queries {input.queries:q} --output {output.embeddings:q}"
        " --work-folder {params.work:q} --manifest {output.manifest:q} 2>&1 | tee {log:q}"


rule search:
    input:
        embeddings="results/{dataset}/embeddings/{system}/collection.{shard}.npy",
        queries="results/{dataset}/embeddings/{system}/queries.{split}.npy",
        doc_ids=data("doc_ids.txt"),
    output:
        rows="results/{dataset}/search/{system}.{split}.{shard}.rows.npy",
        scores="results/{dataset}/search/{system}.{split}.{shard}.scores.npy",
        manifest="results/{dataset}/search/{system}.{split}.{shard}.manifest.json",
    log:
        "results/{dataset}/logs/search.{system}.{split}.{shard}.log",
    benchmark:
        "results/{dataset}/benchmarks/search.{system}.{split}.{shard}.tsv"
    conda:
        "../envs/search.yaml"
    threads: THREADS
    resources:
        mem_mb=growing(8000),
        runtime=growing(480),
    params:
        spec=spec("search"),
        work=work("search"),
    shell:
        "python $PROGRAMS/search.py --spec {params.spec:q} --embeddings {input.embeddings:q}"
        " --shard {wildcards.shard} --doc-ids {input.doc_ids:q} --queries {input.queries:q}"
        " --rows {output.rows:q} --scores {output.scores:q} --work-folder {params.work:q}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"


rule merge:
    input:
        rows=lambda wildcards: [
            f"results/{wildcards.dataset}/search/{wildcards.system}.{wildcards.split}.{shard}.rows.npy"
            for shard in stages.shards(config, "encode")
        ],
        scores=lambda wildcards: [
            f"results/{wildcards.dataset}/search/{wildcards.system}.{wildcards.split}.{shard}.scores.npy"
            for shard in stages.shards(config, "encode")
        ],
        doc_ids=data("doc_ids.txt"),
        queries=data("queries.{split}.jsonl"),
    output:
        run="results/{dataset}/runs/{system}.{split}.trec",
        manifest="results/{dataset}/runs/{system}.{split}.trec.manifest.json",
    log:
        "results/{dataset}/logs/merge.{system}.{split}.log",
    wildcard_constraints:
        system=r"(backbone|condenser|cocondenser)-round[1-9]\d*",
    conda:
        "../envs/search.yaml"
    resources:
        mem_mb=growing(8000),
        runtime=growing(240),
    params:
        spec=spec("merge"),
    shell:
        "python $PROGRAMS/merge.py --spec {params.spec:q} --rows {input.rows:q}"
        " --scores {input.scores:q} --doc-ids {input.doc_ids:q} --queries {input.queries:q}"
        " --output {output.run:q} --manifest {output.manifest:q} 2>&1 | tee {log:q}"
