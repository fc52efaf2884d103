# Bi-encoders. Needs: a fine-tuned or pre-trained model and token shards. Makes: embeddings, one shard for
# each token shard, and by exhaustive search a run.

BIENCODERS = experiment.systems_of_kind(config, "biencoder")


def encoder_of(wildcards):
    """The weights of a bi-encoder: its own, or those of the model that it is without fine-tuning."""
    if experiment.is_trained(config, wildcards.system):
        return (SYSTEM + "model/model.safetensors").format(**wildcards)
    return model_file(wildcards.dataset, initial_of(wildcards))


def subset_of_split(wildcards):
    """Of the train queries, only those of the variant are encoded and searched."""
    is_train = wildcards.split == split_of(wildcards.dataset, "train_split")
    return subset_file(wildcards) if is_train else []


ENCODER = ("torch", "transformers", "numpy")


rule encode:
    input:
        model=encoder_of,
        tokens=lambda wildcards: token_file(
            wildcards.dataset, initial_of(wildcards), f"collection.{wildcards.shard}"
        ),
        doc_ids=data("doc_ids.txt"),
    output:
        embeddings=SYSTEM + "embeddings/collection.{shard}.npy",
        manifest=SYSTEM + "embeddings/collection.{shard}.manifest.json",
    log:
        "results/{dataset}/logs/encode.{system}.{variant}.{shard}.log",
    wildcard_constraints:
        system=names(BIENCODERS),
    benchmark:
        "results/{dataset}/benchmarks/encode.{system}.{variant}.{shard}.tsv"
    conda:
        "../../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(8000),
        runtime=growing(240),
    params:
        spec=spec(
            "encode",
            settings=["recipe.lengths.passage", "encode", "compute"],
            packages=ENCODER,
        ),
        work=work("encode"),
    shell:
        "python {PROGRAMS:q}/encode.py --spec {params.spec:q} --retriever $(dirname {input.model:q})"
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
    output:
        embeddings=SYSTEM + "embeddings/queries.{split}.npy",
        manifest=SYSTEM + "embeddings/queries.{split}.manifest.json",
    log:
        "results/{dataset}/logs/encode_queries.{system}.{variant}.{split}.log",
    wildcard_constraints:
        system=names(BIENCODERS),
    benchmark:
        "results/{dataset}/benchmarks/encode_queries.{system}.{variant}.{split}.tsv"
    conda:
        "../../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(8000),
        runtime=growing(240),
    params:
        spec=spec(
            "encode_queries",
            settings=["recipe.lengths.query", "encode", "compute"],
            packages=ENCODER,
        ),
        work=work("encode_queries"),
        subset=lambda wildcards, input: (
            f"--subset {shlex.quote(str(input.subset))}" if input.get("subset") else ""
        ),
    shell:
        "python {PROGRAMS:q}/encode_queries.py --spec {params.spec:q}"
        " --retriever $(dirname {input.model:q}) --tokens {input.tokens:q}"
        " --queries {input.queries:q} {params.subset} --output {output.embeddings:q}"
        " --work-folder {params.work:q} --manifest {output.manifest:q} 2>&1 | tee {log:q}"


rule search:
    input:
        embeddings=SYSTEM + "embeddings/collection.{shard}.npy",
        queries=SYSTEM + "embeddings/queries.{split}.npy",
        doc_ids=data("doc_ids.txt"),
    output:
        rows=SYSTEM + "search/{split}.{shard}.rows.npy",
        scores=SYSTEM + "search/{split}.{shard}.scores.npy",
        manifest=SYSTEM + "search/{split}.{shard}.manifest.json",
    log:
        "results/{dataset}/logs/search.{system}.{variant}.{split}.{shard}.log",
    wildcard_constraints:
        system=names(BIENCODERS),
    benchmark:
        "results/{dataset}/benchmarks/search.{system}.{variant}.{split}.{shard}.tsv"
    conda:
        "../../envs/search.yaml"
    threads: THREADS
    resources:
        mem_mb=growing(8000),
        runtime=growing(480),
    params:
        spec=spec(
            "search",
            settings=["depth", "encode.block_rows", "compute.threads"],
            packages=["faiss-cpu", "numpy"],
        ),
        work=work("search"),
    shell:
        "python {PROGRAMS:q}/search.py --spec {params.spec:q} --embeddings {input.embeddings:q}"
        " --shard {wildcards.shard} --doc-ids {input.doc_ids:q} --queries {input.queries:q}"
        " --rows {output.rows:q} --scores {output.scores:q} --work-folder {params.work:q}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"


rule merge:
    input:
        rows=[SYSTEM + f"search/{{split}}.{shard}.rows.npy" for shard in SHARDS],
        scores=[SYSTEM + f"search/{{split}}.{shard}.scores.npy" for shard in SHARDS],
        doc_ids=data("doc_ids.txt"),
        queries=data("queries.{split}.jsonl"),
        subset=subset_of_split,
    output:
        run=SYSTEM + "run.{split}.trec",
        manifest=SYSTEM + "run.{split}.trec.manifest.json",
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
        spec=spec("merge", settings=["depth"], packages=["numpy"]),
        subset=lambda wildcards, input: (
            f"--subset {shlex.quote(str(input.subset))}" if input.get("subset") else ""
        ),
    shell:
        "python {PROGRAMS:q}/merge.py --spec {params.spec:q} --rows {input.rows:q}"
        " --scores {input.scores:q} --doc-ids {input.doc_ids:q} --queries {input.queries:q}"
        " {params.subset} --output {output.run:q} --manifest {output.manifest:q} 2>&1 | tee {log:q}"
