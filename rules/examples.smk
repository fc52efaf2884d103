# Needs: a system's run of the train queries and the judgements. Makes: training examples, whose
# negatives are sampled from that run: BM25's for round 1, a retriever's own mistakes after it.
# For the official MS MARCO also round 1's examples from the official triples.


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
    resources:
        mem_mb=growing(8000),
        runtime=growing(240),
    params:
        spec=spec("examples"),
    shell:
        "python $PROGRAMS/examples.py --spec {params.spec:q} --run {input.run:q}"
        " --queries {input.queries:q} --qrels {input.qrels:q} --output {output.examples:q}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"


rule triple_examples:
    input:
        triples=f"results/downloads/{stages.TRIPLES}",
        queries=lambda wildcards: data(
            f"queries.{split_of(wildcards.dataset, 'train')}.jsonl"
        ),
        qrels=lambda wildcards: data(
            f"qrels.{split_of(wildcards.dataset, 'train')}.tsv"
        ),
    output:
        examples="results/{dataset}/examples/triples.jsonl",
        manifest="results/{dataset}/examples/triples.jsonl.manifest.json",
    log:
        "results/{dataset}/logs/triple_examples.log",
    conda:
        "../envs/data.yaml"
    resources:
        mem_mb=growing(8000),
        runtime=growing(480),
    params:
        spec=spec("triple_examples"),
    shell:
        "python $PROGRAMS/triple_examples.py --spec {params.spec:q} --triples {input.triples:q}"
        " --queries {input.queries:q} --qrels {input.qrels:q} --output {output.examples:q}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"
