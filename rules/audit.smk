# Needs: the collection, queries and judgements, and with train queries the examples of the systems that
# `audit.systems` names and the runs of `audit.judges`; how long the texts are. Makes: a list of faults in the data, and their counts.


rule audit:
    input:
        unpack(audited_files),
        collection=data("collection.jsonl"),
    output:
        findings="results/{dataset}/audit.tsv",
        counts="results/{dataset}/audit.json",
        manifest="results/{dataset}/audit.manifest.json",
    log:
        "results/{dataset}/logs/audit.log",
    benchmark:
        "results/{dataset}/benchmarks/audit.tsv"
    conda:
        "../envs/data.yaml"
    resources:
        mem_mb=growing(8000),
        runtime=growing(480),
    params:
        program=program("audit"),
        spec=spec(
            "audit", settings=["audit", "lengths", "dataset.split"], packages=["numpy"]
        ),
        files=given(
            "train_queries", "eval_queries", "qrels", "examples", "runs", "lengths"
        ),
    shell:
        "{params.program} --spec {params.spec:q} --collection {input.collection:q} {params.files}"
        " --output {output.findings:q} --counts {output.counts:q} --manifest {output.manifest:q}"
        " 2>&1 | tee {log:q}"
