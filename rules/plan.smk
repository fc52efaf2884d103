# Needs: nothing. Makes: what a table will cost, table2.plan.tsv on this machine, or table2.plan.H200.tsv on a machine
# of condenser/pipeline/rates/seconds.tsv.
#
# What is finished of the table's jobs is in the param `counted`, which Snakemake compares with its own record
# (rules/snakemake.smk), and no part of the spec: `verify` would call a plan stale as soon as a job has run.


rule plan:
    input:
        rates=sorted(
            os.path.relpath(file) for file in (ROOT / "condenser" / "pipeline" / "rates").glob("*.tsv")
        ),
    output:
        plan="results/{dataset}/{table}.plan{on}.tsv",
        manifest="results/{dataset}/{table}.plan{on}.tsv.manifest.json",
    log:
        "results/{dataset}/logs/plan.{table}{on}.log",
    wildcard_constraints:
        on="|".join(["", *(rf"\.{machine}" for machine in costs.MACHINES)]),
    conda:
        "../envs/torch.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=growing(30),
    params:
        job=SPECS.job(
            "plan", options=lambda wildcards, threads, resources: {"counted": counted_jobs(wildcards)}
        ),
        counted=counted_jobs,
    shell:
        RUN
