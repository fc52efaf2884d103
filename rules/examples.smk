# Needs: a system's run of the train queries and the judgements. Makes: training examples, whose
# negatives are sampled from that run: BM25's for round 1, a retriever's own mistakes after it.


rule examples:
    input:
        run=lambda wildcards: run_file(
            wildcards.dataset, wildcards.system, split_of(wildcards.dataset, "train")
        ),
        queries=lambda wildcards: data(
            f"queries.{split_of(wildcards.dataset, 'train')}.jsonl"
        ),
        qrels=lambda wildcards: data(
            f"qrels.{split_of(wildcards.dataset, 'train')}.tsv"
        ),
    output:
        examples="results/{dataset}/examples/{system}.jsonl",
        manifest="results/{dataset}/examples/{system}.jsonl.manifest.json",
    log:
        "results/{dataset}/logs/examples.{system}.log",
    conda:
        "../envs/data.yaml"
    params:
        spec=spec("examples"),
    shell:
        "python {PROGRAMS}/examples.py --spec {params.spec:q} --run {input.run:q}"
        " --queries {input.queries:q} --qrels {input.qrels:q} --output {output.examples:q}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"
