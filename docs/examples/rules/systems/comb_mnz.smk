# CombMNZ. Needs: runs of other systems. Makes: a run.


rule comb_mnz:
    input:
        runs=runs_of_parts("of"),
        queries=data("queries.{split}.jsonl"),
    output:
        run="results/{dataset}/systems/{system}/{variant}/run.{split}.trec",
        manifest="results/{dataset}/systems/{system}/{variant}/run.{split}.trec.manifest.json",
    log:
        "results/{dataset}/logs/comb_mnz.{system}.{variant}.{split}.log",
    wildcard_constraints:
        system=names(config.systems_of_kind("comb_mnz")),
    conda:
        "../../envs/data.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),
    params:
        job=SPECS.job("comb_mnz", settings=["system", "depth"]),
    shell:
        RUN
