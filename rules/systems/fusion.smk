# Fusions. Needs: runs of other systems; to learn weights, those of train queries. Makes: a run of the hits of
# all, and the weights.


rule fusion_weights:
    input:
        unpack(judged_to_mix_by),
        queries=data("queries.{train}.jsonl"),
        qrels=data("qrels.{train}.tsv"),
    output:
        weights="results/{dataset}/systems/{system}/{variant}/weights.json",
        manifest="results/{dataset}/systems/{system}/{variant}/weights.json.manifest.json",
    log:
        "results/{dataset}/logs/fusion_weights.{system}.{variant}.log",
    wildcard_constraints:
        system=names(config.systems_of_kind("fusion")),
    conda:
        "../../envs/data.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(240),
    params:
        job=SPECS.job(
            "fusion_weights", settings=["system", "metrics.relevant_grade"], packages=["numpy", "scipy"]
        ),
    shell:
        RUN


rule fusion:
    input:
        runs=runs_of_parts("of"),
        weights=weights_if_learnt,
        queries=data("queries.{split}.jsonl"),
        subset=subset_of_split,
    output:
        run="results/{dataset}/systems/{system}/{variant}/run.{split}.trec",
        manifest="results/{dataset}/systems/{system}/{variant}/run.{split}.trec.manifest.json",
    log:
        "results/{dataset}/logs/fusion.{system}.{variant}.{split}.log",
    wildcard_constraints:
        system=names(config.systems_of_kind("fusion")),
    conda:
        "../../envs/data.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=growing(240),
    params:
        job=SPECS.job("fusion", settings=["system", "depth"]),
    shell:
        RUN
