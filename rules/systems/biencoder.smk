# Bi-encoders. Needs: a fine-tuned or pre-trained model and token shards. Makes: embeddings, one shard for
# each token shard, and by exhaustive search a run.

BIENCODERS = experiment.systems_of_kind(config, "biencoder")
ENCODING = ("encode.batch_tokens", "encode.block_rows")


rule encode:
    input:
        model=encoder_of,
        tokens=lambda wildcards: token_file(
            wildcards.dataset, initial_of(wildcards), f"collection.{wildcards.shard}"
        ),
        doc_ids=data("doc_ids.txt"),
        lengths=lengths_if_auto("passage"),
    output:
        embeddings="results/{dataset}/systems/{system}/{variant}/embeddings/collection.{shard}.npy",
        manifest="results/{dataset}/systems/{system}/{variant}/embeddings/collection.{shard}.manifest.json",
    log:
        "results/{dataset}/logs/encode.{system}.{variant}.{shard}.log",
    benchmark:
        "results/{dataset}/benchmarks/encode.{system}.{variant}.{shard}.tsv"
    wildcard_constraints:
        system=names(BIENCODERS),
    conda:
        "../../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(8000),
        runtime=growing(240),
    params:
        program=program("encode"),
        spec=spec(
            "encode",
            settings=["recipe.lengths.passage", *ENCODING, "compute"],
            packages=TORCH,
        ),
        work=work("encode"),
        lengths=given("lengths"),
    shell:
        "{params.program} --spec {params.spec:q} --retriever $(dirname {input.model:q}) {params.lengths}"
        " --tokens {input.tokens:q} --shard {wildcards.shard} --doc-ids {input.doc_ids:q}"
        " --output {output.embeddings:q} --work-folder {params.work:q}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"


rule encode_queries:
    input:
        model=encoder_of,
        tokens=lambda wildcards: token_file(
            wildcards.dataset, initial_of(wildcards), f"queries.{wildcards.split}"
        ),
        queries=data("queries.{split}.jsonl"),
        subset=subset_of_split,
        lengths=lengths_if_auto("query"),
    output:
        embeddings="results/{dataset}/systems/{system}/{variant}/embeddings/queries.{split}.npy",
        manifest="results/{dataset}/systems/{system}/{variant}/embeddings/queries.{split}.manifest.json",
    log:
        "results/{dataset}/logs/encode_queries.{system}.{variant}.{split}.log",
    benchmark:
        "results/{dataset}/benchmarks/encode_queries.{system}.{variant}.{split}.tsv"
    wildcard_constraints:
        system=names(BIENCODERS),
    conda:
        "../../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(8000),
        runtime=growing(240),
    params:
        program=program("encode_queries"),
        spec=spec(
            "encode_queries",
            settings=["recipe.lengths.query", *ENCODING, "compute"],
            packages=TORCH,
        ),
        work=work("encode_queries"),
        given=given("subset", "lengths"),
    shell:
        "{params.program} --spec {params.spec:q}"
        " --retriever $(dirname {input.model:q}) --tokens {input.tokens:q}"
        " --queries {input.queries:q} {params.given} --output {output.embeddings:q}"
        " --work-folder {params.work:q} --manifest {output.manifest:q} 2>&1 | tee {log:q}"


rule search:
    input:
        embeddings="results/{dataset}/systems/{system}/{variant}/embeddings/collection.{shard}.npy",
        queries="results/{dataset}/systems/{system}/{variant}/embeddings/queries.{split}.npy",
        doc_ids=data("doc_ids.txt"),
    output:
        rows="results/{dataset}/systems/{system}/{variant}/search/{split}.{shard}.rows.npy",
        scores="results/{dataset}/systems/{system}/{variant}/search/{split}.{shard}.scores.npy",
        manifest="results/{dataset}/systems/{system}/{variant}/search/{split}.{shard}.manifest.json",
    log:
        "results/{dataset}/logs/search.{system}.{variant}.{split}.{shard}.log",
    benchmark:
        "results/{dataset}/benchmarks/search.{system}.{variant}.{split}.{shard}.tsv"
    wildcard_constraints:
        system=names(BIENCODERS),
    conda:
        "../../envs/search.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(8000),
        runtime=growing(480),
    params:
        program=program("search"),
        spec=spec(
            "search",
            settings=[
                "dataset.split",
                "depth",
                "encode.block_rows",
                "compute.threads",
                "compute.device",
            ],
            packages=["faiss-cpu", "numpy", "torch"],
        ),
        work=work("search"),
    shell:
        "{params.program} --spec {params.spec:q} --embeddings {input.embeddings:q}"
        " --shard {wildcards.shard} --doc-ids {input.doc_ids:q} --queries {input.queries:q}"
        " --rows {output.rows:q} --scores {output.scores:q} --work-folder {params.work:q}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"


rule merge:
    input:
        rows=[
            f"results/{{dataset}}/systems/{{system}}/{{variant}}/search/{{split}}.{shard}.rows.npy"
            for shard in SHARDS
        ],
        scores=[
            f"results/{{dataset}}/systems/{{system}}/{{variant}}/search/{{split}}.{shard}.scores.npy"
            for shard in SHARDS
        ],
        doc_ids=data("doc_ids.txt"),
        queries=data("queries.{split}.jsonl"),
        subset=subset_of_split,
    output:
        run="results/{dataset}/systems/{system}/{variant}/run.{split}.trec",
        manifest="results/{dataset}/systems/{system}/{variant}/run.{split}.trec.manifest.json",
    log:
        "results/{dataset}/logs/merge.{system}.{variant}.{split}.log",
    wildcard_constraints:
        system=names(BIENCODERS),
    conda:
        "../../envs/search.yaml"
    resources:
        mem_mb=growing(8000),
        runtime=growing(240),
    params:
        program=program("merge"),
        spec=spec("merge", settings=["dataset.split", "depth"], packages=["numpy"]),
        subset=given("subset"),
    shell:
        "{params.program} --spec {params.spec:q} --rows {input.rows:q}"
        " --scores {input.scores:q} --doc-ids {input.doc_ids:q} --queries {input.queries:q}"
        " {params.subset} --output {output.run:q} --manifest {output.manifest:q} 2>&1 | tee {log:q}"
