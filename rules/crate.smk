# Needs: a table and the manifests of all jobs behind it. Makes: a Provenance Run Crate, which says how the
# table was made, and which `verify` compares with the results of another machine. It records times, so it is
# out of date when a job behind it has run again.


rule crate:
    input:
        table="results/{dataset}/{table}.tsv",
        manifests=lambda wildcards: [manifest_of(*job) for job in SPECS.jobs_behind("table", dict(wildcards))],
        # relative, so that a moved checkout has the same inputs
        workflow=os.path.relpath(ROOT / "Snakefile"),
    output:
        crate="results/{dataset}/{table}.crate.zip",
        manifest="results/{dataset}/{table}.crate.zip.manifest.json",
    log:
        "results/{dataset}/logs/crate.{table}.log",
    conda:
        "../envs/verify.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=growing(30),
    params:
        job=SPECS.job("crate"),
    shell:
        RUN
