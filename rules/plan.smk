# Needs: nothing; what has been made is counted instead of assumed, and never asked for.
# Makes: the plan of table 2, plan.tsv by this machine's measured rates, or plan.<device>.tsv by
# those of a device in devices.tsv: results/msmarco/plan.H200.tsv.
#
# Counts are no inputs, or the plan would run the stages it speaks of. They are a param of which
# Snakemake keeps the record, so that a plan is made anew when counts appear.

from condenser.pipeline.costs import plan

PLAN_TABLES = [
    os.path.join(
        workflow.basedir, "condenser", "pipeline", "costs", "tables", f"{name}.tsv"
    )
    for name in ("assumptions", "backbones", "collections", "devices", "rates")
]


rule plan:
    input:
        tables=PLAN_TABLES,
    output:
        plan="results/{dataset}/plan{on}.tsv",
        manifest="results/{dataset}/plan{on}.tsv.manifest.json",
    log:
        "results/{dataset}/logs/plan{on}.log",
    wildcard_constraints:
        on=r"(\.[A-Za-z0-9_-]+)?",
    conda:
        "../envs/data.yaml"
    threads: THREADS
    resources:
        mem_mb=growing(4000),
        runtime=growing(30),
    params:
        spec=spec("plan"),
        device=lambda wildcards: wildcards.on.removeprefix(".") or "measure",
        counted=lambda wildcards: list(
            map(
                str,
                plan.current_manifests(
                    config, wildcards.dataset, Path("results"), spec=SPECS.spec
                ),
            )
        ),
    shell:
        "python $PROGRAMS/plan.py --spec {params.spec:q} --device {params.device:q}"
        " --tables $(dirname {input.tables[0]:q}) --counted {params.counted:q} --output {output.plan:q}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"
