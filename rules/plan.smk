# What a table will cost: table2.plan.tsv by this machine's measured rates, or table2.plan.<device>.tsv by those
# of a row of devices.tsv. Needs: nothing; results that are there are counted, and never asked for.
#
# The plan is out of date when the settings of the table's jobs change, which are a file among its inputs, or one
# of the tables of rates and sizes. What is finished of the jobs is a param that Snakemake's own record decides: a
# plan that is asked for again counts what has been made since, and is not out of date until then.

from condenser import objectives, systems
from condenser.pipeline.costs import jobs as planned

COSTS = ROOT / "condenser" / "pipeline" / "costs" / "tables"


def jobs_of_table(wildcards):
    return SPECS.jobs_behind(
        "table", {"dataset": wildcards.dataset, "table": wildcards.table}
    )


def settings_of_jobs(wildcards):
    """A file of the table's jobs with their settings."""
    file = Path(WORK, "plan", wildcards.dataset, f"jobs_of_{wildcards.table}.json")
    try:
        planned.write_jobs(
            file,
            jobs_of_table(wildcards),
            config_of=lambda stage, of: SPECS.spec(stage, of)["config"],
            needs_of=lambda stage, of: filter(
                None, map(owner_of, inputs_of(stage, of))
            ),
        )
    except (LookupError, ValueError) as error:
        sys.exit(f"error: plan: {error}")
    return str(file)


def finished_jobs(wildcards):
    """A file of what the finished results of these jobs count; of this machine, how long they took, too."""

    def benchmark_of(stage, of):
        if wildcards.on:
            return None
        return next(
            workflow.get_rule(name).expand_benchmark(of)
            for name, (made, fixed) in RULES.items()
            if made == stage and fixed.items() <= of.items()
        )

    return planned.write_finished(
        Path(WORK, "plan", wildcards.dataset),
        [
            planned.finished(
                Path(manifest_of_job(stage, of)),
                benchmark_of(stage, of),
                spec=SPECS.spec(stage, of),
            )
            for stage, of in jobs_of_table(wildcards)
        ],
    )


rule plan:
    input:
        jobs=settings_of_jobs,
        tables=sorted(map(str, COSTS.glob("*.tsv"))),
    output:
        plan="results/{dataset}/{table}.plan{on}.tsv",
        manifest="results/{dataset}/{table}.plan{on}.tsv.manifest.json",
    log:
        "results/{dataset}/logs/{table}.plan{on}.log",
    wildcard_constraints:
        on=r"(\.[A-Za-z0-9_-]+)?",
    conda:
        "../envs/data.yaml"
    threads: THREADS
    resources:
        mem_mb=growing(4000),
        runtime=growing(30),
    params:
        spec=spec(
            "plan",
            settings=["compute"],
            modules=lambda settings: [
                kinds.module_name(folder, name)
                for folder in (objectives.FOLDER, systems.FOLDER)
                for name in kinds.names(folder)
            ],
        ),
        device=lambda wildcards: wildcards.on.removeprefix(".") or "measure",
        counted=finished_jobs,
    shell:
        "python {PROGRAMS:q}/plan.py --spec {params.spec:q} --jobs {input.jobs:q}"
        " --finished {params.counted:q} --device {params.device:q} --tables $(dirname {input.tables[0]:q})"
        " --output {output.plan:q} --manifest {output.manifest:q} 2>&1 | tee {log:q}"
