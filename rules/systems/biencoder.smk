# Bi-encoders. Needs: a fine-tuned or pre-trained model and token shards. Makes: embeddings, one shard for
# each token shard, with the token states that a late interaction reads (else their files are empty), and by
# exhaustive search a run. In results/{dataset}/last/ stays what was encoded, of which the next encoding copies rows.

BIENCODERS = config.systems_of_kind("biencoder")
ENCODING = ("encode.batch_tokens", "encode.block_rows")


rule encode:
    input:
        model=encoder_of,
        tokens=shard_to_encode,
        doc_ids=data("doc_ids.txt"),
        lengths=lengths_if_auto("passage"),
    output:
        embeddings="results/{dataset}/systems/{system}/{variant}/embeddings/collection.{shard}.npy",
        states="results/{dataset}/systems/{system}/{variant}/embeddings/collection.{shard}.states.npy",
        starts="results/{dataset}/systems/{system}/{variant}/embeddings/collection.{shard}.starts.npy",
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
        job=SPECS.job(
            "encode",
            settings=["recipe.lengths.passage", *ENCODING, "states_gb", "compute"],
            options=lambda wildcards, threads, resources: {
                "last": last_rows_of(**wildcards),
                "learnt": learnt_by(wildcards),
            },
            packages=TORCH,
        ),
    shell:
        RUN


rule encode_queries:
    input:
        model=encoder_of,
        tokens=query_tokens_of,
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
        job=SPECS.job(
            "encode_queries", settings=["recipe.lengths.query", *ENCODING, "compute"], packages=TORCH
        ),
    shell:
        RUN


rule search:
    input:
        embeddings="results/{dataset}/systems/{system}/{variant}/embeddings/collection.{shard}.npy",
        queries="results/{dataset}/systems/{system}/{variant}/embeddings/queries.{split}.npy",
        texts=data("queries.{split}.jsonl"),
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
        job=SPECS.job(
            "search",
            settings=["dataset.split", "depth", "encode.block_rows", "compute.threads", "compute.device"],
            packages=["faiss-cpu", "numpy", "torch"],
        ),
    shell:
        RUN


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
        job=SPECS.job("merge", settings=["dataset.split", "depth"], packages=["numpy"]),
    shell:
        RUN
