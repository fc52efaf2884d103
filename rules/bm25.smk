# Needs: the collection. Makes: a Lucene index and BM25 runs of any split.


rule bm25_index:
    input:
        collection=data("collection.jsonl"),
    output:
        index=directory("results/{dataset}/bm25/index"),
        manifest="results/{dataset}/bm25/index.manifest.json",
    log:
        "results/{dataset}/logs/bm25_index.log",
    benchmark:
        "results/{dataset}/benchmarks/bm25_index.tsv"
    conda:
        "../envs/bm25.yaml"
    threads: THREADS
    resources:
        mem_mb=growing(4000),
        runtime=growing(240),
    params:
        spec=spec("bm25_index"),
    shell:
        "python $PROGRAMS/bm25_index.py --spec {params.spec:q} --collection {input.collection:q}"
        " --threads {threads} --heap-mb $(( {resources.mem_mb} / 2 )) --output {output.index:q}"
        " --manifest {output.manifest:q}"
        " 2>&1 | tee {log:q}"


rule bm25_run:
    input:
        index="results/{dataset}/bm25/index",
        queries=data("queries.{split}.jsonl"),
    output:
        run="results/{dataset}/runs/bm25.{split}.trec",
        manifest="results/{dataset}/runs/bm25.{split}.trec.manifest.json",
    log:
        "results/{dataset}/logs/bm25_run.{split}.log",
    benchmark:
        "results/{dataset}/benchmarks/bm25_run.{split}.tsv"
    conda:
        "../envs/bm25.yaml"
    threads: THREADS
    resources:
        mem_mb=growing(4000),
        runtime=growing(480),
    params:
        spec=spec("bm25_run"),
        work=work("bm25_run"),
    shell:
        "python $PROGRAMS/bm25_run.py --spec {params.spec:q} --index {input.index:q}"
        " --queries {input.queries:q} --threads {threads} --heap-mb $(( {resources.mem_mb} / 2 )) --work-folder {params.work:q}"
        " --output {output.run:q} --manifest {output.manifest:q} 2>&1 | tee {log:q}"
