# Needs: the collection, queries and judgements; how long the texts are. Makes: a list of faults in the data, and their
# counts.


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
        job=SPECS.job(
            "audit",
            settings=["audit", "lengths", "metrics.relevant_grade", "dataset.split"],
            packages=["numpy"],
        ),
    shell:
        RUN
