# Fusions. Needs: runs of other systems. Makes: a run of the hits of all.


rule fusion:
    input:
        runs=lambda wildcards: runs_of(wildcards, "of"),
        queries=data("queries.{split}.jsonl"),
        subset=subset_of_split,
    output:
        run="results/{dataset}/systems/{system}/{variant}/run.{split}.trec",
        manifest="results/{dataset}/systems/{system}/{variant}/run.{split}.trec.manifest.json",
    log:
        "results/{dataset}/logs/fusion.{system}.{variant}.{split}.log",
    wildcard_constraints:
        system=names(experiment.systems_of_kind(config, "fusion")),
    conda:
        "../../envs/data.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=growing(240),
    params:
        job=job("fusion", settings=["system", "depth"]),
    shell:
        RUN
