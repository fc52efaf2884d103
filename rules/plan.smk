# Needs: nothing. Makes: what a table will cost, table2.plan.tsv by the measured rates of this machine, or
# table2.plan.<device>.tsv by those of a row of devices.tsv.
#
# The settings of the table's jobs are a file among the inputs, so that the spec depends on them. Their finished
# results are not: `verify` would call a plan stale as soon as a job has run. The file that has these too is the
# param `counted`, which Snakemake compares with its own record (rules/snakemake.smk).

from condenser import objectives

# relative, so that a moved checkout has the same inputs
COSTS = Path(os.path.relpath(ROOT / "condenser" / "pipeline" / "costs" / "tables"))


rule plan:
    input:
        jobs=lambda wildcards: planned.write_jobs(
            *planned_table(wildcards.dataset, wildcards.table), specs=SPECS
        ),
        tables=sorted(map(str, COSTS.glob("*.tsv"))),
    output:
        plan="results/{dataset}/{table}.plan{on}.tsv",
        manifest="results/{dataset}/{table}.plan{on}.tsv.manifest.json",
    log:
        "results/{dataset}/logs/plan.{table}{on}.log",
    wildcard_constraints:
        on=r"(\.[A-Za-z0-9_-]+)?",
    conda:
        "../envs/torch.yaml"
    threads: THREADS
    resources:
        mem_mb=growing(4000),
        runtime=growing(30),
    params:
        job=SPECS.job(
            "plan",
            settings=["compute"],
            modules=lambda settings: [
                kinds.module_name(folder, name)
                for folder in (objectives.FOLDER, SYSTEMS)
                for name in kinds.names(folder)
            ],
            options=lambda wildcards, threads, resources: {
                "device": wildcards.on.removeprefix(".") or "measure",
                "counted": counted_jobs(wildcards),
            },
        ),
        counted=counted_jobs,
    shell:
        RUN
