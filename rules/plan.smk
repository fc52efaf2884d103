# What a table will cost: table2.plan.tsv by this machine's measured rates, or table2.plan.<device>.tsv by those
# of a row of devices.tsv. Needs: nothing; results that are there are counted, and never asked for.
#
# The plan is out of date when the settings of the table's jobs change, which are a file among its inputs, or one
# of the tables of rates and sizes. What is finished of the jobs is a param that Snakemake's own record decides: a
# plan that is asked for again counts what has been made since, and is not out of date until then.


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
        program=program("plan"),
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
        "{params.program} --spec {params.spec:q} --jobs {input.jobs:q}"
        " --finished {params.counted:q} --device {params.device:q} --tables $(dirname {input.tables[0]:q})"
        " --output {output.plan:q} --manifest {output.manifest:q} 2>&1 | tee {log:q}"
