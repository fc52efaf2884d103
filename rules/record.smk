# Needs: a table and the manifests of all jobs behind it. Makes: its record, which says how the table was made,
# and which `verify` compares with the results of another machine. It records times, so it is out of date when
# a job behind it has run again.


rule record:
    input:
        table="results/{dataset}/{table}.tsv",
        manifests=lambda wildcards: [
            manifest_of(*job)
            for job in SPECS.jobs_behind_all([("table", dict(wildcards))], with_learnt_from=False)
        ],
    output:
        record="results/{dataset}/{table}.record.json",
        manifest="results/{dataset}/{table}.record.json.manifest.json",
    log:
        "results/{dataset}/logs/record.{table}.log",
    conda:
        "../envs/verify.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=growing(30),
    params:
        job=SPECS.job("record"),
    shell:
        RUN
