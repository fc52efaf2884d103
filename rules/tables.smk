# Needs: runs and judgements. Makes: metrics of each system, and the papers' tables.


rule metrics:
    input:
        run="results/{dataset}/runs/{system}.{split}.trec",
        qrels=data("qrels.{split}.tsv"),
    output:
        metrics="results/{dataset}/metrics/{system}.{split}.json",
        manifest="results/{dataset}/metrics/{system}.{split}.json.manifest.json",
    log:
        "results/{dataset}/logs/metrics.{system}.{split}.log",
    conda:
        "../envs/search.yaml"
    resources:
        mem_mb=growing(8000),
        runtime=growing(60),
    params:
        spec=spec("metrics"),
    shell:
        "python $PROGRAMS/metrics.py --spec {params.spec:q} --run {input.run:q}"
        " --qrels {input.qrels:q} --output {output.metrics:q} --manifest {output.manifest:q}"
        " 2>&1 | tee {log:q}"


rule table2:
    input:
        unpack(table2_metrics),
        counts=data("counts.json"),
    output:
        table="results/{dataset}/table2.tsv",
        manifest="results/{dataset}/table2.tsv.manifest.json",
    log:
        "results/{dataset}/logs/table2.log",
    conda:
        "../envs/search.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        spec=spec("table2"),
        metrics=lambda wildcards, input: [
            f"{name.replace('_', '-')}={file}"
            for name, file in table2_metrics(wildcards).items()
        ],
    shell:
        "python $PROGRAMS/table2.py --spec {params.spec:q} --metrics {params.metrics:q}"
        " --counts {input.counts:q} --output {output.table:q} --manifest {output.manifest:q}"
        " 2>&1 | tee {log:q}"
