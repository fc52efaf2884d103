# Ensembles. Needs: runs of systems that rank the same hits. Makes: a run of these hits by their mean scores.


rule ensemble:
    input:
        runs=lambda wildcards: runs_of(wildcards, "of"),
    output:
        run="results/{dataset}/systems/{system}/{variant}/run.{split}.trec",
        manifest="results/{dataset}/systems/{system}/{variant}/run.{split}.trec.manifest.json",
    log:
        "results/{dataset}/logs/ensemble.{system}.{variant}.{split}.log",
    wildcard_constraints:
        system=names(experiment.systems_of_kind(config, "ensemble")),
    conda:
        "../../envs/data.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=growing(240),
    params:
        job=SPECS.job("ensemble", settings=["system", "depth"]),
    shell:
        RUN
