# Needs: nothing. Makes: what a table will cost, table2.plan.tsv by the measured rates of this machine, or
# table2.plan.<device>.tsv by those of a row of devices.tsv.
#
# The settings of the table's jobs are a file among the inputs, so that the spec depends on them. Their finished
# results are not: `verify` would call a plan stale as soon as a job has run. The file that has these too is the
# param `counted`, which Snakemake compares with its own record (rules/snakemake.smk).

from condenser import objectives
from condenser.pipeline.costs import jobs as planned

# relative, so that a moved checkout has the same inputs
COSTS = Path(os.path.relpath(ROOT / "condenser" / "pipeline" / "costs" / "tables"))


rule plan:
    input:
        jobs=lambda wildcards: planned.write_jobs(
            *planned_table(wildcards), specs=SPECS
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
        # by `input` a param is derived, which Snakemake does not compare: a checkout may move
        program=lambda wildcards, input: program("plan")(wildcards),
        tables=lambda wildcards, input: os.path.dirname(input.tables[0]),
        spec=spec(
            "plan",
            settings=["compute"],
            modules=lambda settings: [
                kinds.module_name(folder, name)
                for folder in (objectives.FOLDER, SYSTEMS)
                for name in kinds.names(folder)
            ],
        ),
        device=lambda wildcards: wildcards.on.removeprefix(".") or "measure",
        counted=lambda wildcards: planned.write_jobs(
            *planned_table(wildcards),
            specs=SPECS,
            is_counted=True,
            is_timed=not wildcards.on,
        ),
    shell:
        "{params.program} --spec {params.spec:q} --jobs {params.counted:q}"
        " --device {params.device:q} --tables {params.tables:q} --output {output.plan:q}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"
